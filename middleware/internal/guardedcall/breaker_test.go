package guardedcall

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var breakerStart = time.Unix(1_800_000_000, 0)

func failing(t *testing.T, b *breaker, now time.Time) {
	t.Helper()
	for i := range breakAfter {
		require.True(t, b.admits(now))
		b.failed(now)
		require.Equal(t, i == breakAfter-1, b.open())
	}
	require.True(t, b.open())
}

func TestBreakerOpensAfterFailuresInARow(t *testing.T) {
	var b breaker
	for range 3 {
		for range breakAfter - 1 {
			require.True(t, b.admits(breakerStart))
			b.failed(breakerStart)
			require.False(t, b.open())
		}
		b.succeeded()
	}
	failing(t, &b, breakerStart)
	require.False(t, b.admits(breakerStart))
	require.False(t, b.admits(breakerStart.Add(breakPause-1)))
}

func TestBreakerProbes(t *testing.T) {
	var b breaker
	failing(t, &b, breakerStart)
	now := breakerStart
	for range 3 { // one in every pause, while they fail
		now = now.Add(breakPause)
		require.True(t, b.admits(now))
		require.False(t, b.admits(now))
		b.failed(now)
		require.True(t, b.open())
	}
	now = now.Add(breakPause)
	require.True(t, b.admits(now))
	b.succeeded()
	require.False(t, b.open())
	require.True(t, b.admits(now))
	failing(t, &b, now) // it takes as many failures as before
}

func TestBreakerUnderAClockThatStepsBack(t *testing.T) {
	var b breaker
	failing(t, &b, breakerStart)
	require.True(t, b.admits(breakerStart.Add(-time.Hour)), "not shut for an hour")
}

func TestBreakerLetsOneProbeThroughOfMany(t *testing.T) {
	var b breaker
	failing(t, &b, breakerStart)
	var probes atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if b.admits(breakerStart.Add(breakPause)) {
				probes.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, probes.Load())
}
