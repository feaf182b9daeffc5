// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A serverClock is never early, however long the calls that it learns from have waited,
// and knows nothing for long.
func TestServerClock(t *testing.T) {
	const at = int64(2_000_000_000_000_000) // the server's time, where the test begins
	start := time.Unix(1_800_000_000, 0)
	later := func(d time.Duration) time.Time { return start.Add(d) }
	var c serverClock
	require.Zero(t, c.at(start, start), "nothing is known")

	c.saw(at+30_000, start, false) // waited for 30 ms
	require.Equal(t, at+80_000, c.at(later(50*time.Millisecond), later(50*time.Millisecond)))
	require.Equal(t, at+3600_030_000, c.at(start, later(time.Hour)), "of what is known now")
	c.saw(at+1_000_100, later(time.Second), false) // waited for 0.1 ms
	require.Equal(t, at+2_000_100, c.at(later(2*time.Second), later(2*time.Second)))
	c.saw(at+3_040_000, later(3*time.Second), false)
	require.Equal(t, at+4_000_100, c.at(later(4*time.Second), later(4*time.Second)), "the least counts")

	c.saw(at+11_020_000, later(11*time.Second), false)
	require.Equal(t, at+11_000_100, c.at(later(11*time.Second), later(11*time.Second)), "also of the time before")
	c.saw(at+22_020_000, later(22*time.Second), false)
	require.Equal(t, at+22_020_000, c.at(later(22*time.Second), later(22*time.Second)), "but not for ever: clocks drift")
	require.Zero(t, c.at(later(43*time.Second), later(43*time.Second)), "too old")

	c.saw(at+22_020_000, later(22*time.Second), false)
	c.saw(at+3600_000_000, later(23*time.Second), true)
	require.Equal(t, at+3600_000_000, c.at(later(23*time.Second), later(23*time.Second)), "the clock was set")
	c.saw(at, later(24*time.Second), false)
	require.Equal(t, at, c.at(later(24*time.Second), later(24*time.Second)), "set back: later than it is told")
}
