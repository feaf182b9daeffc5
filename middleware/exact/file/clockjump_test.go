// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

// A clock that was once ahead locks no key out for as long, with any algorithm: what it charged from further
// ahead than the account lasts is forgotten, also after the file was opened anew. From less far it holds, and
// the wait is the true one.
func TestClockThatWasAhead(t *testing.T) {
	for algorithm, window := range map[storeless.Algorithm]time.Duration{
		storeless.FixedWindow: time.Minute, storeless.SlidingWindow: time.Minute, storeless.TokenBucket: time.Minute,
		storeless.LeakyBucket: time.Minute, storeless.SlidingLog: time.Minute, storeless.RollingDay: 24 * time.Hour,
	} {
		call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, storeless.Limit{Algorithm: algorithm, Quota: 5, Window: window})}
		for ahead, held := range map[time.Duration]bool{365 * 24 * time.Hour: false, 10 * time.Second: true} {
			disk, clock := newMemDisk(), exacttest.NewClock()
			c := openOn(t, disk, 1<<30, file.Config{Now: clock.Now})
			clock.Advance(ahead)
			for exactkit.Take(t, c, call).Admitted {
			}
			clock.Advance(-ahead)
			require.NoError(t, c.Close())
			c = openOn(t, disk, 1<<30, file.Config{Now: clock.Now})
			v := exactkit.Take(t, c, call)
			require.Equal(t, !held, v.Admitted, "%s, %s ahead", algorithm, ahead)
			if held {
				clock.Advance(v.Wait - time.Millisecond)
				require.False(t, exactkit.Take(t, c, call).Admitted, "%s: the wait is too long", algorithm)
				clock.Advance(time.Millisecond)
				require.True(t, exactkit.Take(t, c, call).Admitted, "%s: the wait is too short", algorithm)
			}
		}
	}
}
