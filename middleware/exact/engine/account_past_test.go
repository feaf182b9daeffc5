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

// A debt is no fault of a clock: an account whose clock steps back by less than it owes stands
// still, and does not begin anew. Without a debt it would.
func TestADebtIsHeldWhenAClockStepsBack(t *testing.T) {
	for name, row := range map[string]struct {
		call exact.Call
		held bool
	}{
		"no debt":   {exact.Call{Cost: 1}, false},
		"a debt":    {exact.Call{Cost: 100, Past: true}, true},
		"a pause":   {exact.Call{Pause: time.Hour}, true},
		"a booking": {exact.Call{Cost: 1, Ahead: time.Hour}, true},
	} {
		t.Run(name, func(t *testing.T) {
			clock := exacttest.NewClock()
			call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 1, Window: 10 * time.Second})}
			row.call.Key, row.call.Policy = call.Key, call.Policy
			var a engine.Account
			if row.call.Ahead > 0 {
				for range 10 {
					require.True(t, a.Take(clock.Now(), &row.call).Admitted)
				}
			}
			require.True(t, a.Take(clock.Now(), &row.call).Admitted)
			clock.Advance(-time.Minute)
			v := a.Peek(clock.Now(), &call)
			require.Equal(t, !row.held, v.Admitted)
			if row.held {
				require.Greater(t, v.Wait, time.Minute)
			}
			clock.Advance(-48 * time.Hour) // a year ahead it was not: that clock was wrong
			require.True(t, a.Take(clock.Now(), &call).Admitted)
			require.False(t, a.Take(clock.Now(), &call).Admitted)
		})
	}
}

// What was charged past the limit is given back for as long as it is owed, and as much of it as
// was not used: that is how an estimate is settled.
func TestADebtIsGivenBack(t *testing.T) {
	clock := exacttest.NewClock()
	call := exact.Call{Key: "k", Cost: 50, Policy: exactkit.Compile(t, storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 10, Window: 10 * time.Second, Burst: 5}), Past: true}
	var a engine.Account
	r := a.Take(clock.Now(), &call).Receipt
	r.Cost = 48
	clock.Advance(30 * time.Second) // longer than its window
	require.NoError(t, a.Refund(clock.Now(), &r))
	call.Past, call.Cost = false, 5
	clock.Advance(2 * time.Second)
	require.True(t, a.Take(clock.Now(), &call).Admitted)
}
