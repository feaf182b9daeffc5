// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// The bound is one of windows, by the clock that is ahead: by the right clock, what
// two instances five seconds apart admit in one of its minutes may be 4L−1, since
// each grants what belongs to the next window early. Over two windows it is 2·2L.
func TestFixedWindowAcrossSkew(t *testing.T) {
	const quota = 100
	p := compile(t, storeless.Limit{Algorithm: storeless.FixedWindow, Quota: quota, Window: minute})
	right, fast := limiter.NewMemory(1, 1), limiter.NewMemory(1, 1)
	admitted, minuteOf := int64(0), func(now time.Time) int64 { return now.Unix() / 60 }
	spend := func(m *limiter.Memory, now, clock time.Time, shown limiter.Tally) {
		require.Equal(t, minuteOf(midnight), minuteOf(now), "one minute of the right clock")
		admitted += drain(m, p, clock, limiter.Candidate{Key: 1, Shown: shown})
	}
	spend(right, midnight, midnight, limiter.Tally{})
	spend(fast, midnight, midnight.Add(5*second), limiter.Tally{})
	require.Equal(t, int64(2*quota), admitted)

	late := midnight.Add(56 * second)
	next, v := fast.Take(late.Add(5*second), p, &limiter.Candidate{Key: 1}, 1)
	require.True(t, v.Admitted, "the fast one is in the next window")
	admitted++
	spend(right, late, late, next) // which a token of it opens on the right one
	spend(fast, late, late.Add(5*second), limiter.Tally{})
	require.Equal(t, int64(4*quota-1), admitted)

	for now := late; now.Before(midnight.Add(2*minute - 5*second)); now = now.Add(second) {
		admitted += drain(right, p, now, limiter.Candidate{Key: 1, Shown: next})
		admitted += drain(fast, p, now.Add(5*second), limiter.Candidate{Key: 1, Shown: next})
	}
	require.LessOrEqual(t, admitted, int64(2*2*quota), "the sum is right")
}
