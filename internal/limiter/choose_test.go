// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

func TestChoose(t *testing.T) {
	minutely := limiter.Limit{Name: "m", Quota: 5, Window: minute}
	hourly := limiter.Limit{Name: "h", Quota: 9, Window: hour}
	one, two := compile(t, minutely), compile(t, minutely, hourly)
	rows := []struct {
		name     string
		policy   *limiter.Policy
		spent    [][2]int64 // of each tally in turn: used this minute, and this hour besides
		cost     int64
		charged  int
		admitted bool
	}{
		{"one tally", one, [][2]int64{{2}}, 1, 0, true},
		{"one tally, spent", one, [][2]int64{{5}}, 1, 0, false},
		{"a tie goes to the earlier, the own one", one, [][2]int64{{0}, {0}}, 1, 0, true},
		{"a tie in the middle", one, [][2]int64{{4}, {2}, {2}}, 1, 1, true},
		{"a spent own one leaves the shared one", one, [][2]int64{{5}, {0}}, 1, 1, true},
		{"a spent shared one leaves the own one", one, [][2]int64{{0}, {5}}, 1, 0, true},
		{"a planted one, nearly spent, is not chosen", one, [][2]int64{{4}, {1}}, 1, 1, true},
		{"most left wins", one, [][2]int64{{3}, {4}, {1}, {2}}, 1, 2, true},
		{"the cost fits one of them alone", one, [][2]int64{{3}, {1}}, 4, 1, true},
		{"most left is by the tightest limit", two, [][2]int64{{1, 7}, {3, 0}}, 1, 1, true},
		{"all spent: the shortest wait", two, [][2]int64{{1, 8}, {5, 0}}, 1, 1, false},
		{"all spent alike: the earlier", one, [][2]int64{{5}, {5}}, 1, 0, false},
		{"a peek charges none", one, [][2]int64{{5}, {1}}, 0, 1, true},
		{"above the capacity", one, [][2]int64{{1}, {0}}, 6, 1, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			for _, remembered := range []bool{true, false} {
				m := limiter.NewMemory(16, 2)
				hours := compile(t, hourly)
				candidates := make([]limiter.Candidate, len(row.spent))
				for i, spent := range row.spent {
					f := limiter.Candidate{Key: limiter.Key(i)}
					alone, _ := hours.Step(midnight, limiter.Tally{}, spent[1])
					f.Shown[1] = alone[0]
					take(m, hours, midnight, f.Key, spent[1])
					candidates[i].Key = f.Key
					tally, v := m.Take(midnight, row.policy, &f, spent[0])
					require.True(t, v.Admitted)
					if !remembered {
						candidates[i].Shown = tally
					}
				}
				if !remembered {
					m = nil
				}
				i, tally, v := m.Choose(midnight, row.policy, candidates, row.cost)
				require.Equal(t, row.charged, i)
				require.Equal(t, row.admitted, v.Admitted)
				require.Equal(t, row.cost > 5, v.Impossible)
				spent := row.spent[i][0]
				if row.admitted {
					spent += row.cost
				}
				require.Equal(t, uint32(spent), tally[0].Cur, "the tally that was charged")
				for j := range candidates {
					want := 5 - row.spent[j][0]
					if j == i {
						want = 5 - spent
					}
					if remembered {
						require.Equal(t, want, take(m, one, midnight, candidates[j].Key, 0).Limits[0].Remaining, "tally %d", j)
					}
				}
			}
		})
	}
}

func TestChooseRefusesNonsense(t *testing.T) {
	p, m := compile(t, limiter.Limit{Quota: 5, Window: minute}), limiter.NewMemory(1, 1)
	require.Panics(t, func() { m.Choose(midnight, p, nil, 1) })
	require.Panics(t, func() { m.Choose(midnight, p, make([]limiter.Candidate, 65), 1) })
}

// A tally whose network is spent has nothing left, however fresh it is itself.
func TestChooseMindsNetworks(t *testing.T) {
	p, m := compile(t, limiter.Limit{Quota: 5, Window: minute}), limiter.NewMemory(8, 1)
	wide := []limiter.Network{{Key: 100, Policy: p.Scale(1)}}
	drain(m, p, midnight, limiter.Candidate{Key: 1, Networks: wide})
	i, _, v := m.Choose(midnight, p, []limiter.Candidate{{Key: 2, Networks: wide}, {Key: 3}}, 1)
	require.Equal(t, 1, i)
	require.True(t, v.Admitted)
	i, _, v = m.Choose(midnight, p, []limiter.Candidate{{Key: 2, Networks: wide}, {Key: 4, Networks: wide}}, 1)
	require.Equal(t, 0, i)
	require.False(t, v.Admitted)
	require.Equal(t, 72*second, v.Wait)
}

// Between the look and the charge others may spend what was seen. A request that
// loses such a race falls through to the next tally: of as many requests as
// there is room for, none is refused.
func TestChooseFallsThrough(t *testing.T) {
	const quota, tallies = 16, 3
	p := compile(t, limiter.Limit{Quota: quota, Window: minute})
	for round := range 200 {
		m := limiter.NewMemory(8, 1)
		shown := [tallies]limiter.Candidate{{Key: 1}, {Key: 2}, {Key: 3}}
		var refused atomic.Int64
		now := midnight.Add(time.Duration(round) * hour)
		kit.Together(tallies*quota/4, func(int) {
			for range 4 {
				if _, _, v := m.Choose(now, p, shown[:], 1); !v.Admitted {
					refused.Add(1)
				}
			}
		})
		require.Zero(t, refused.Load(), "round %d", round)
		for i := range shown {
			require.Zero(t, take(m, p, now, shown[i].Key, 0).Limits[0].Remaining, "round %d", round)
		}
	}
}
