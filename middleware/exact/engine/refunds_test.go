// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// kilobyte is what comes back of a key takes of its account at most.
const kilobyte = 1024

// patterns say which of many charges come back, and how many charges after their own.
var patterns = map[string]func(rng *rand.Rand, n int) (comes bool, later int){
	"nothing":              func(*rand.Rand, int) (bool, int) { return false, 0 },
	"all, at once":         func(*rand.Rand, int) (bool, int) { return true, 0 },
	"all, some later":      func(rng *rand.Rand, _ int) (bool, int) { return true, rng.IntN(64) },
	"all, but one in 1000": func(rng *rand.Rand, n int) (bool, int) { return n%1000 > 0, rng.IntN(64) },
	"one in 1000":          func(_ *rand.Rand, n int) (bool, int) { return n%1000 == 0, 0 },
	"every second":         func(_ *rand.Rand, n int) (bool, int) { return n%2 == 0, 0 },
	"at random":            func(rng *rand.Rand, _ int) (bool, int) { return rng.IntN(2) == 0, 0 },
	"at random, at last":   func(rng *rand.Rand, _ int) (bool, int) { return rng.IntN(2) == 0, engine.Refundable - 1 },
	"the last is not":      func(_ *rand.Rand, n int) (bool, int) { return n%64 > 0, engine.Refundable - 1 },
}

// sizes returns how many bytes an account takes at most when it is charged as often, and refunded
// by a pattern.
func sizes(t *testing.T, charges int, pattern func(*rand.Rand, int) (bool, int)) (most, last int, a engine.Account) {
	rng := rand.New(rand.NewPCG(1, 2))
	clock := exacttest.NewClock()
	call := exact.Call{Key: "k", Cost: 2, Policy: exactkit.Compile(t, storeless.Limit{Algorithm: storeless.FixedWindow, Quota: storeless.MaxQuota, Window: 30 * day})}
	due := make(map[int][]exact.Receipt)
	for n := range charges {
		r := a.Take(clock.Now(), &call).Receipt
		if comes, later := pattern(rng, n); comes {
			r.Cost = 1 + rng.Int64N(2)
			due[n+later] = append(due[n+later], r)
		}
		for _, r := range due[n] {
			require.NoError(t, a.Refund(clock.Now(), &r))
			require.Equal(t, exact.ErrNoRefund, a.Refund(clock.Now(), &r))
		}
		delete(due, n)
		if n > 100 && n%97 != 0 {
			continue
		}
		b := exactkit.Bytes(t, &a)
		most, last = max(most, len(b)), len(b)
		var same engine.Account
		require.NoError(t, same.UnmarshalBinary(b))
		require.Equal(t, b, exactkit.Bytes(t, &same))
		a = same
	}
	return most, last, a
}

// What comes back takes a kilobyte of an account at most, whatever it is; where all of it does,
// as of requests that are settled, some bytes; and where nothing does, nothing.
func TestWhatComesBackTakesAKilobyte(t *testing.T) {
	without, _, _ := sizes(t, 20_000, patterns["nothing"])
	require.Less(t, without, 48)
	for name, pattern := range patterns {
		most, _, _ := sizes(t, 20_000, pattern)
		require.LessOrEqual(t, most-without, kilobyte, name)
		if name == "all, at once" || name == "all, some later" {
			require.Less(t, most-without, 24, name)
		}
	}
}

// A year of settled requests costs what a month does: as many bytes, and as much of a call.
func TestAYearOfSettledRequests(t *testing.T) {
	clock := exacttest.NewClock()
	var a engine.Account
	call := exact.Call{Key: "k", Cost: 10, Policy: exactkit.Compile(t, storeless.Limit{Quota: 1_000_000, Window: 30 * day})}
	settle := func() {
		clock.Advance(day / 1200)
		r := a.Take(clock.Now(), &call).Receipt
		r.Cost = 3
		if err := a.Refund(clock.Now(), &r); err != nil {
			require.NoError(t, err)
		}
	}
	costs := func() (size int, allocations float64) {
		allocations = testing.AllocsPerRun(100, settle)
		return len(exactkit.Bytes(t, &a)), allocations
	}
	for range 1200 {
		settle()
	}
	size, allocations := costs()
	days := 364
	if kit.Brief() {
		days = 60 // twice the window
	}
	for range days * 1200 {
		settle()
	}
	later, same := costs()
	require.LessOrEqual(t, later, size+4, "some numbers have more digits")
	require.LessOrEqual(t, same, allocations)
}

// Accounts agree with a map of all receipts: what comes back does so once, if it is among the
// last charges, and none of those is lost; another is refused by name.
func TestRefundsAgainstAMap(t *testing.T) {
	seeds := uint64(12)
	if kit.Brief() {
		seeds = 4
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 3))
		clock := exacttest.NewClock()
		call := exact.Call{Key: "k", Cost: 3, Policy: exactkit.Compile(t, storeless.Limit{Algorithm: storeless.FixedWindow, Quota: storeless.MaxQuota, Window: 365 * day})}
		var a engine.Account
		type charge struct {
			receipt exact.Receipt
			back    bool
		}
		var all []charge
		used := int64(0)
		reach := 1 + rng.IntN(9000)
		for step := range 30_000 {
			if len(all) == 0 || rng.IntN(5) > 0 {
				all = append(all, charge{receipt: a.Take(clock.Now(), &call).Receipt})
				used += call.Cost
				continue
			}
			i := max(0, len(all)-1-rng.IntN(reach))
			if rng.IntN(10) == 0 {
				i = rng.IntN(len(all))
			}
			c := &all[i]
			r := c.receipt
			r.Cost = 1 + rng.Int64N(3)
			var want error
			switch {
			case len(all)-i > engine.Refundable:
				want = exact.ErrLateRefund
			case c.back:
				want = exact.ErrNoRefund
			default:
				c.back, used = true, used-r.Cost
			}
			require.Equal(t, want, a.Refund(clock.Now(), &r), "seed %d, step %d: %d of %d", seed, step, i, len(all))
			if rng.IntN(50) == 0 {
				reload(t, &a)
			}
		}
		require.Equal(t, storeless.MaxQuota-used, a.Peek(clock.Now(), &call).Limits[0].Remaining)
	}
	require.ErrorIs(t, exact.ErrLateRefund, exact.ErrNoRefund)
}

// A receipt is good for the account that has charged it, and for none that begins anew: because
// it was idle, lost, or deleted by hand. Nor does it take the place of one of that.
func TestReceiptsOfAnAccountBefore(t *testing.T) {
	for name, limit := range map[string]storeless.Limit{
		"window": {Quota: 5, Window: 30 * day},
		"bucket": {Algorithm: storeless.TokenBucket, Quota: 5, Window: 30 * day},
	} {
		for _, wait := range []time.Duration{10 * time.Millisecond, time.Minute, 3 * day} {
			clock := exacttest.NewClock()
			call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, limit)}
			var before, a engine.Account
			var old, receipts []exact.Receipt
			for range 4 {
				old = append(old, before.Take(clock.Now(), &call).Receipt)
			}
			clock.Advance(wait)
			for range 4 {
				receipts = append(receipts, a.Take(clock.Now(), &call).Receipt)
			}
			for i := range old {
				require.ErrorIs(t, a.Refund(clock.Now(), &old[i]), exact.ErrNoRefund, "%s, %s", name, wait)
				require.Error(t, before.Refund(clock.Now(), &receipts[i]))
			}
			require.EqualValues(t, 1, a.Peek(clock.Now(), &call).Limits[0].Remaining)
			for i := range receipts {
				require.NoError(t, a.Refund(clock.Now(), &receipts[i]), "%s, %s", name, wait)
			}
		}
	}
}

// Serials by a clock that was never set begin at one. The 8192nd charge is in a byte more than a kilobyte has.
func TestRefundsOfTheFirstSerials(t *testing.T) {
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, storeless.Limit{Quota: storeless.MaxQuota, Window: day})}
	at := time.Unix(0, 0)
	var a engine.Account
	for n := range engine.Refundable + 2 {
		r := a.Take(at, &call).Receipt
		if n < engine.Refundable-2 {
			continue
		}
		before := exactkit.Bytes(t, &a)
		var given engine.Account
		require.NoError(t, given.UnmarshalBinary(before))
		require.NoError(t, given.Refund(at, &r))
		after := exactkit.Bytes(t, &given)
		var read engine.Account
		require.NoError(t, read.UnmarshalBinary(after), "charge %d", n+1)
		require.ErrorIs(t, read.Refund(at, &r), exact.ErrNoRefund)
	}
}

// A ring knows what came back of the oldest charges, up to which there is a floor in memory.
func TestARingKnowsTheOldest(t *testing.T) {
	now := exacttest.NewClock().Now()
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, storeless.MaxQuota)}
	var a engine.Account
	var receipts []exact.Receipt
	for range engine.Refundable + 100 {
		receipts = append(receipts, a.Take(now, &call).Receipt)
	}
	back := []exact.Receipt{receipts[100], receipts[101], receipts[len(receipts)-1]}
	for _, r := range back {
		require.NoError(t, a.Refund(now, &r))
	}
	reload(t, &a)
	for _, r := range back {
		require.Equal(t, exact.ErrNoRefund, a.Refund(now, &r))
	}
}
