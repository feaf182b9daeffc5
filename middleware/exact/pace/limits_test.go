// SPDX-License-Identifier: Apache-2.0

package pace_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/pace"
	"github.com/tallystick/tallystick/proof/kit"
)

// The table of docs/counters.md: how much goes in any span of a window, after a quiet time and
// when many come at once; and that all of it goes.
func TestPacedLimitsHold(t *testing.T) {
	const l = 30
	for name, c := range map[string]struct {
		limits limits
		span   time.Duration
		most   int64
		atOnce int
	}{
		"a meter":                         {meter(l, time.Minute), time.Minute, l, 1},
		"a bucket, all of it within L":    {bucket(l-6, time.Minute, 6), time.Minute, l - 1, 6},
		"a bucket with the same numbers":  {bucket(l, time.Minute, 6), time.Minute, l + 6 - 1, 6},
		"... and what leaks in its burst": {bucket(l, time.Minute, 6), 12 * time.Second, 6 + 6 - 1, 6},
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			counter := exact.NewMemory(0, nil)
			var went log
			var wg sync.WaitGroup
			for range 3 {
				p := process(t, pace.Config{Counter: counter, Limits: c.limits, MaxWait: time.Hour})
				for range 40 {
					wg.Go(func() { require.NoError(t, went.call(t.Context(), p, "")) })
				}
			}
			began := time.Now()
			wg.Wait()
			require.Equal(t, c.most, went.most(c.span))
			atOnce := 0
			for _, at := range went.went {
				if at.Equal(began) {
					atOnce++
				}
			}
			require.Equal(t, c.atOnce, atOnce)
			quota := c.limits[0].Quota
			require.Equal(t, time.Duration(120-c.atOnce)*time.Minute/time.Duration(quota), time.Since(began))
		})
	}
}
