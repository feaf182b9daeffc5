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

// idleAt reports whether an account is idle by a clock that said so and an hour more.
func idleAt(a *engine.Account, at time.Time) bool {
	var h engine.Hindsight
	h.See(at)
	h.See(at.Add(time.Hour))
	return h.Idle(a)
}

// A clock that is ahead, or behind, for a moment has nobody forgotten, however often it is asked; one
// that has passed has, after a second, a minute or an hour, as the longest window is.
func TestNoSingleMomentIsBelieved(t *testing.T) {
	for window, while := range map[time.Duration]time.Duration{
		time.Second: time.Second, 59 * time.Second: time.Second, time.Minute: time.Minute, 59 * time.Minute: time.Minute,
		time.Hour: time.Hour, 30 * day: time.Hour,
	} {
		for _, ahead := range []time.Duration{3 * day, year, -3 * day, -year} {
			clock := exacttest.NewClock()
			var h engine.Hindsight
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
			var begins engine.Hindsight
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
