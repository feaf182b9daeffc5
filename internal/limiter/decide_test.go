// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// Peek and Take are of one mind about the limits, whatever is shown, remembered
// and asked, of the tally and of its networks; and a peek leaves no trace.
func TestPeekIsTake(t *testing.T) {
	each(t, 4, func(t *testing.T, r *rand.Rand) {
		p := compile(t, randomLimits(r, 3, minute)...)
		m := limiter.NewMemory(1024, 3)
		now, refused := midnight, 0
		for range 2000 {
			now = now.Add(time.Duration(r.Int64N(int64(500 * time.Millisecond))))
			f := limiter.Candidate{Key: limiter.Key(r.Uint64N(8)) << 60}
			if r.IntN(2) == 0 {
				f.Shown = randomTally(r, p, now)
			}
			if r.IntN(2) == 0 {
				f.Networks = []limiter.Network{{Key: 1 << 40, Policy: p.Scale(2)}, {Key: 1 << 50, Policy: p.Scale(3)}}
			}
			cost := spread(r, 0, 2*p.Capacity())
			for _, m := range []*limiter.Memory{m, nil} {
				said := m.Peek(now, p, &f, cost)
				require.Equal(t, said, m.Peek(now, p, &f, cost), "a peek leaves a trace")
				_, v := m.Take(now, p, &f, cost)
				require.Equal(t, v.Admitted, said.Admitted)
				if !v.Admitted {
					require.Equal(t, v, said)
					refused++
				}
			}
		}
		require.Greater(t, refused, 200, "the workload is refused")
		require.Less(t, refused, 3800, "and admitted")
	})
}

// A peek spends no proof, and a tally of a wrong clock is as absent as to Take.
func TestPeekSpendsNothing(t *testing.T) {
	p := compile(t, limiter.Limit{Quota: 5, Window: minute})
	m := limiter.NewMemory(1, 1)
	f := limiter.Candidate{Key: 1, Proof: &limiter.Proof{Key: 2, Expires: midnight.Add(minute)}}
	for range 3 {
		require.True(t, m.Peek(midnight, p, &f, 1).Admitted)
	}
	_, v := m.Take(midnight, p, &f, 1)
	require.True(t, v.Admitted, "the proof was there to be spent")

	far := limiter.Candidate{Key: 3, Shown: limiter.Tally{{At: midnight.Unix()/60 + 1000, Cur: 5}}}
	for _, m := range []*limiter.Memory{m, nil} {
		require.True(t, m.Peek(midnight, p, &far, 1).Admitted)
		_, v := m.Take(midnight, p, &far, 1)
		require.True(t, v.Admitted)
		require.Panics(t, func() { m.Peek(midnight, p, &f, -1) })
	}
}

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

// Two clients get exactly what the limits say, no more and no less, request by
// request: the honest one, which echoes the newest tally to whatever instance, even
// one that has just started; and any other, on one instance that keeps running.
func TestExactlyTheQuota(t *testing.T) {
	clients := []struct {
		name      string
		instances int
		restarts  bool
		shows     func(f *fleet, r *rand.Rand, p *limiter.Policy, now time.Time) limiter.Tally
	}{
		{"echoes to one of five", 5, true, func(f *fleet, _ *rand.Rand, _ *limiter.Policy, _ time.Time) limiter.Tally { return f.newest() }},
		{"replays, drops and forks on one", 1, false, (*fleet).anything},
	}
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			for name, policies := range tracePolicies(t) {
				t.Run(name, func(t *testing.T) {
					each(t, 6, func(t *testing.T, r *rand.Rand) {
						f := newFleet(r, c.instances, 0)
						now, p := midnight, policies[0]
						admitted, refused := 0, 0
						for n := range 400 {
							now = now.Add(time.Duration(r.Int64N(int64(200*time.Millisecond))) + spreadJump(r))
							if c.restarts && r.IntN(10) == 0 {
								f.restart(r.IntN(len(f.instances)))
							}
							if r.IntN(50) == 0 {
								p = policies[r.IntN(len(policies))]
							}
							cost := spread(r, 1, min(3, p.Capacity()))
							want := true
							for i := range p.Len() {
								us := now.UnixMicro()
								want = want && f.history.admits(p, i, us, us/p.Limit(i).Window.Microseconds(), cost)
							}
							_, v := f.ask(r.IntN(len(f.instances)), p, now, c.shows(f, r, p, now), cost)
							require.Equal(t, want, v.Admitted, "request %d at %v", n, now.Sub(midnight))
							if v.Admitted {
								admitted++
							} else {
								refused++
							}
						}
						require.Greater(t, admitted, 9, "the workload admits")
						require.Greater(t, refused, 9, "and refuses")
					})
				})
			}
		})
	}
}

// spreadJump is, now and then, some windows.
func spreadJump(r *rand.Rand) time.Duration {
	if r.IntN(40) > 0 {
		return 0
	}
	return time.Duration(r.Int64N(int64(25 * second)))
}

// Each limit is charged its own cost, all of them or none: of a tally that is shown, of one that memory knows, and of a
// network. What costs nothing is not charged and refuses nothing, and a peek has no costs.
func TestCostsOfEachLimit(t *testing.T) {
	p := compile(t,
		limiter.Limit{Name: "requests", Quota: 3, Window: minute, Algorithm: limiter.FixedWindow},
		limiter.Limit{Name: "tokens", Quota: 100, Window: minute, Algorithm: limiter.TokenBucket, Burst: 50},
		limiter.Limit{Name: "bytes", Quota: 1000, Window: minute},
	)
	narrow := p.WithTiers(p)
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
