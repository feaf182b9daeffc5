// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/lease"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// A receipt that was tampered with gives back no more than was charged at its time.
func TestReceiptsThatWereTamperedWith(t *testing.T) {
	clock, a := exacttest.NewClock(), new(engine.Account)
	call := exact.Call{Key: "k", Cost: 2, Policy: exactkit.Compile(t, storeless.Limit{Algorithm: storeless.SlidingLog, Quota: 10, Window: time.Hour})}
	first := a.Take(clock.Now(), &call).Receipt
	clock.Advance(time.Minute)
	call.Cost = 3
	require.True(t, a.Take(clock.Now(), &call).Admitted)
	first.Cost = 100
	require.NoError(t, a.Refund(clock.Now(), &first))
	require.EqualValues(t, 7, a.Peek(clock.Now(), &call).Limits[0].Remaining)
}

// What is remembered is remembered for IDLife from whenever it was.
func TestIdempotencyLastsLongEnough(t *testing.T) {
	clock := exacttest.NewClock()
	for later := range 20 {
		var r engine.Idempotency
		_, found := r.Find(clock.Now(), "k", "id")
		require.False(t, found)
		then := clock.Now().Add(time.Duration(later) * time.Second)
		var v exact.Verdict
		v.Admitted = later%2 == 0
		r.Keep(then, "k", "id", v)
		for ago := time.Duration(0); ago < exact.IDLife; ago += time.Second {
			_, found := r.Find(then.Add(ago), "k", "id")
			require.True(t, found, "%s ago", ago)
		}
		_, found = r.Find(then.Add(2*exact.IDLife), "k", "id")
		require.False(t, found)
		clock.Advance(time.Hour)
	}
}

// Requests under an old configuration, and their refunds, leave the counts of a new
// one alone, and the other way round.
func TestPoliciesOfOneNameLeaveEachOtherAlone(t *testing.T) {
	clock := exacttest.NewClock()
	was := exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, storeless.Limit{Name: "minute", Quota: 50, Window: time.Minute})}
	is := exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, storeless.Limit{Name: "hour", Quota: 10, Window: time.Hour},
		storeless.Limit{Name: "day", Algorithm: storeless.RollingDay, Quota: 100, Window: day})}
	tooMuch := was
	tooMuch.Cost = 51
	for name, between := range map[string]func(*engine.Account, *exact.Receipt){
		"nothing":   func(*engine.Account, *exact.Receipt) {},
		"a peek":    func(a *engine.Account, _ *exact.Receipt) { a.Peek(clock.Now(), &was) },
		"a refusal": func(a *engine.Account, _ *exact.Receipt) { require.False(t, a.Take(clock.Now(), &tooMuch).Admitted) },
		"a call":    func(a *engine.Account, _ *exact.Receipt) { require.True(t, a.Take(clock.Now(), &was).Admitted) },
		"a refund":  func(a *engine.Account, r *exact.Receipt) { require.NoError(t, a.Refund(clock.Now(), r)) },
	} {
		var a engine.Account
		admitted := 0
		for range 5 {
			r := a.Take(clock.Now(), &was).Receipt
			for range 20 {
				if a.Take(clock.Now(), &is).Admitted {
					admitted++
				}
			}
			between(&a, &r)
		}
		require.Equal(t, 10, admitted, name)
	}
}

// While configurations come and go, an account keeps some thirty limits: the ones that end last.
func TestAccountIsBounded(t *testing.T) {
	clock, a := exacttest.NewClock(), new(engine.Account)
	kept := exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, storeless.Limit{Name: "kept", Quota: 10, Window: 30 * day})}
	a.Take(clock.Now(), &kept)
	for i := range 200 {
		l := storeless.Limit{Name: "gone", Quota: 10, Window: time.Hour + time.Duration(i)*time.Second}
		require.True(t, a.Take(clock.Now(), &exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, l)}).Admitted)
	}
	require.Less(t, len(exactkit.Bytes(t, a)), 1000)
	require.EqualValues(t, 9, a.Peek(clock.Now(), &kept).Limits[0].Remaining)
	clock.Advance(day)
	a.Take(clock.Now(), &kept)
	require.Less(t, len(exactkit.Bytes(t, a)), 50, "what has ended is forgotten")
}

// An account answers an ID with the admission of that time, for IDLife and no longer, and
// for the last 128 of them.
func TestAnAccountRemembersWhomItAdmitted(t *testing.T) {
	clock := exacttest.NewClock()
	var a engine.Account
	call := exact.Call{Key: "k", Cost: 2, Policy: exactkit.Compile(t, storeless.Limit{Quota: 1000, Window: time.Hour}), ID: "0"}
	first := a.Take(clock.Now(), &call)
	reload(t, &a)
	clock.Advance(exact.IDLife - time.Nanosecond)
	call.Cost = 7 // whatever else it says
	again := a.Take(clock.Now(), &call)
	require.True(t, again.Admitted && again.Replayed)
	require.True(t, first.Receipt.At.Equal(again.Receipt.At))
	require.Equal(t, first.Receipt.Serial, again.Receipt.Serial)
	require.EqualValues(t, 2, again.Receipt.Cost)
	require.EqualValues(t, 998, again.Limits[0].Remaining)
	clock.Advance(time.Nanosecond)
	late := a.Take(clock.Now(), &call)
	require.False(t, late.Replayed)
	require.EqualValues(t, 991, late.Limits[0].Remaining)

	call.Cost = 1
	for i := range 128 {
		call.ID = strconv.Itoa(i + 1)
		require.False(t, a.Take(clock.Now(), &call).Replayed)
	}
	reload(t, &a)
	call.ID = "1"
	require.True(t, a.Take(clock.Now(), &call).Replayed)
	call.ID = "0"
	require.False(t, a.Take(clock.Now(), &call).Replayed, "it is the 129th, counted from the last")
	call.ID = "1"
	require.False(t, a.Take(clock.Now(), &call).Replayed)
	require.Less(t, len(exactkit.Bytes(t, &a)), 128*31+100)
}

// An account says when it expires: at that moment it is idle, and just before it is not. What is forgotten too early is a fresh
// quota.
func TestAnAccountSaysWhenItExpires(t *testing.T) {
	meter := storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 1, Window: time.Second}
	rolling := storeless.Limit{Name: "day", Algorithm: storeless.RollingDay, Quota: 5, Window: day}
	for name, row := range map[string]struct {
		limits []storeless.Limit
		call   exact.Call
		after  time.Duration
	}{
		"a window":          {[]storeless.Limit{{Quota: 5, Window: time.Minute}}, exact.Call{Cost: 1}, 2 * time.Minute},
		"a fixed one":       {[]storeless.Limit{{Algorithm: storeless.FixedWindow, Quota: 5, Window: time.Minute}}, exact.Call{Cost: 1}, 2 * time.Minute},
		"a log":             {[]storeless.Limit{{Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Minute}}, exact.Call{Cost: 1}, time.Minute + time.Second},
		"a day":             {[]storeless.Limit{rolling}, exact.Call{Cost: 1}, day + time.Minute + time.Second},
		"a day of UTC":      {[]storeless.Limit{{Calendar: "day", Quota: 5}}, exact.Call{Cost: 1}, day + time.Second},
		"the last of two":   {[]storeless.Limit{{Name: "minute", Quota: 5, Window: time.Minute}, rolling}, exact.Call{Cost: 1}, day + time.Minute + time.Second},
		"a debt":            {[]storeless.Limit{meter}, exact.Call{Cost: 100, Past: true}, 102 * time.Second},
		"a pause":           {[]storeless.Limit{meter}, exact.Call{Pause: time.Hour}, time.Hour},
		"an ID":             {[]storeless.Limit{meter}, exact.Call{Cost: 1, ID: "a"}, exact.IDLife},
		"an ID of a window": {[]storeless.Limit{{Quota: 5, Window: time.Minute}}, exact.Call{Cost: 1, ID: "a"}, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			clock, a := exacttest.NewClock(), new(engine.Account)
			require.True(t, a.Expires().IsZero())
			require.True(t, idleAt(a, clock.Now()))
			row.call.Key, row.call.Policy = "k", exactkit.Compile(t, row.limits...)
			require.True(t, a.Take(clock.Now(), &row.call).Admitted)
			require.Equal(t, row.after, a.Expires().Sub(clock.Now()))
			require.False(t, idleAt(a, a.Expires().Add(-time.Nanosecond)))
			require.True(t, idleAt(a, a.Expires()))
		})
	}
}

// A key that is charged under a tier of a small bucket keeps what it owes to a large
// one, however large: an account has one clock, which does not step back.
func TestDebtOfALargerTierStaysInTheAccount(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	for name, more := range map[string][]storeless.Limit{
		"buckets alone": nil,
		"with a log":    {{Name: "log", Algorithm: storeless.SlidingLog, Quota: exact.MaxLog, Window: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			bucket := func(quota, burst int64) *exact.Policy {
				p := kit.Must(exact.Compile("api", append([]storeless.Limit{
					{Name: "b", Algorithm: storeless.TokenBucket, Quota: quota, Burst: burst, Window: time.Minute}}, more...)))(t)
				return p
			}
			large, small := bucket(1, 600), bucket(60, 1) // ten hours of debt, and a second
			var a engine.Account
			require.True(t, a.Take(start, &exact.Call{Key: "k", Cost: 600, Policy: large}).Admitted)
			v := a.Take(start, &exact.Call{Key: "k", Cost: 1, Policy: small})
			require.False(t, v.Admitted)
			require.Equal(t, 10*time.Hour, v.Wait)

			passed := start.Add(10 * time.Hour)
			require.True(t, a.Take(passed, &exact.Call{Key: "k", Cost: 1, Policy: small}).Admitted)
			require.Equal(t, int64(599), a.Peek(passed, &exact.Call{Key: "k", Cost: 1, Policy: large}).Limits[0].Remaining)
		})
	}
}

// idleAt reports whether an account is idle by a clock that said so and an hour more.
func idleAt(a *engine.Account, at time.Time) bool {
	var h engine.IdleClock
	h.See(at)
	h.See(at.Add(time.Hour))
	return h.Idle(a)
}

// No account is forgotten because a clock is ahead, or behind, for a moment, however often it is
// asked. Time that has really passed has accounts forgotten after a second, a minute or an hour, as
// the longest window is.
func TestNoSingleMomentIsBelieved(t *testing.T) {
	for window, while := range map[time.Duration]time.Duration{
		time.Second: time.Second, 59 * time.Second: time.Second, time.Minute: time.Minute, 59 * time.Minute: time.Minute,
		time.Hour: time.Hour, 30 * day: time.Hour,
	} {
		for _, ahead := range []time.Duration{3 * day, year, -3 * day, -year} {
			clock := exacttest.NewClock()
			var h engine.IdleClock
			var a engine.Account
			require.True(t, a.Take(clock.Now(), &exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, storeless.Limit{Algorithm: storeless.FixedWindow, Quota: 5, Window: window})}).Admitted)
			step := func(by time.Duration, n int) (idle bool) {
				for range n {
					clock.Advance(by / time.Duration(n))
					h.See(clock.Now())
					idle = idle || h.Idle(&a)
				}
				return idle
			}
			require.False(t, step(0, 5))
			var begins engine.IdleClock
			begins.See(clock.Now().Add(ahead))
			require.False(t, begins.Idle(&a), "%s, %s: the first moment", window, ahead)
			clock.Advance(ahead)
			require.False(t, step(while-1, 9), "%s, %s", window, ahead)
			clock.Advance(-ahead)
			require.False(t, step(while-1, 9), "%s, %s", window, ahead)
			clock.Advance(a.Expires().Sub(clock.Now()))
			require.False(t, step(while-1, 9), "%s, %s: it has just ended", window, ahead)
			require.True(t, step(while+2, 9), "%s, %s", window, ahead)
		}
	}
}

// What wraps an engine is parted as it is.
func TestPartsShowThroughWrappers(t *testing.T) {
	call := exact.Call{Key: "four"}
	for want, of := range map[int]engine.Batcher{4: parted{}, 0: whole{}} {
		merged := engine.Merge(of)
		require.Equal(t, want, merged.(engine.Partitioned).Part(call))
		leased := kit.Must(lease.New(merged, lease.Config{}))(t)
		require.Equal(t, want, leased.(engine.Partitioned).Part(call))
	}
}

// whole is a batcher that is never called.
type whole struct{ exact.Counter }

func (whole) TakeAll(context.Context, []exact.Call) ([]exact.Verdict, error) {
	return nil, exact.ErrNotCounted
}

// parted has a part for each length of keys.
type parted struct{ whole }

func (parted) Part(call exact.Call) int { return len(call.Key) }

func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A memory is of fixed size, whatever is refused with IDs, on one key or on many.
func TestRefusalsWithIDsTakeNoMemory(t *testing.T) {
	calls, shapes := 1_000_000, []int{1, 1000}
	if kit.Brief() {
		calls, shapes = 150_000, shapes[:1] // with a thousand keys they are all within the bound
	}
	for _, keys := range shapes {
		p := exactkit.PerHour(t, 5)
		m := memory.New(0, exacttest.NewClock().Now)
		ask := func(n int) exact.Verdict {
			v, err := m.Take(t.Context(), exact.Call{Key: strconv.Itoa(n % keys), Cost: 1, Policy: p, ID: fmt.Sprintf("%026d", n)})
			if err != nil {
				require.NoError(t, err)
			}
			return v
		}
		for n := range 5 * keys {
			require.True(t, ask(n).Admitted)
		}
		before := inUse()
		for n := range calls {
			require.False(t, ask(5*keys+n).Admitted)
		}
		after := inUse()
		t.Logf("%d keys: %d B for %d refused calls", keys, int64(after-before), calls)
		require.Less(t, int64(after-before), int64(32<<20)*int64(calls)/1_000_000)
		require.True(t, ask(5*keys+calls-1).Replayed, "the last is remembered")
		require.True(t, ask(0).Admitted, "what was admitted is remembered, however many are refused")
		require.True(t, ask(0).Replayed)
		runtime.KeepAlive(m)
	}
}

// What is remembered of a refusal is its verdict, but for how the limits stand.
func TestRefusalIsRememberedWithItsWait(t *testing.T) {
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.FixedWindow, Quota: 5, Window: time.Minute})
	clock := exacttest.NewClock()
	m := memory.New(0, clock.Now)
	take := func(cost int64, id string) exact.Verdict {
		return exactkit.Take(t, m, exact.Call{Key: "k", Cost: cost, Policy: p, ID: id})
	}
	four := take(4, "four")
	require.True(t, four.Admitted)
	refused, impossible := take(2, "refused"), take(6, "impossible")
	require.True(t, impossible.Impossible)
	clock.Advance(3 * time.Second)
	require.True(t, take(1, "one").Admitted)
	again := take(2, "refused")
	require.True(t, again.Replayed)
	require.False(t, again.Admitted)
	require.False(t, again.Impossible)
	require.Equal(t, refused.Wait, again.Wait)
	require.Zero(t, again.Limits[0].Remaining, "as it stands now")
	require.True(t, again.Limits[0].Blocked)
	again = take(6, "impossible")
	require.True(t, again.Replayed && again.Impossible && !again.Admitted)
	require.Zero(t, again.Wait)
	require.Zero(t, again.Receipt)
}

// What is charged past a limit stops at what a count holds, and at a year: whatever is
// charged, there is a time when the key is free, and the account can be written and read.
func TestADebtHasAnEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		limit storeless.Limit
		most  time.Duration
	}{
		"sliding": {storeless.Limit{Quota: 5, Window: time.Hour}, 2 * time.Hour},
		"fixed":   {storeless.Limit{Algorithm: storeless.FixedWindow, Quota: 5, Window: time.Hour}, time.Hour},
		"bucket":  {storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 5, Window: time.Hour}, storeless.MaxWindow},
		"slow":    {storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 1, Window: storeless.MaxWindow}, storeless.MaxWindow},
		"meter":   {storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 5, Window: time.Hour}, storeless.MaxWindow},
		"log":     {storeless.Limit{Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Hour}, time.Hour},
		"month":   {storeless.Limit{Calendar: "month", Quota: 5}, 31 * day},
		"day":     {storeless.Limit{Algorithm: storeless.RollingDay, Quota: 5, Window: day}, day + time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			clock, a := exacttest.NewClock(), new(engine.Account)
			call := exact.Call{Key: "k", Cost: storeless.MaxQuota, Policy: exactkit.Compile(t, tt.limit), Past: true}
			for range 3 {
				require.True(t, a.Take(clock.Now(), &call).Admitted)
			}
			reload(t, a)
			call.Past, call.Cost = false, 1
			v := a.Take(clock.Now(), &call)
			require.False(t, v.Admitted)
			require.LessOrEqual(t, v.Wait, tt.most)
			clock.Advance(v.Wait - time.Second)
			require.False(t, a.Peek(clock.Now(), &call).Admitted)
			clock.Advance(time.Second)
			require.True(t, a.Take(clock.Now(), &call).Admitted)
		})
	}
}

// A log that is charged past its limit call by call has a bound, and counts it all.
func TestALogOfWhatIsPastHasABound(t *testing.T) {
	clock, a := exacttest.NewClock(), new(engine.Account)
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, storeless.Limit{Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Hour}), Past: true}
	for range exact.MaxLog + 500 {
		a.Take(clock.Now(), &call)
		clock.Advance(time.Millisecond)
	}
	require.Less(t, len(exactkit.Bytes(t, a)), 8*exact.MaxLog)
	call.Past = false
	clock.Advance(time.Hour - 2*time.Millisecond)
	require.False(t, a.Peek(clock.Now(), &call).Admitted, "the last 501 are one, and end with the last")
	clock.Advance(2 * time.Millisecond)
	require.True(t, a.Peek(clock.Now(), &call).Admitted)
}

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// A clock that steps back by no more than the account counts for gives no key a fresh quota; from
// further ahead the account begins anew. A bucket counts for as long as it empties, and a policy of
// the same name for as long as the longer of both.
func TestClockThatStepsBackByMoreThanAnAccountLasts(t *testing.T) {
	minute := storeless.Limit{Name: "minute", Algorithm: storeless.FixedWindow, Quota: 5, Window: time.Minute}
	bucket := storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 1, Window: time.Minute, Burst: 60}
	for name, tt := range map[string]struct {
		limits []storeless.Limit
		before []storeless.Limit // charged before, under the same name
		holds  time.Duration
	}{
		"window":               {limits: []storeless.Limit{minute}, holds: time.Minute},
		"the longest window":   {limits: []storeless.Limit{minute, {Name: "hour", Quota: 50, Window: time.Hour}}, holds: time.Hour},
		"bucket":               {limits: []storeless.Limit{bucket}, holds: time.Hour},
		"day":                  {limits: []storeless.Limit{{Algorithm: storeless.RollingDay, Quota: 5, Window: day}}, holds: day},
		"a month":              {limits: []storeless.Limit{{Calendar: "month", Quota: 5}}, holds: 31*day + time.Hour},
		"with a longer policy": {limits: []storeless.Limit{minute}, before: []storeless.Limit{{Name: "hour", Quota: 50, Window: time.Hour}}, holds: time.Hour},
	} {
		for by, fresh := range map[time.Duration]bool{tt.holds: false, tt.holds + time.Second: true} {
			clock := exacttest.NewClock()
			clock.Advance(year)
			var a engine.Account
			if tt.before != nil {
				a.Take(clock.Now(), &exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, tt.before...)})
			}
			call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, tt.limits...)}
			for a.Take(clock.Now(), &call).Admitted {
			}
			reload(t, &a)
			clock.Advance(-by)
			require.Equal(t, fresh, idleAt(&a, clock.Now().Add(-time.Hour)), "%s, %s", name, by)
			v := a.Take(clock.Now(), &call)
			require.Equal(t, fresh, v.Admitted, "%s, %s", name, by)
			if !fresh {
				require.Greater(t, v.Wait, by, name)
			}
		}
	}
}

// What a wrong clock has charged under another policy of the name is forgotten too: the
// account has one time.
func TestWrongClockIsForgottenUnderAllPolicies(t *testing.T) {
	clock, a := exacttest.NewClock(), new(engine.Account)
	minute := exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, storeless.Limit{Name: "minute", Quota: 5, Window: time.Minute})}
	bucket := exact.Call{Key: "k", Cost: 5, Policy: exactkit.Compile(t, storeless.Limit{Name: "other", Algorithm: storeless.TokenBucket, Quota: 5, Window: time.Minute})}
	clock.Advance(year)
	require.True(t, a.Take(clock.Now(), &bucket).Admitted)
	clock.Advance(-year)
	require.True(t, a.Take(clock.Now(), &minute).Admitted)
	require.True(t, a.Take(clock.Now(), &bucket).Admitted)
	require.False(t, a.Take(clock.Now(), &bucket).Admitted)
}
