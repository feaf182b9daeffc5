// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// bookable are limits that a call can be booked under.
var bookable = map[string][]storeless.Limit{
	"meter":        {{Algorithm: storeless.LeakyBucket, Quota: 10, Window: time.Second}},
	"uneven meter": {{Algorithm: storeless.LeakyBucket, Quota: 7, Window: time.Second}},
	"bucket":       {{Algorithm: storeless.TokenBucket, Quota: 60, Window: time.Minute, Burst: 5}},
	"requests, and a minute's": {{Name: "second", Algorithm: storeless.LeakyBucket, Quota: 4, Window: time.Second},
		{Name: "minute", Algorithm: storeless.TokenBucket, Quota: 60, Window: time.Minute, Burst: 20}},
	"three": {{Name: "a", Algorithm: storeless.TokenBucket, Quota: 10, Window: time.Second, Burst: 3},
		{Name: "b", Algorithm: storeless.TokenBucket, Quota: 90, Window: 11 * time.Second, Burst: 9},
		{Name: "c", Algorithm: storeless.TokenBucket, Quota: 300, Window: time.Minute, Burst: 40}},
}

// A moment is a charge as a brute-force list remembers it.
type moment struct {
	receipt exact.Receipt
	past    bool
}

// admits fails if any span of a list has more than its limits admit. interval and burst are
// of the limit.
func admits(t *testing.T, l storeless.Limit, list []moment, what string) {
	interval := (l.Window.Microseconds() + l.Quota - 1) / l.Quota
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b moment) int { return a.receipt.At.Compare(b.receipt.At) })
	for i := range list {
		sum := int64(0)
		for j := i; j < len(list); j++ {
			sum += list[j].receipt.Cost
			span := list[j].receipt.At.UnixMicro() - list[i].receipt.At.UnixMicro()
			require.LessOrEqual(t, (sum-max(1, l.Burst))*interval, span, "%s: %d within %d µs", what, sum, span)
		}
	}
}

// In no span is more admitted than the limit says, however calls that are made now, booked,
// charged past the limit and given back follow one another; the account is stored and loaded
// between any two of them.
func TestNoSpanAdmitsMoreThanItsLimit(t *testing.T) {
	seeds := uint64(60)
	if kit.Brief() {
		seeds = 40
	}
	for name, limits := range bookable {
		p := exactkit.Compile(t, limits...)
		dearest := p.Plan().Tokens.Capacity()
		booked, refunded, taken := 0, 0, 0
		for seed := range seeds {
			rng := rand.New(rand.NewPCG(seed, 7))
			clock := exacttest.NewClock()
			var a engine.Account
			var list []moment
			paused := clock.Now()
			for step := range 150 {
				what := fmt.Sprintf("%s, seed %d, step %d", name, seed, step)
				now := clock.Now()
				call := exact.Call{Key: "k", Cost: 1 + rng.Int64N(min(3, dearest)), Policy: p}
				switch n := rng.IntN(100); {
				case n < 35:
					clock.Advance(time.Duration(rng.Int64N(int64(400 * time.Millisecond))))
					continue
				case n < 65:
					call.Ahead = time.Duration(rng.Int64N(int64(20*time.Second)) + 1)
					if rng.IntN(5) == 0 {
						call.Ahead = 1
					}
				case n < 68:
					call.Past = true
				case n < 69:
					call.Cost, call.Pause = 0, time.Duration(rng.Int64N(int64(2*time.Second)))+1
				case n < 85 && len(list) > 0:
					i := rng.IntN(len(list))
					if n < 74 {
						i = len(list) - 1
					}
					if a.Refund(now, &list[i].receipt) == nil {
						require.ErrorIs(t, a.Refund(now, &list[i].receipt), exact.ErrNoRefund, what)
						list = slices.Delete(list, i, i+1)
						refunded++
					}
					continue
				}
				said := a.Peek(now, &call)
				v := a.Take(now, &call)
				require.Equal(t, said.Admitted, v.Admitted, what)
				if call.Ahead > 0 {
					require.Equal(t, said.Wait, v.Wait, what)
				}
				if !v.Admitted {
					require.Positive(t, v.Wait, what)
				} else if call.Pause > 0 {
					if until := now.Add(call.Pause); until.After(paused) {
						paused = until
					}
				} else {
					at := v.Receipt.At
					require.LessOrEqual(t, at.Sub(now), call.Ahead, what)
					require.Equal(t, max(0, at.Sub(now)), v.Wait, what)
					require.False(t, !call.Past && at.Before(paused), "%s: in a pause", what)
					list = append(list, moment{v.Receipt, call.Past})
					if v.Wait > 0 {
						booked++
					}
				}
				within := slices.DeleteFunc(slices.Clone(list), func(m moment) bool { return m.past })
				for _, l := range limits {
					if step%8 == 0 || step > 140 {
						admits(t, l, within, what)
					}
				}
				if v.Admitted && !call.Past && call.Pause == 0 && v.Wait == 0 && call.Ahead == 0 {
					taken++
					// What is admitted now has what was charged past the limit before it.
					for _, l := range limits {
						interval := (l.Window.Microseconds() + l.Quota - 1) / l.Quota
						sum := int64(0)
						before := slices.DeleteFunc(slices.Clone(list), func(m moment) bool { return m.receipt.At.After(now) })
						slices.SortStableFunc(before, func(a, b moment) int { return -a.receipt.At.Compare(b.receipt.At) })
						for _, m := range before {
							sum += m.receipt.Cost
							require.LessOrEqual(t, (sum-max(1, l.Burst))*interval, now.UnixMicro()-m.receipt.At.UnixMicro(), "%s: past", what)
						}
					}
				}
				reload(t, &a)
			}
		}
		require.Greater(t, booked, 100, name)
		require.Greater(t, refunded, 100, name)
		require.Greater(t, taken, 50, name)
	}
}

// When all that was booked is given back, in whatever order, nothing of it is left: what was
// free before is free, and a new line begins where the old one did.
func TestWhatIsCancelledLeavesNothing(t *testing.T) {
	for name, limits := range bookable {
		p := exactkit.Compile(t, limits...)
		for seed := range uint64(200) {
			rng := rand.New(rand.NewPCG(seed, 8))
			clock, a := exacttest.NewClock(), new(engine.Account)
			call := exact.Call{Key: "k", Cost: 1, Policy: p}
			for range rng.IntN(12) { // some room is used already
				a.Take(clock.Now(), &call)
				clock.Advance(time.Duration(rng.Int64N(int64(50 * time.Millisecond))))
			}
			before := a.Peek(clock.Now(), &call)
			ahead := call
			ahead.Ahead = exact.MaxAhead
			next := a.Peek(clock.Now(), &ahead).Wait
			var booked []exact.Receipt
			for range 1 + rng.IntN(40) {
				ahead.Cost = 1 + rng.Int64N(min(3, p.Plan().Tokens.Capacity()))
				v := a.Take(clock.Now(), &ahead)
				require.True(t, v.Admitted)
				booked = append(booked, v.Receipt)
				if rng.IntN(4) == 0 { // on the way some are
					i := rng.IntN(len(booked))
					require.NoError(t, a.Refund(clock.Now(), &booked[i]))
					booked = slices.Delete(booked, i, i+1)
				}
			}
			rng.Shuffle(len(booked), func(i, j int) { booked[i], booked[j] = booked[j], booked[i] })
			for i := range booked {
				require.NoError(t, a.Refund(clock.Now(), &booked[i]))
			}
			ahead.Cost = 1
			require.Equal(t, before.Verdict, a.Peek(clock.Now(), &call).Verdict, "%s, seed %d", name, seed)
			require.Equal(t, next, a.Peek(clock.Now(), &ahead).Wait, "%s, seed %d", name, seed)
		}
	}
}

// A part of what was booked is given back, and the rest stays where it is.
func TestAPartOfABookingIsGivenBack(t *testing.T) {
	clock := exacttest.NewClock()
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 60, Window: time.Minute, Burst: 5})
	var a engine.Account
	require.True(t, a.Take(clock.Now(), &exact.Call{Key: "k", Cost: 5, Policy: p}).Admitted)
	v := a.Take(clock.Now(), &exact.Call{Key: "k", Cost: 3, Policy: p, Ahead: time.Minute})
	require.Equal(t, 3*time.Second, v.Wait)
	whole := v.Receipt
	whole.Cost = 4
	require.ErrorIs(t, a.Refund(clock.Now(), &whole), exact.ErrNoRefund, "more than it cost")
	v.Receipt.Cost = 1
	require.NoError(t, a.Refund(clock.Now(), &v.Receipt))
	require.Equal(t, 3*time.Second, a.Take(clock.Now(), &exact.Call{Key: "k", Cost: 1, Policy: p, Ahead: time.Minute}).Wait)
}

// A key has 64 holes at most: the room of more is lost, until its moment has passed, and no two
// calls get it.
func TestAKeyHasSoManyHoles(t *testing.T) {
	clock := exacttest.NewClock()
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 1, Window: time.Second})
	var a engine.Account
	ahead := exact.Call{Key: "k", Cost: 1, Policy: p, Ahead: exact.MaxAhead}
	var booked []exact.Receipt
	for range 201 {
		booked = append(booked, a.Take(clock.Now(), &ahead).Receipt)
	}
	for i := 1; i < 200; i += 2 {
		require.NoError(t, a.Refund(clock.Now(), &booked[i]))
	}
	for i := range 64 {
		require.Equal(t, time.Duration(2*i+1+2*36)*time.Second, a.Take(clock.Now(), &ahead).Wait, "the first 36 of 100 are lost")
	}
	require.Equal(t, 201*time.Second, a.Take(clock.Now(), &ahead).Wait)
	reload(t, &a)
}

// A hole of one limit that has passed for the other is no place: all limits are asked until
// they agree.
func TestLimitsAgreeOnAMoment(t *testing.T) {
	clock := exacttest.NewClock()
	p := exactkit.Compile(t, storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 30, Window: time.Minute, Burst: 5},
		storeless.Limit{Name: "meter", Algorithm: storeless.LeakyBucket, Quota: 1, Window: time.Second})
	var a engine.Account
	ahead := exact.Call{Key: "k", Cost: 1, Policy: p, Ahead: time.Minute}
	var waits []int
	var booked []exact.Receipt
	for range 10 {
		v := a.Take(clock.Now(), &ahead)
		waits, booked = append(waits, int(v.Wait/time.Second)), append(booked, v.Receipt)
	}
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 10}, waits, "five at once, and one each other second, never two in one")
	require.NoError(t, a.Refund(clock.Now(), &booked[1]))
	clock.Advance(1500 * time.Millisecond) // which is over for the meter, and not for the bucket
	require.Equal(t, 10500*time.Millisecond, a.Take(clock.Now(), &ahead).Wait)
}

// What was charged far past a limit while calls are booked is given back in part as well: no more
// than the bucket can owe.
func TestAPartOfADebtIsGivenBackWhileCallsAreBooked(t *testing.T) {
	clock := exacttest.NewClock()
	c := memory.New(0, clock.Now)
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 12, Window: 24 * time.Hour, Burst: 1})
	book := exact.Call{Key: "k", Cost: 1, Policy: p, Ahead: exact.MaxAhead}
	for range 2 {
		require.True(t, exactkit.Take(t, c, book).Admitted)
		clock.Advance(90 * time.Minute)
	}
	clock.Advance(-90 * time.Minute)
	debt := exactkit.Take(t, c, exact.Call{Key: "k", Cost: storeless.MaxQuota, Policy: p, Past: true})
	require.False(t, exactkit.Take(t, c, book).Admitted)
	part := debt.Receipt
	part.Cost--
	require.NoError(t, c.Refund(t.Context(), part))
	clock.Advance(3 * time.Hour)
	require.True(t, exactkit.Take(t, c, book).Admitted)
}
