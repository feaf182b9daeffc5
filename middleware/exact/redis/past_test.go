// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// What a bucket owes, and a pause, are no fault of a clock: an account stands still for them
// as well where the clock steps back further than its window, as in memory.
func TestDebtsAndPausesOutliveAClockThatStepsBack(t *testing.T) {
	for name, first := range map[string]exact.Call{
		"a debt":  {Key: "debt", Cost: 100_000, Past: true},
		"a pause": {Key: "pause", Pause: 3 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t)
			clock, open := byClock(t, s)
			c, err := open()
			require.NoError(t, err)
			memory := exact.NewMemory(0, clock.Now)
			first.Policy = compile(t, storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 10, Window: time.Second})
			both := func(call exact.Call) exact.Verdict {
				got, err := c.Take(t.Context(), call)
				require.NoError(t, err)
				want, err := memory.Take(t.Context(), call)
				require.NoError(t, err)
				require.Equal(t, want.Verdict, got.Verdict)
				return got
			}
			require.True(t, both(first).Admitted)
			clock.Advance(-2 * time.Hour)
			v := both(exact.Call{Key: first.Key, Cost: 1, Policy: first.Policy})
			require.False(t, v.Admitted)
			require.Greater(t, v.Wait, 2*time.Hour)
		})
	}
}

// A call that only pauses a key is one with an ID too: asked for again, it pauses it no longer.
func TestPauseUnderAnID(t *testing.T) {
	s := startServer(t)
	c := open(t, s.url())
	call := exact.Call{Key: "k", Policy: compile(t, yearly(5)), Pause: time.Hour, ID: "an ID"}
	for n := range 2 {
		v, err := c.Take(t.Context(), call)
		require.NoError(t, err)
		require.True(t, v.Admitted)
		require.Equal(t, n == 1, v.Replayed)
		require.Zero(t, v.Receipt)
		call.Pause = 2 * time.Hour
	}
	v, err := c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: call.Policy})
	require.NoError(t, err)
	require.False(t, v.Admitted)
	require.LessOrEqual(t, v.Wait, time.Hour)
}
