// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
)

// Each limit is charged its own cost, all of them or none: of a tally that is shown, of one that memory knows, and of a
// network. What costs nothing is not charged and refuses nothing, and a peek has no costs.
func TestCostsOfEachLimit(t *testing.T) {
	p := compile(t,
		limiter.Limit{Name: "requests", Quota: 3, Window: minute, Algorithm: limiter.FixedWindow},
		limiter.Limit{Name: "tokens", Quota: 100, Window: minute, Algorithm: limiter.TokenBucket, Burst: 50},
		limiter.Limit{Name: "bytes", Quota: 1000, Window: minute},
	)
	narrow := p.Among(p)
	wide := limiter.Candidate{Key: 1, Networks: []limiter.Network{{Key: 9, Policy: narrow}}}
	for name, f := range map[string]limiter.Candidate{"shown": {}, "known": {Key: 1}, "with a network": wide} {
		t.Run(name, func(t *testing.T) {
			m := limiter.NewMemory(64, 3)
			if name == "shown" {
				m = nil
			}
			take := func(admitted bool, left [3]int64, costs ...int64) {
				t.Helper()
				f.Costs = new(limiter.Costs)
				most := int64(0)
				for i, c := range costs {
					f.Costs[i], most = c, max(most, c)
				}
				tally, v := m.Take(midnight, p, &f, most)
				require.Equal(t, admitted, v.Admitted, costs)
				peek := m.Peek(midnight, p, &limiter.Candidate{Key: f.Key, Shown: tally, Networks: f.Networks, Costs: f.Costs}, 0)
				for i, n := range left {
					require.Equal(t, n, v.Limits[i].Remaining, i)
					require.Equal(t, n, peek.Limits[i].Remaining, i)
					require.False(t, peek.Limits[i].Blocked, "nothing is asked for")
				}
				if m == nil {
					f.Shown = tally
				}
			}
			take(true, [3]int64{2, 50, 1000}, 1, 0, 0)
			require.Zero(t, f.Shown[1], "no mark is left of nothing")
			take(false, [3]int64{2, 50, 1000}, 1, 51, 1)
			take(true, [3]int64{1, 0, 400}, 1, 50, 600)
			take(false, [3]int64{1, 0, 400}, 1, 1, 1)
			take(false, [3]int64{1, 0, 400}, 1, 0, 401)
			take(true, [3]int64{0, 0, 0}, 1, 0, 400)
			f.Costs = &limiter.Costs{0, 20, 0}
			if f.Shown = m.Restore(midnight, midnight, p, &f, 20); m != nil {
				f.Shown = limiter.Tally{}
			}
			take(true, [3]int64{0, 0, 0}, 0, 20, 0)
			f.Costs = &limiter.Costs{0, 0, 300}
			if f.Shown = m.Record(midnight, p, &f, 300); m != nil {
				f.Shown = limiter.Tally{}
			}
			take(false, [3]int64{0, 0, 0}, 0, 0, 1)
			require.Equal(t, 1, p.TooDear(limiter.Price{Cost: 60, Each: &limiter.Costs{3, 51, 1000}}))
			require.Equal(t, -1, p.TooDear(limiter.Price{Cost: 1000, Each: &limiter.Costs{3, 50, 1000}}))
		})
	}
}
