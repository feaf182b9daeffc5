// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// What passes have used is kept while any of them is alive, whether or not passes are for sale,
// and for requests under way too. Then its cells are let go of.
func TestPassesOutliveTheirPolicy(t *testing.T) {
	for _, a := range algorithms[:3] {
		t.Run(a.String(), func(t *testing.T) {
			p := compile(t, limiter.Limit{Algorithm: a, Quota: 48, Window: day})
			pass, life := p.Pass(hour), p.PassLife(hour)
			m := limiter.NewMemory(8, 1)
			f := limiter.Candidate{Key: 1, Ends: midnight.Add(life)}
			m.Retain(midnight, p, pass)
			with := m.Size()
			require.EqualValues(t, 2, drain(m, pass, midnight, f))
			m.Retain(midnight, p)
			require.Zero(t, drain(m, pass, midnight.Add(minute), f), "a request under way")
			m.Retain(midnight.Add(minute), p)
			m.Retain(midnight.Add(2*minute), p, pass)
			require.Zero(t, drain(m, pass, midnight.Add(2*minute), f))
			require.Equal(t, with, m.Size())

			m.Retain(midnight.Add(life), p)
			require.Equal(t, with, m.Size(), "the clock of the instance that sold it may be ahead")
			m.Retain(midnight.Add(life+minute), p)
			require.Less(t, m.Size(), with)
		})
	}
}

// So it is for what was taken from a pass that had lost its cell.
func TestFloorsOutliveTheirPolicy(t *testing.T) {
	p := compile(t, limiter.Limit{Quota: 240, Window: day})
	pass, m := p.Pass(hour), limiter.NewMemory(1, 1)
	for n := range 16 {
		m.Take(midnight, pass, &limiter.Candidate{Key: stranger(m, n), Ends: midnight.Add(hour)}, 3)
	}
	for n := range 60 { // they take all cells, and live for a minute
		m.Take(midnight, pass, &limiter.Candidate{Key: stranger(m, 100+n), Ends: midnight.Add(minute)}, 1)
	}
	then := midnight.Add(3 * minute)
	m.Retain(then, p)
	m.Retain(then, p, pass)
	require.LessOrEqual(t, drain(m, pass, then, limiter.Candidate{Key: stranger(m, 0), Ends: midnight.Add(hour)}), int64(7))
}

// A pass lives as long as it was sold for, and no stranger has its cell before, however short
// those live that are sold by now.
func TestALongPassKeepsItsCell(t *testing.T) {
	p := compile(t, limiter.Limit{Quota: 240, Window: day})
	pass, m := p.Pass(hour), limiter.NewMemory(1, 1)
	f := limiter.Candidate{Key: stranger(m, 0), Ends: midnight.Add(day)}
	require.EqualValues(t, 10, drain(m, pass, midnight, f))
	then := midnight.Add(p.PassLife(hour) + 2*minute)
	for n := range 40 {
		m.Take(then, pass, &limiter.Candidate{Key: stranger(m, 1+n), Ends: then.Add(minute)}, 1)
	}
	require.Zero(t, drain(m, pass, then, f))
}

// A pass that was sold under another PassTime is counted on: neither does it begin anew, nor is
// it forgotten before it ends.
func TestPassUnderAnotherPassTime(t *testing.T) {
	for name, row := range map[string]struct {
		algorithm     limiter.Algorithm
		sold, changed time.Duration
		first         int64 // what it has as it was sold
		wants         int64 // what it has besides after the change
	}{
		"a window, longer":          {limiter.SlidingWindow, hour, day, 3, 47},
		"a fixed window, longer":    {limiter.FixedWindow, hour, day, 3, 47},
		"a bucket, longer":          {limiter.TokenBucket, hour, day, 3, 43},
		"a window, a little longer": {limiter.SlidingWindow, hour, 2 * hour, 3, 2},
		"a window, shorter":         {limiter.SlidingWindow, day, hour, 50, 0},
		"a fixed window, shorter":   {limiter.FixedWindow, day, hour, 50, 0},
		"a bucket, shorter":         {limiter.TokenBucket, day, hour, 50, 0},
		"a window, much shorter":    {limiter.SlidingWindow, 2 * hour, minute, 5, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := compile(t, limiter.Limit{Algorithm: row.algorithm, Quota: 50, Window: day})
			sold, changed, life := p.Pass(row.sold), p.Pass(row.changed), p.PassLife(row.sold)
			for _, late := range []time.Duration{0, 12 * hour, day - minute} {
				m, now := limiter.NewMemory(8, 1), midnight.Add(late)
				f := limiter.Candidate{Key: 1, Ends: now.Add(life)}
				require.Equal(t, row.first, drain(m, sold, now, f))
				require.Equal(t, row.wants, drain(m, changed, now.Add(second), f))
				require.Zero(t, drain(m, sold, now.Add(2*second), f), "and back")
				require.Zero(t, drain(m, changed, now.Add(3*second), f), "and again")
			}
		})
	}
}

// Whatever PassTime was and is, and however often it changes: a pass has used what it has used. Where
// its quota is for life it has no more of it, and else no more in a window. (What it used when that was
// the quota of a window fades with its windows.)
func TestPassesKeepTheirCountsWhateverTheirLength(t *testing.T) {
	memories := []time.Duration{minute, 30 * minute, hour, 3 * hour, day}
	full := 0
	seeds := 60
	if kit.Brief() {
		seeds = 12
	}
	each(t, seeds, func(t *testing.T, r *rand.Rand) {
		window := []time.Duration{2 * hour, day}[r.IntN(2)]
		sliding := r.IntN(2) == 0
		p := compile(t, limiter.Limit{Algorithm: map[bool]limiter.Algorithm{true: limiter.SlidingWindow, false: limiter.FixedWindow}[sliding], Quota: 30 + r.Int64N(300), Window: window})
		m, log, lasting := limiter.NewMemory(64, 1), map[int]history{}, map[*limiter.Policy]bool{}
		now := midnight.Add(-time.Duration(r.Int64N(int64(day))))
		ends, memory := map[int]time.Time{}, hour
		for range 3000 {
			now = now.Add(time.Duration(r.Int64N(int64(4 * minute))))
			if r.IntN(300) == 0 {
				memory = memories[r.IntN(len(memories))]
			}
			pass := p.Pass(memory)
			lasting[pass] = window > memory
			if r.IntN(20) == 0 {
				m.Retain(now, []*limiter.Policy{p, pass}[:1+r.IntN(2)]...)
			}
			n := r.IntN(20) + int(now.Sub(midnight)/(6*hour))*100
			if _, sold := ends[n]; !sold {
				ends[n] = now.Add(p.PassLife(memory))
			}
			if !now.Before(ends[n]) {
				continue
			}
			cost := 1 + r.Int64N(4)
			_, v := m.Take(now, pass, &limiter.Candidate{Key: numbered(m, 'p', n), Ends: ends[n]}, cost)
			if !v.Admitted {
				full++
				continue
			}
			log[n] = append(log[n], admission{clock: now.UnixMicro(), cost: cost, policy: pass})
			used := int64(0)
			for _, e := range log[n] {
				passed := (now.UnixMicro() - e.clock/window.Microseconds()*window.Microseconds()) / window.Microseconds()
				if passed == 0 || window > memory && (lasting[e.policy] || passed == 1 && sliding) {
					used += e.cost
				}
			}
			require.LessOrEqual(t, used, pass.Limit(0).Quota, "of %s with %s", p.Limit(0).Window, memory)
		}
	})
	require.Greater(t, full, 100)
}

// One that echoes has all of its pass, whichever instance's clock is ahead at midnight: what is
// counted in one window there and in another here is counted once.
func TestPassIsCountedOnceWhereClocksDiffer(t *testing.T) {
	for _, a := range algorithms[:2] {
		p := compile(t, limiter.Limit{Algorithm: a, Quota: 240, Window: day})
		pass := p.Pass(hour)
		for _, skew := range []time.Duration{5 * second, 20 * minute} {
			here, there := limiter.NewMemory(8, 1), limiter.NewMemory(8, 1)
			f, admitted := limiter.Candidate{Key: 1, Ends: midnight.Add(hour)}, 0
			for at := -8 * second; at < 8*second; at += second {
				m, ahead := here, time.Duration(0)
				if at%(2*second) == 0 {
					m, ahead = there, skew
				}
				tally, v := m.Take(midnight.Add(at+ahead), pass, &f, 1)
				if v.Admitted {
					f.Shown = tally
					admitted++
				}
			}
			require.Equal(t, 10, admitted, "%s, apart by %s", a, skew)
		}
	}
}

// A pass that lives for longer than all that is sold by now is no wrong clock's.
func TestLongPassesKeepTheirCells(t *testing.T) {
	p := compile(t, limiter.Limit{Name: "short", Quota: 50, Window: 2 * hour}, limiter.Limit{Name: "day", Quota: 5000, Window: day})
	pass, m := p.Pass(minute), limiter.NewMemory(1, 2)
	f := limiter.Candidate{Key: numbered(m, 'p', 0), Ends: midnight.Add(p.PassLife(day))}
	require.EqualValues(t, 1, drain(m, pass, midnight, f))
	for n := range 15 {
		require.EqualValues(t, 1, drain(m, pass, midnight, limiter.Candidate{Key: stranger(m, n), Ends: midnight.Add(hour)}))
	}
	require.Zero(t, drain(m, pass, midnight, f))
}

// Tallies that cost nothing fill their own cells, and no others: a pass has all of its
// quota then, in whichever tier, and no second one.
func TestPassesInAFullMemory(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			p := compile(t, limiter.Limit{Algorithm: a, Quota: 240, Window: day})
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
			p := compile(t, limiter.Limit{Algorithm: a, Quota: 240, Window: day, Burst: map[bool]int64{true: 240}[a == limiter.TokenBucket]})
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
						l := limiter.Limit{Algorithm: a, Quota: quota, Window: window}
						if a == limiter.TokenBucket {
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
