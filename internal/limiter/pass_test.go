// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

func TestPass(t *testing.T) {
	limit := func(quota int64, window time.Duration) limiter.Limit {
		return limiter.Limit{Algorithm: limiter.SlidingWindow, Quota: quota, Window: window}
	}
	bucket := func(quota int64, window time.Duration, burst int64) limiter.Limit {
		return limiter.Limit{Algorithm: limiter.TokenBucket, Quota: quota, Window: window, Burst: burst}
	}
	meter := limiter.Limit{Algorithm: limiter.LeakyBucket, Quota: 240, Window: day}
	for name, test := range map[string]struct {
		limits []limiter.Limit
		memory time.Duration
		life   time.Duration
		quotas []int64 // what passes at once, of each limit
	}{
		"short":                     {[]limiter.Limit{limit(5, time.Minute)}, time.Hour, time.Hour, []int64{5}},
		"as long as the memory":     {[]limiter.Limit{limit(5, time.Hour)}, time.Hour, 2 * time.Hour, []int64{5}},
		"a second longer":           {[]limiter.Limit{limit(7200, time.Hour+time.Second)}, time.Hour, time.Hour, []int64{7198 + 1}},
		"a day alone":               {[]limiter.Limit{limit(50, day)}, time.Hour, time.Hour, []int64{3}},
		"a minute and a day":        {[]limiter.Limit{limit(5, time.Minute), limit(50, day)}, time.Hour, time.Hour, []int64{5, 5}},
		"in any order":              {[]limiter.Limit{limit(50, day), limit(5, time.Minute)}, time.Hour, time.Hour, []int64{5, 5}},
		"a day in a day":            {[]limiter.Limit{limit(5, time.Minute), limit(50, day)}, day, 2 * day, []int64{5, 50}},
		"a long half hour":          {[]limiter.Limit{limit(5, 31*time.Minute), limit(480, day)}, time.Hour, 62 * time.Minute, []int64{5, 20}},
		"the longest, not the last": {[]limiter.Limit{limit(5, 40*time.Minute), limit(5, 50*time.Second)}, time.Hour, 80 * time.Minute, []int64{5, 5}},
		"less than its minute":      {[]limiter.Limit{limit(10, time.Minute), limit(8, day)}, time.Hour, time.Hour, []int64{10, 8}},
		"one a day":                 {[]limiter.Limit{limit(1, day)}, time.Minute, time.Hour, []int64{1}},
		"a meter's minute":          {[]limiter.Limit{{Algorithm: limiter.LeakyBucket, Quota: 600, Window: time.Minute}, limit(9999, day)}, time.Hour, time.Hour, []int64{1, 600}},
		"a burst":                   {[]limiter.Limit{bucket(1, time.Second, 100), limit(1000, day)}, time.Hour, time.Hour, []int64{100, 100}},
		"a bucket of a day":         {[]limiter.Limit{bucket(50, day, 0)}, time.Hour, time.Hour, []int64{3}},
		"a large one leaks a part":  {[]limiter.Limit{bucket(24_000, day, 0)}, time.Hour, time.Hour, []int64{960}},
		"a meter of a day":          {[]limiter.Limit{meter}, time.Hour, time.Hour, []int64{1}},
		"a bucket no faster":        {[]limiter.Limit{limit(50, time.Minute), bucket(24, day, 3)}, time.Hour, time.Hour, []int64{50, 3}},
		"the largest":               {[]limiter.Limit{limit(limiter.MaxQuota, limiter.MaxWindow)}, time.Second, time.Hour, []int64{68}},
	} {
		t.Run(name, func(t *testing.T) {
			p := compile(t, test.limits...)
			pass := p.Pass(test.memory)
			require.True(t, p.SameShape(pass))
			require.Equal(t, test.life, p.PassLife(test.memory))
			for i, quota := range test.quotas {
				v := pass.Peek(midnight, limiter.Tally{}, 0)
				require.Equal(t, quota, v.Limits[i].Remaining)
				require.Equal(t, p.ID(i), pass.ID(i), "a token of one is a token of the other")
			}
		})
	}
	require.Panics(t, func() { compile(t, meter).Pass(0) })
}

// statedBy is what a pass has of the i-th limit: the rule, in other words. It is not ok
// where the limit is not longer than memory.
func statedBy(limits []limiter.Limit, i int, memory time.Duration) (quota int64, ok bool) {
	l := limits[i]
	if l.Window <= memory {
		return 0, false
	}
	seconds, window := int64(memory/time.Second), int64(l.Window/time.Second)
	quota = (l.Quota*seconds + window - 1) / window
	for _, short := range limits {
		if short.Window <= memory {
			quota = max(quota, short.Quota, short.Burst)
		}
	}
	return min(quota, l.Quota), true
}

// A pass admits what it states in its life and no more, on each instance and to whatever
// is shown; and to a client that echoes, no more on all instances together.
func TestPassAdmitsWhatItStates(t *testing.T) {
	traces := 3000
	if kit.Brief() {
		traces = 600
	}
	r := rand.New(rand.NewPCG(1, 11))
	algorithms := []limiter.Algorithm{limiter.SlidingWindow, limiter.FixedWindow, limiter.TokenBucket, limiter.LeakyBucket}
	full := 0
	for trace := range traces {
		memory := []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 3 * time.Hour, day}[r.IntN(5)]
		var limits []limiter.Limit
		for i := range 1 + r.IntN(3) {
			l := limiter.Limit{
				Name: fmt.Sprint("l", i), Algorithm: algorithms[r.IntN(4)], Quota: 1 + r.Int64N(300),
				Window: []time.Duration{time.Minute, 7 * time.Minute, 50 * time.Minute, time.Hour, 90 * time.Minute, day, 30 * day}[r.IntN(7)],
			}
			if l.Algorithm == limiter.TokenBucket {
				l.Burst = 1 + r.Int64N(min(300, 12*l.Quota)) // it must be empty again within a year
			}
			limits = append(limits, l)
		}
		p := compile(t, limits...)
		pass, life := p.Pass(memory), p.PassLife(memory)
		for i := range limits {
			require.LessOrEqual(t, pass.Limit(i).Quota, limits[i].Quota, "a pass is no faster than its limit")
			require.LessOrEqual(t, pass.Limit(i).Burst, p.Limit(i).Burst)
		}
		echoes := r.IntN(2) == 0
		instances := make([]*limiter.Memory, 1+r.IntN(3))
		lives := len(instances)
		for i := range instances {
			instances[i] = limiter.NewMemory(64, p.Len())
		}
		// Mostly around a boundary of some window.
		start := midnight.Add(-time.Duration(r.Int64N(int64(life))))
		var times []time.Duration
		for at := time.Duration(0); at < life; at += time.Duration(r.Int64N(int64(life) / 40)) {
			times = append(times, at)
		}
		shown := []limiter.Tally{{}}
		var admitted int64
		for _, at := range times {
			i := r.IntN(len(instances))
			if !echoes && r.IntN(200) == 0 {
				instances[i] = limiter.NewMemory(64, p.Len())
				lives++
			}
			for range r.IntN(40) {
				f := limiter.Candidate{Key: limiter.Key(trace), Shown: shown[len(shown)-1]}
				if !echoes {
					f.Shown = shown[r.IntN(len(shown))] // rolled back, forked, dropped
				}
				cost := 1 + r.Int64N(3)
				tally, v := instances[i].Take(start.Add(at), pass, &f, cost)
				if v.Admitted {
					admitted += cost
					shown = append(shown, tally)
				}
			}
		}
		if echoes {
			lives = 1
		}
		for i := range limits {
			quota, ok := statedBy(limits, i, memory)
			if !ok {
				continue
			}
			require.LessOrEqual(t, admitted, int64(lives)*quota, "trace %d: %v of %v, %d lives", trace, limits, memory, lives)
			if admitted == int64(lives)*quota {
				full++
			}
		}
	}
	require.Greater(t, full, traces/10, "passes are used up")
}

// Expires and Life tell a carrier when it may drop the tally of a pass: not while a request
// is refused for what was used of it. That is many windows here.
func TestPassExpiresWithItsLife(t *testing.T) {
	for _, algorithm := range []limiter.Algorithm{limiter.SlidingWindow, limiter.FixedWindow} {
		for _, window := range []time.Duration{7 * time.Minute, time.Hour + time.Second, day} {
			p := compile(t, limiter.Limit{Algorithm: algorithm, Quota: 21, Window: window})
			pass, life := p.Pass(time.Minute), p.PassLife(time.Minute)
			for _, late := range []time.Duration{0, window / 2, window - time.Microsecond} { // in its window
				start := midnight.Add(late)
				tally, v := pass.Step(start, limiter.Tally{}, pass.Capacity())
				require.True(t, v.Admitted)
				dead := start.Add(life)
				_, v = pass.Step(dead.Add(-time.Microsecond), tally, 1)
				require.False(t, v.Admitted, "it is used up for as long as it lives")
				require.False(t, time.Unix(pass.Expires(&tally), 0).Before(dead), "%s, %s of %s", algorithm, late, window)
				require.GreaterOrEqual(t, pass.Life(), time.Unix(pass.Expires(&tally), 0).Sub(start))
			}
		}
	}
}

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

// Where more passes are alive than there are cells, no pass is counted too low in all of its
// life: what the memory admits, one that forgets nothing would admit. So it is over
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
						if i%12 == 0 { // a purchase
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

func proofOf(key limiter.Key, life time.Duration) *limiter.Proof {
	return &limiter.Proof{Key: key, Expires: opening.Add(life)}
}

func perMinute(t testing.TB, quota int64) *limiter.Policy {
	t.Helper()
	return compile(t, limiter.Limit{Quota: quota, Window: minute})
}

// One proof buys one request, however many come with it at once.
func TestProofBuysOneRequest(t *testing.T) {
	p := perMinute(t, 1<<20)
	for name, wide := range map[string][]limiter.Network{"alone": nil, "in networks": {{Key: 8, Policy: p}, {Key: 9, Policy: p}}} {
		t.Run(name, func(t *testing.T) {
			m := limiter.NewMemory(1<<10, 1)
			var admitted, spent atomic.Int64
			kit.Together(1000, func(_ int) {
				f := limiter.Candidate{Key: 1, Networks: wide, Proof: proofOf(7, 10*time.Second)}
				_, v := m.Take(opening, p, &f, 1)
				if v.Admitted {
					admitted.Add(1)
				}
				if v.Spent {
					spent.Add(1)
				}
			})
			require.Equal(t, int64(1), admitted.Load())
			require.Equal(t, int64(999), spent.Load())
			for _, k := range []limiter.Key{1, 8, 9}[:1+len(wide)] {
				_, v := m.Take(opening, p, &limiter.Candidate{Key: k}, 0)
				require.Equal(t, int64(1<<20-1), v.Limits[0].Remaining, "a spent proof charges nothing")
			}
			require.Zero(t, m.Saturations())
		})
	}
}

// What the limits refuse, of the tally or of a network, does not spend the
// proof: it is good for the next request.
func TestProofIsNotSpentByARefusal(t *testing.T) {
	p, one := perMinute(t, 100), perMinute(t, 1)
	for name, f := range map[string]limiter.Candidate{
		"tally":   {Key: 1},
		"network": {Key: 1, Networks: []limiter.Network{{Key: 2, Policy: one}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := limiter.NewMemory(1, 1)
			policy := p
			if f.Networks == nil {
				policy = one
			}
			_, v := m.Take(opening, policy, &f, 1)
			require.True(t, v.Admitted)
			f.Proof = proofOf(7, time.Hour)
			for _, cost := range []int64{1, 1, 100, 101} {
				_, v = m.Take(opening, policy, &f, cost)
				require.False(t, v.Admitted)
				require.False(t, v.Spent)
			}
			_, v = m.Take(opening, policy, &f, 0)
			require.True(t, v.Admitted, "nor does a peek spend it")
			later := opening.Add(2 * time.Minute)
			_, v = m.Take(later, policy, &f, 1)
			require.True(t, v.Admitted)
			_, v = m.Take(later.Add(2*time.Minute), policy, &f, 1)
			require.True(t, v.Spent)
			require.False(t, v.Admitted || v.Saturated || v.Impossible)
			require.Zero(t, v.Wait, "there is nothing to wait for")
			require.False(t, v.Limits[0].Blocked)
		})
	}
}

// A proof is spent to its last second, and at its expiry, when it is worth
// nothing, its place in the register is free.
func TestProofExpires(t *testing.T) {
	p := perMinute(t, 100)
	m := limiter.NewMemory(1, 1)
	ask := func(now time.Time, n int, expires time.Time) limiter.Verdict {
		f := limiter.Candidate{Key: 1, Proof: &limiter.Proof{Key: numbered(m, 'p', n), Expires: expires}}
		_, v := m.Take(now, p, &f, 1)
		return v
	}
	ends := opening.Add(10 * time.Second)
	for n := range 16 {
		require.True(t, ask(opening, n, ends).Admitted)
	}
	for _, now := range []time.Time{opening, ends.Add(-time.Second), ends.Add(-time.Nanosecond)} {
		for n := range 16 {
			v := ask(now, n, ends)
			require.True(t, v.Spent && !v.Admitted, "proof %d", n)
		}
		v := ask(now, 16, ends.Add(time.Minute))
		require.True(t, v.Saturated && !v.Admitted && !v.Spent, "the register is full")
	}
	for n := range 16 { // eight of the old keys, eight new
		require.True(t, ask(ends, 8+n, ends.Add(time.Minute)).Admitted, "and free again: proof %d", n)
	}
	require.True(t, ask(ends, 99, ends.Add(time.Minute)).Saturated)
	require.True(t, ask(ends, 15, ends.Add(time.Minute)).Spent)
	require.Equal(t, uint64(4), m.Saturations())
}

// Against a list of what was spent: at random times, over tallies with limits
// of their own, every proof is admitted once in its life, if at all.
func TestProofsAgainstAList(t *testing.T) {
	admitted, refused := 0, 0
	each(t, 12, func(t *testing.T, r *rand.Rand) {
		m := limiter.NewMemory(1<<10, 1)
		p := perMinute(t, 3)
		spent := map[int]bool{}
		now := opening
		for range 5000 {
			now = now.Add(time.Duration(r.Int64N(int64(time.Second))))
			n := int(now.Sub(opening)/time.Second) + r.IntN(20)
			ends := opening.Add(time.Duration(n+10) * time.Second)
			if !now.Before(ends) {
				continue
			}
			f := limiter.Candidate{Key: numbered(m, 'f', r.IntN(4)), Proof: &limiter.Proof{Key: numbered(m, 'p', n), Expires: ends}}
			_, free := m.Take(now, p, &limiter.Candidate{Key: f.Key}, 0)
			_, v := m.Take(now, p, &f, 1)
			within := free.Limits[0].Remaining > 0
			require.Equal(t, within && !spent[n], v.Admitted)
			require.Equal(t, within && spent[n], v.Spent)
			if v.Admitted {
				spent[n] = true
				admitted++
			}
			if v.Spent {
				refused++
			}
		}
	})
	require.Greater(t, admitted, 200)
	require.Greater(t, refused, 20)
}
