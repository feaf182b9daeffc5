// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// What is settled of many tallies at once is all in the count of the network that they share.
func TestSettledInParallel(t *testing.T) {
	const workers, rounds, quota = 8, 5000, 1 << 20
	m := limiter.NewMemory(8000, 1)
	p := compile(t, storeless.Limit{Quota: quota, Window: hour})
	wide := p.Scale(workers)
	var group sync.WaitGroup
	for n := range workers {
		group.Go(func() {
			f := limiter.Candidate{Key: numbered(m, 'f', n), Networks: []limiter.Network{{Key: numbered(m, 'n', 0), Policy: wide}}}
			for range rounds {
				m.Record(opening, p, &f, 2)
				m.Restore(opening.Add(time.Second), opening, p, &f, 1)
			}
		})
	}
	group.Wait()
	for n := range workers {
		require.EqualValues(t, quota-rounds, take(m, p, opening, numbered(m, 'f', n), 0).Limits[0].Remaining)
	}
	require.EqualValues(t, workers*(quota-rounds), take(m, wide, opening, numbered(m, 'n', 0), 0).Limits[0].Remaining)
}
