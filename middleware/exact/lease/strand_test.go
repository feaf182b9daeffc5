// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/lease"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/exactkit"
)

// What processes hold when they are killed stays counted: the figures of docs/counters.md and
// of the documentation of Leased.
func TestKilledProcessesStrandTheirBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, row := range []struct{ quota, instances, percent int64 }{{1000, 1, 59}, {1000, 4, 17}, {10_000, 1, 12}} {
			engine, p := memory.New(0, nil), exactkit.PerHour(t, row.quota)
			used := int64(0)
			for range 20 {
				l := leased(t, engine, lease.Config{Instances: row.instances})
				for range 3 {
					require.True(t, exactkit.Take(t, l, exact.Call{Key: "k", Cost: 1, Policy: p}).Admitted)
					used++
				}
				// It is killed: what it holds is not given back.
			}
			v := exactkit.Peek(t, engine, exact.Call{Key: "k", Cost: 1, Policy: p})
			stranded := row.quota - v.Limits[0].Remaining - used
			require.InDelta(t, row.percent, 100*float64(stranded)/float64(row.quota), 0.5, "%+v", row)
		}
	})
}
