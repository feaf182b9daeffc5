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
