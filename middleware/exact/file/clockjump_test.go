// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/storeless"
)

// A clock that was ahead once locks nobody out for as long as it was, whatever the
// algorithm: what it charged from further ahead than the account lasts is forgotten, also
// after the file was opened anew. From less far it holds, and the wait is the true one.
func TestClockThatWasAhead(t *testing.T) {
	for _, algorithm := range []storeless.Algorithm{storeless.FixedWindow, storeless.SlidingWindow, storeless.TokenBucket, storeless.LeakyBucket, storeless.SlidingLog, storeless.RollingDay} {
		limit := storeless.Limit{Algorithm: algorithm, Quota: 5, Window: time.Minute}
		if algorithm == storeless.RollingDay {
			limit.Window = 24 * time.Hour
		}
		call := exact.Call{Key: "k", Cost: 1, Policy: compile(t, limit)}
		for ahead, held := range map[time.Duration]bool{365 * 24 * time.Hour: false, 10 * time.Second: true} {
			disk, clock := newMemDisk(), exacttest.NewClock()
			c, err := file.OpenOn(disk, memPath, 1<<30, file.Config{Now: clock.Now})
			require.NoError(t, err)
			take := func() exact.Verdict {
				v, err := c.Take(t.Context(), call)
				require.NoError(t, err)
				return v
			}
			clock.Advance(ahead)
			for take().Admitted {
			}
			clock.Advance(-ahead)
			require.NoError(t, c.Close())
			c, err = file.OpenOn(disk, memPath, 1<<30, file.Config{Now: clock.Now})
			require.NoError(t, err)
			v := take()
			require.Equal(t, !held, v.Admitted, "%s, %s ahead", algorithm, ahead)
			if held {
				clock.Advance(v.Wait - time.Millisecond)
				require.False(t, take().Admitted, "%s: the wait is too long", algorithm)
				clock.Advance(time.Millisecond)
				require.True(t, take().Admitted, "%s: the wait is too short", algorithm)
			}
			require.NoError(t, c.Close())
		}
	}
}
