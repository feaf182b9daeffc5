// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// Tallies that cost nothing fill their own cells, and no others: a pass has all of its
// quota then, in whichever tier, and no second one.
func TestPassesInAFullMemory(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			p := compile(t, storeless.Limit{Algorithm: a, Quota: 240, Window: day})
			pass, m := p.Pass(hour), limiter.NewMemory(4, 1)
			has := pass.Capacity()
			for i, pass := range []*limiter.Policy{pass, pass.Among(pass), pass.Scale(1), pass.Share(1)} {
				tally := numbered(m, 'p', i)
				for n := range 2000 {
					take(m, p, midnight, stranger(m, n), 1)
					if n > 1000 && take(m, pass, midnight, tally, 1).Admitted {
						has--
					}
				}
				require.Zero(t, has, "%d", i)
				has = pass.Capacity()
			}
		})
	}
}

// What belongs to a pass is free soon after its death, and no sooner: a day's limit keeps
// the cells of all others for two days.
func TestDeadPassesLeaveTheirCells(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			p := compile(t, storeless.Limit{Algorithm: a, Quota: 240, Window: day, Burst: map[bool]int64{true: 240}[a == storeless.TokenBucket]})
			pass, life := p.Pass(hour), p.PassLife(hour)
			for _, late := range []time.Duration{0, second, 12 * hour, day - second} {
				m, now := limiter.NewMemory(1, 1), midnight.Add(late)
				for n := range 16 {
					require.True(t, take(m, pass, now, stranger(m, n), 1).Admitted)
				}
				require.InDelta(t, 1, m.Fill(now.Add(life)), 0)
				require.Zero(t, m.Fill(now.Add(life+minute)))
			}
		})
	}
}

// Where more passes are alive than there are cells, nobody is counted too low for all of a
// pass's life: what the memory admits, one that forgets nothing would admit. So it is over
// boundaries of the windows, under any tier, and for buckets of other intervals.
func TestNoPassIsCountedTooLow(t *testing.T) {
	for _, a := range algorithms {
		for _, window := range []time.Duration{2 * hour, day, 7 * day} {
			t.Run(fmt.Sprintf("%s/%s", a, window), func(t *testing.T) {
				inherited, admitted, refused := 0, 0, 0
				each(t, 6, func(t *testing.T, r *rand.Rand) {
					var tiers []*limiter.Policy
					for _, quota := range []int64{7, 60, 240} {
						l := storeless.Limit{Algorithm: a, Quota: quota, Window: window}
						if a == storeless.TokenBucket {
							l.Burst = 1 + r.Int64N(quota)
						}
						tiers = append(tiers, compile(t, l).Pass(hour))
					}
					tiers, life := tiersOf(tiers...), tiers[0].PassLife(hour)
					m, all := limiter.NewMemory(1, 1), limiter.NewMemory(4096, 1)
					now := midnight.Add(-time.Duration(r.Int64N(int64(life))))
					alive := []int{}
					ends := map[int]time.Time{}
					for i := range 3000 {
						now = now.Add(time.Duration(r.Int64N(int64(life / 200))))
						if i%12 == 0 { // somebody buys
							alive = append(alive, i)
							ends[i] = now.Add(life)
						}
						n := alive[len(alive)-1-r.IntN(min(len(alive), 30))]
						if !now.Before(ends[n]) {
							continue
						}
						tier, cost := tiers[r.IntN(3)], 1+r.Int64N(2)
						v := take(m, tier, now, numbered(m, 'p', n), cost)
						if v.Inherited > 0 {
							inherited++
						}
						if !v.Admitted {
							refused++
							continue
						}
						admitted++
						require.True(t, take(all, tier, now, numbered(all, 'p', n), cost).Admitted, "pass %d, request %d", n, i)
					}
				})
				require.Positive(t, inherited)
				require.Greater(t, admitted, 100)
				require.Greater(t, refused, 100)
			})
		}
	}
}
