// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// randomLimit returns a limit that a few requests fill.
func randomLimit(r *rand.Rand, name string) limiter.Limit {
	l := limiter.Limit{
		Name:      name,
		Algorithm: algorithms[r.IntN(len(algorithms))],
		Quota:     1 + r.Int64N(12),
		Window:    []time.Duration{10 * second, minute, hour}[r.IntN(3)],
	}
	if l.Algorithm == limiter.TokenBucket {
		l.Burst = 1 + r.Int64N(8)
	}
	return l
}

// A shadowed is a policy with shadows, and what it must be equal to: the policy without
// them, and each shadow in force by itself, which is asked only about what that admits.
type shadowed struct {
	all     *limiter.Policy
	inForce *limiter.Policy
	places  []int             // of the limits in force, in all
	alone   []*limiter.Policy // of each shadow
	shadows []int             // their places in all
}

func randomShadowed(t testing.TB, r *rand.Rand) (s shadowed) {
	var all, inForce []limiter.Limit
	for i := range 1 + r.IntN(3) {
		l := randomLimit(r, fmt.Sprintf("force-%d", i))
		all, inForce = append(all, l), append(inForce, l)
	}
	for i := range 1 + r.IntN(2) {
		l := randomLimit(r, fmt.Sprintf("shadow-%d", i))
		s.alone = append(s.alone, compile(t, l))
		l.Shadow = true
		all = slices.Insert(all, r.IntN(len(all)+1), l)
	}
	s.all, s.inForce = compile(t, all...), compile(t, inForce...)
	s.shadows = make([]int, len(s.alone))
	for i, l := range all {
		if !l.Shadow {
			s.places = append(s.places, i)
			continue
		}
		s.shadows[l.Name[len(l.Name)-1]-'0'] = i
	}
	return s
}

// part returns the states at some places of a tally.
func part(t limiter.Tally, places ...int) (p limiter.Tally) {
	for i, at := range places {
		p[i] = t[at]
	}
	return p
}

// A policy with shadows admits what it admits without them, and says the same of it; and
// each shadow counts, and would refuse, what it would in force: for good, and not until it
// differs for the first time. With tokens that are shown, dropped and shown again, with
// networks, by memory and without.
func TestShadowsAgainstThePolicyWithoutThem(t *testing.T) {
	seeds := 60
	if kit.Brief() {
		seeds = 20
	}
	each(t, seeds, func(t *testing.T, r *rand.Rand) {
		s := randomShadowed(t, r)
		memories := make([]*limiter.Memory, 2+len(s.alone))
		remembers := r.IntN(4) > 0
		for i := range memories {
			if remembers {
				memories[i] = limiter.NewMemory(256, 1)
			}
		}
		wide := r.IntN(2) == 0 && remembers
		candidate := func(which int, p *limiter.Policy, client int, shown limiter.Tally) limiter.Candidate {
			f := limiter.Candidate{Shown: shown}
			if m := memories[which]; m != nil {
				f.Key = m.Key([]byte{byte(client)})
				if wide {
					f.Networks = []limiter.Network{
						{Key: m.Key([]byte{'n', byte(client / 2)}), Policy: p.Scale(1)},
						{Key: m.Key([]byte{'w'}), Policy: p.Scale(3)},
					}
				}
			}
			return f
		}
		now, refused, wouldRefuse := midnight, 0, 0
		var tokens [4]limiter.Tally
		for range 400 {
			now = now.Add(time.Duration(r.Int64N(int64(8 * second))))
			client, cost := r.IntN(len(tokens)), r.Int64N(4)
			if r.IntN(20) == 0 {
				cost = 10 // above some quotas
			}
			shown := tokens[client]
			if remembers && r.IntN(3) == 0 {
				shown = limiter.Tally{}
			}
			f := candidate(0, s.all, client, shown)
			tally, v := memories[0].Take(now, s.all, &f, cost)

			g := candidate(1, s.inForce, client, part(shown, s.places...))
			bare, want := memories[1].Take(now, s.inForce, &g, cost)
			require.Equal(t, want.Admitted, v.Admitted)
			require.Equal(t, want.Impossible, v.Impossible)
			require.Equal(t, want.Wait, v.Wait)
			require.Equal(t, want.Least(s.inForce.Len()), v.Least(s.all.Len()))
			require.Equal(t, s.inForce.Capacity(), s.all.Capacity())
			require.Equal(t, bare, part(tally, s.places...))
			for i, at := range s.places {
				require.Equal(t, want.Limits[i], v.Limits[at])
			}

			for i, p := range s.alone {
				h, at := candidate(2+i, p, client, part(shown, s.shadows[i])), s.shadows[i]
				counted := part(tally, at)
				var alone limiter.Verdict
				if v.Admitted {
					var one limiter.Tally
					one, alone = memories[2+i].Take(now, p, &h, cost)
					require.Equal(t, one, counted)
				} else {
					alone = memories[2+i].Peek(now, p, &h, cost)
				}
				require.True(t, v.Limits[at].Shadow)
				require.Equal(t, alone.Limits[0].Blocked, v.Limits[at].Blocked, "%v", p.Limit(0))
				require.Equal(t, alone.Limits[0].Remaining, v.Limits[at].Remaining)
				if !alone.Admitted && v.Admitted {
					wouldRefuse++
				}
			}
			if !v.Admitted {
				refused++
			}
			tokens[client] = tally
		}
		t.Logf("%d refused, %d refused by shadows", refused, wouldRefuse)
	})
}

// A shadow keeps its counts when it comes into force, and a limit in force when it becomes one.
func TestShadowKeepsItsCounts(t *testing.T) {
	for _, algorithm := range algorithms {
		limits := []limiter.Limit{
			{Name: "a", Quota: 100, Window: minute},
			{Name: "b", Algorithm: algorithm, Quota: 3, Window: minute, Shadow: true},
		}
		trial := compile(t, limits...)
		limits[1].Shadow = false
		inForce := compile(t, limits...)
		require.False(t, trial.SameShape(inForce), "no tier of the other")
		require.Equal(t, trial.ID(1), inForce.ID(1))
		m := limiter.NewMemory(64, 2)
		for range 5 {
			require.True(t, take(m, trial, midnight, 1, 1).Admitted)
		}
		m.Retain(midnight, inForce)
		v := take(m, inForce, midnight, 1, 1)
		require.False(t, v.Admitted)
		require.LessOrEqual(t, v.Wait, 2*minute, "no more than its quota was counted")
		m.Retain(midnight, trial)
		require.True(t, take(m, trial, midnight, 1, 1).Admitted)
	}
}

// A short shadow must not make a pass larger, or live longer.
func TestShadowChangesNoPass(t *testing.T) {
	bare := []limiter.Limit{{Name: "m", Quota: 3, Window: minute}, {Name: "d", Quota: 48, Window: day}}
	with := append(slices.Clone(bare), limiter.Limit{Name: "s", Quota: 40, Window: 45 * minute, Shadow: true})
	p, q := compile(t, bare...), compile(t, with...)
	require.Equal(t, p.PassLife(hour), q.PassLife(hour))
	for i := range bare {
		require.Equal(t, p.Pass(hour).Limit(i), q.Pass(hour).Limit(i))
	}
	tally, v := limiter.Tally{}, limiter.Verdict{}
	for range 3 {
		tally, v = q.Pass(hour).Step(midnight, tally, 1)
		require.True(t, v.Admitted)
	}
	_, v = q.Pass(hour).Step(midnight, tally, 1)
	require.False(t, v.Admitted)
	require.False(t, v.Limits[2].Blocked)
}

func TestAPolicyOfShadowsIsNone(t *testing.T) {
	_, err := limiter.Compile("test", []limiter.Limit{{Quota: 5, Window: minute, Shadow: true}})
	require.EqualError(t, err, "Limits: at least one limit must be in force, and no Shadow")
	_, err = limiter.Compile("test", []limiter.Limit{{Quota: 5, Window: minute}, {Quota: 3, Window: minute, Shadow: true}})
	require.NoError(t, err, "one window, and names by default")
}
