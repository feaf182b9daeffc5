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

// A register that is full admits nothing, for what it cannot strike out would be
// good for ever, and charges nothing.
func TestRegisterFull(t *testing.T) {
	m, p := limiter.NewMemory(1, 1), perMinute(t, 1<<20)
	for n := range 16 {
		require.Zero(t, take(m, p, opening, numbered(m, 'f', n), 1).Inherited)
		_, v := m.Take(opening, p, &limiter.Candidate{Key: numbered(m, 'f', 0), Proof: proofOf(numbered(m, 'x', n), time.Hour)}, 1)
		require.True(t, v.Admitted)
	}
	f := limiter.Candidate{
		Key:      numbered(m, 'f', 0), // remembered, as are its networks
		Networks: []limiter.Network{{Key: numbered(m, 'f', 1), Policy: p}, {Key: numbered(m, 'f', 2), Policy: p}},
		Proof:    proofOf(7, time.Minute),
	}
	before := m.Saturations()
	_, start := m.Take(opening, p, &limiter.Candidate{Key: f.Key}, 0)
	for n := range 10 {
		_, v := m.Take(opening, p, &f, 5)
		require.True(t, v.Saturated)
		require.False(t, v.Admitted || v.Spent)
		require.Equal(t, before+uint64(n+1), m.Saturations())
		require.Equal(t, start.Limits[0].Remaining, v.Limits[0].Remaining)
	}
}

// Without a memory there is nothing to strike a proof from.
func TestProofWithoutMemory(t *testing.T) {
	f := limiter.Candidate{Key: 1, Proof: proofOf(7, time.Minute)}
	for range 3 {
		_, v := (*limiter.Memory)(nil).Take(opening, perMinute(t, 5), &f, 1)
		require.True(t, v.Admitted && !v.Spent && !v.Saturated)
	}
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
