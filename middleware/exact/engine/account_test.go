// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

// An account is idle when nothing of it counts, and not before: what is forgotten
// too early is a fresh quota.
func TestIdle(t *testing.T) {
	minute := storeless.Limit{Name: "minute", Algorithm: storeless.FixedWindow, Quota: 5, Window: time.Minute}
	for name, tt := range map[string]struct {
		limits []storeless.Limit
		after  time.Duration
	}{
		"fixed":           {[]storeless.Limit{minute}, 2 * time.Minute},
		"sliding":         {[]storeless.Limit{{Quota: 5, Window: time.Minute}}, 2 * time.Minute},
		"log":             {[]storeless.Limit{{Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Minute}}, time.Minute + time.Second},
		"day":             {[]storeless.Limit{{Algorithm: storeless.RollingDay, Quota: 5, Window: day}}, day + time.Minute + time.Second},
		"a day of UTC":    {[]storeless.Limit{{Calendar: "day", Quota: 5}}, day + time.Second},
		"fixed, then day": {[]storeless.Limit{minute, {Algorithm: storeless.RollingDay, Quota: 5, Window: day}}, day + time.Minute + time.Second},
	} {
		clock, a := exacttest.NewClock(), new(engine.Account)
		require.True(t, idleAt(a, clock.Now()), name)
		require.True(t, a.Take(clock.Now(), &exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, tt.limits...)}).Admitted)
		require.False(t, idleAt(a, clock.Now().Add(tt.after-time.Second)), name)
		require.True(t, idleAt(a, clock.Now().Add(tt.after)), name)
	}
}

// A receipt that was tampered with gives back no more than was charged at its time,
// and one that was made up nothing.
func TestReceiptsThatWereTamperedWith(t *testing.T) {
	clock, a := exacttest.NewClock(), new(engine.Account)
	call := exact.Call{Key: "k", Cost: 2, Policy: exactkit.Compile(t, storeless.Limit{Algorithm: storeless.SlidingLog, Quota: 10, Window: time.Hour})}
	first := a.Take(clock.Now(), &call).Receipt
	clock.Advance(time.Minute)
	call.Cost = 3
	require.True(t, a.Take(clock.Now(), &call).Admitted)
	madeUp := first
	madeUp.Serial = "zz"
	require.ErrorIs(t, a.Refund(clock.Now(), &madeUp), exact.ErrNoRefund)
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

// Of configurations that come and go an account keeps some thirty limits, and of those
// what ends last.
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
