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

// A memory knows what a pass has used for as long as the pass lives, also where that is many
// windows: a client that drops its tokens gains nothing by waiting.
func TestPassIsRememberedForItsLife(t *testing.T) {
	p := compile(t, limiter.Limit{Quota: 21, Window: 7 * time.Minute})
	pass, life, m := p.Pass(time.Minute), p.PassLife(time.Minute), limiter.NewMemory(8, 1)
	start := midnight.Add(7*time.Minute - time.Second)
	require.EqualValues(t, 3, drain(m, pass, start, limiter.Candidate{Key: 1}))
	for at := time.Second; at < life; at += time.Minute {
		for other := range limiter.Key(200) { // they take every cell that is free
			take(m, pass, start.Add(at), 1e18*(other%18+1)+other, 1)
		}
		require.Zero(t, drain(m, pass, start.Add(at), limiter.Candidate{Key: 1}), at)
	}
	require.Zero(t, drain(m, pass, start.Add(life-time.Microsecond), limiter.Candidate{Key: 1}))

	for at := time.Minute; at < life; at += time.Minute {
		m := limiter.NewMemory(1, 1)
		require.EqualValues(t, 3, drain(m, pass, start, limiter.Candidate{Key: 1}))
		for n := range 16 { // as many as there are cells: there is no floor that makes up for one that is lost
			take(m, pass, start.Add(at), stranger(m, n), 1)
		}
		require.Zero(t, drain(m, pass, start.Add(at), limiter.Candidate{Key: 1}), at)
	}
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
				require.False(t, time.Unix(pass.Expires(tally), 0).Before(dead), "%s, %s of %s", algorithm, late, window)
				require.GreaterOrEqual(t, pass.Life(), time.Unix(pass.Expires(tally), 0).Sub(start))
			}
		}
	}
}

// What is used of a pass stays used: at midnight, after a step of the clock, in a merge.
func TestPassDoesNotComeBack(t *testing.T) {
	for _, algorithm := range []limiter.Algorithm{limiter.SlidingWindow, limiter.FixedWindow} {
		p := compile(t, limiter.Limit{Algorithm: algorithm, Quota: 240, Window: day}).Pass(time.Hour)
		m, before := limiter.NewMemory(8, 1), midnight.Add(-time.Minute)
		half, v := m.Take(before, p, &limiter.Candidate{Key: 1}, 4)
		require.True(t, v.Admitted)
		tally, v := m.Take(midnight, p, &limiter.Candidate{Key: 1}, 6)
		require.True(t, v.Admitted)
		require.Zero(t, v.Limits[0].Remaining)
		require.Equal(t, limiter.MaxWindow, v.Limits[0].Reset, "nothing comes back while it lives")

		for name, at := range map[string]time.Time{"a minute later": midnight.Add(time.Minute), "the clock steps back": midnight.Add(-time.Hour)} {
			_, v = m.Take(at, p, &limiter.Candidate{Key: 1, Shown: half}, 1)
			require.False(t, v.Admitted, name)
			require.Equal(t, limiter.MaxWindow, v.Wait, name)
		}
		later := midnight.Add(time.Minute)
		merged := p.Merge(later, half, tally)
		require.Equal(t, merged, p.Merge(later, tally, half))
		_, v = p.Step(later, merged, 1)
		require.False(t, v.Admitted)
		_, v = p.Step(later, p.Restore(later, before, merged, limiter.Price{Cost: 1}), 1)
		require.True(t, v.Admitted, "what is given back is there again")

		scaled, share := p.Scale(2), p.Share(2)
		for _, some := range []*limiter.Policy{scaled, share} {
			quota := some.Limit(0).Quota
			last, v := some.Step(before, limiter.Tally{}, quota)
			require.True(t, v.Admitted)
			_, v = some.Step(midnight.Add(30*time.Minute), last, 1)
			require.False(t, v.Admitted, "a part of a pass is a pass")
		}
	}
}
