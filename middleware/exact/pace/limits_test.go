// SPDX-License-Identifier: Apache-2.0

package pace_test

import (
	"os"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/memory"
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
		"one in ten seconds":              {meter(1, 11*time.Second), 10*time.Second + 999*time.Millisecond, 1, 1},
		"two":                             {meter(2, 11*time.Second), 10*time.Second + 999*time.Millisecond, 2, 1},
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			counter := memory.New(0, nil)
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
			require.Equal(t, time.Duration(120-c.atOnce)*c.limits[0].Window/time.Duration(quota), time.Since(began))
		})
	}
}

// Each row of that table is a Config, from the smallest limit on that the row is about.
func TestEveryRowOfThePageIsAConfig(t *testing.T) {
	rows := map[string]struct {
		from int64
		of   func(l int64, w time.Duration) limits
	}{
		"L in W, where L is large":                  {2, func(l int64, w time.Duration) limits { return meter(l-1, w) }},
		"L in W, where L is small, as 1 in 10 s":    {1, func(l int64, w time.Duration) limits { return meter(l, w+time.Second) }},
		"2 or more in W, and short bursts help you": {2, func(l int64, w time.Duration) limits { return bucket(l-1, w, 1) }},
		"a bucket with a burst":                     {1, func(l int64, w time.Duration) limits { return bucket(l, w, l) }},
	}
	page, err := os.ReadFile("../../../docs/counters.md")
	require.NoError(t, err)
	table := regexp.MustCompile(`(?s)\| the service permits \| write \|\n\|---\|---\|\n(.*?)\n\n`).FindSubmatch(page)
	require.NotNil(t, table)
	printed := regexp.MustCompile(`(?m)^\| (.*?) \|`).FindAllSubmatch(table[1], -1)
	require.Len(t, printed, len(rows))
	for _, row := range printed {
		name := string(row[1])
		require.Contains(t, rows, name)
		for l := rows[name].from; l <= 100; l++ {
			for _, w := range []time.Duration{time.Second, 10 * time.Second, time.Hour} {
				process(t, pace.Config{Counter: memory.New(1, nil), Limits: rows[name].of(l, w)})
			}
		}
	}
}
