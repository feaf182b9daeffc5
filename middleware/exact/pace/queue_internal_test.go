// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A longer pause stays: what others tell of a shorter one, or what a clock reads a little
// later, does not end it.
func TestALongerPauseStays(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var q queue
	q.hold(now.Add(10*time.Second), now)
	q.hold(now.Add(5*time.Second), now.Add(time.Second))
	require.Equal(t, now.Add(10*time.Second), q.paused)
	require.Equal(t, now, q.told)
	q.hold(now.Add(15*time.Second), now.Add(2*time.Second))
	require.Equal(t, now.Add(15*time.Second), q.paused)
	require.Equal(t, now.Add(2*time.Second), q.told)
}

// A place before the end of a pause is booked anew if the pause became known meanwhile, or if
// the counter does not know of it; else it is good at the end.
func TestPlacesBeforeTheEndOfAPause(t *testing.T) {
	told := time.Unix(1_800_000_000, 0)
	end := told.Add(10 * time.Second)
	for name, c := range map[string]struct {
		asked, moment time.Duration // since told
		good          bool
		moves, untold bool
	}{
		"behind it":                 {-1, 10 * time.Second, true, false, false},
		"asked for before":          {-1, 10*time.Second - 1, false, false, false},
		"a little before":           {0, 10*time.Second - early, true, true, false},
		"as the counter cannot say": {0, 10*time.Second - early - 1, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			q := queue{paused: end, told: told}
			pl := &place{asked: told.Add(c.asked), moment: told.Add(c.moment)}
			require.Equal(t, c.good, q.behindPause(pl))
			require.Equal(t, c.untold, q.untold)
			require.Equal(t, c.moves, !pl.moment.Equal(told.Add(c.moment)))
			require.False(t, c.good && pl.moment.Before(end))
		})
	}
}
