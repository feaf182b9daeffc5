// SPDX-License-Identifier: Apache-2.0

package exact_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

// idleAt reports whether an account is idle by a clock that said so and an hour more.
func idleAt(a *exact.Account, at time.Time) bool {
	var h exact.Hindsight
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
			var h exact.Hindsight
			var a exact.Account
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
			var begins exact.Hindsight
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

// A memory that is full while its clock is ahead gives nobody a fresh quota.
func TestFullMemoryOfAClockThatIsAheadForAMoment(t *testing.T) {
	clock := exacttest.NewClock()
	m := exact.NewMemory(100, clock.Now)
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.FixedWindow, Quota: 1, Window: day})
	take := func(key string) (exact.Verdict, error) {
		return m.Take(t.Context(), exact.Call{Key: key, Cost: 1, Policy: p})
	}
	var spent []string
	for n := range 5000 {
		if _, err := take(strconv.Itoa(n)); err == nil {
			spent = append(spent, strconv.Itoa(n))
		}
	}
	clock.Advance(3 * day)
	for n := range 3000 {
		_, err := take("other " + strconv.Itoa(n))
		require.ErrorIs(t, err, exact.ErrFull)
		clock.Advance(time.Second)
	}
	clock.Advance(-3 * day)
	for _, key := range spent {
		v, err := take(key)
		require.NoError(t, err)
		require.False(t, v.Admitted, "a fresh quota")
	}
}
