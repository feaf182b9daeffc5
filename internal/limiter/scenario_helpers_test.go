// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// A row is one request of a scenario, and what must come of it.
type row struct {
	at       time.Duration // since midnight
	cost     int64
	admitted bool
	left     int64 // Remaining of the first limit afterwards
	wait     int   // Verdict.Wait, seconds
	reset    int   // Reset of the first limit, seconds
	under    int   // which of the scenario's policies is in force
}

// A scenario is a sequence of requests of one tally.
type scenario struct {
	name     string
	policies []storeless.Limit // one limit each, of one shape: tiers
	rows     []row
}

// play runs every scenario over every carrier: a tally that is echoed, a memory
// alone, and both. The arithmetic is one, so the verdicts must be too.
func play(t *testing.T, scenarios []scenario) {
	carriers := []struct {
		name string
		ask  func(m *limiter.Memory, p *limiter.Policy, now time.Time, shown limiter.Tally, cost int64) (limiter.Tally, storeless.Verdict)
	}{
		{"echo", func(_ *limiter.Memory, p *limiter.Policy, now time.Time, shown limiter.Tally, cost int64) (limiter.Tally, storeless.Verdict) {
			return p.Step(now, shown, cost)
		}},
		{"memory", func(m *limiter.Memory, p *limiter.Policy, now time.Time, _ limiter.Tally, cost int64) (limiter.Tally, storeless.Verdict) {
			return m.Take(now, p, &limiter.Candidate{Key: 1}, cost)
		}},
		{"both", func(m *limiter.Memory, p *limiter.Policy, now time.Time, shown limiter.Tally, cost int64) (limiter.Tally, storeless.Verdict) {
			return m.Take(now, p, &limiter.Candidate{Key: 1, Shown: shown}, cost)
		}},
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			policies := make([]*limiter.Policy, len(s.policies))
			for i, l := range s.policies {
				policies[i] = compile(t, l)
			}
			policies = tiersOf(policies...)
			for _, c := range carriers {
				t.Run(c.name, func(t *testing.T) {
					m := limiter.NewMemory(1, 1)
					var shown limiter.Tally
					for i, row := range s.rows {
						tally, v := c.ask(m, policies[row.under], midnight.Add(row.at), shown, row.cost)
						shown = tally
						got := row
						got.admitted, got.left = v.Admitted, v.Limits[0].Remaining
						got.wait, got.reset = int(v.Wait/second), int(v.Limits[0].Reset/second)
						require.Equal(t, row, got, "row %d", i)
						require.Equal(t, !row.admitted, v.Limits[0].Blocked, "row %d", i)
						require.Equal(t, row.cost > policies[row.under].Capacity(), v.Impossible, "row %d", i)
					}
				})
			}
		})
	}
}
