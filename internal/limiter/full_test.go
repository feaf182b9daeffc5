// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
)

// A memory of one set has cells for 16 tallies. The next takes one of them; the tally
// that has lost it is still held to what it has used, and so is everybody.
func TestAFullSet(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			p := compile(t, limiter.Limit{Algorithm: a, Quota: 6, Window: minute})
			m := limiter.NewMemory(1, 1)
			admitted := make([]int64, 40)
			for round := range 2 * p.Capacity() {
				for n := range admitted {
					v := take(m, p, midnight, stranger(m, n), 1)
					require.False(t, v.Saturated)
					if v.Admitted {
						admitted[n]++
					}
					require.LessOrEqual(t, admitted[n], p.Capacity(), "round %d: tally %d", round, n)
				}
			}
			for n := range admitted {
				require.Zero(t, drain(m, p, midnight, limiter.Candidate{Key: stranger(m, n)}))
			}
			later := midnight.Add(3 * minute)
			for n := range 16 {
				require.Equal(t, p.Capacity(), drain(m, p, later, limiter.Candidate{Key: stranger(m, n)}), "all is forgotten")
			}
		})
	}
}

// Each limit has cells of its own. A flood that fills those of a long one leaves those of
// a short one alone.
func TestLimitsHaveCellsOfTheirOwn(t *testing.T) {
	long := limiter.Limit{Name: "long", Quota: 50, Window: day}
	short := limiter.Limit{Name: "short", Quota: 3, Window: minute}
	m := limiter.NewMemory(1, 2)
	for n := range 100 {
		take(m, compile(t, long), midnight, stranger(m, n), 1)
	}
	both := compile(t, long, short)
	v := take(m, both, midnight, stranger(m, 200), 1)
	require.True(t, v.Admitted)
	require.Positive(t, v.Inherited)
	require.EqualValues(t, 2, v.Limits[1].Remaining)
	require.Less(t, v.Limits[0].Remaining, int64(49))
}

// The formula of the package's doc, against memories filled beyond what they are made for,
// where full sets are frequent enough to measure. A newcomer begins with something where
// its set has had more than 16; the seed of a memory is random, and the bounds are
// ten standard deviations wide.
func TestFullSetsFollowPoisson(t *testing.T) {
	const tallies, probes = 16_384, 20_000
	one := limiter.Limit{Quota: 5, Window: minute}
	eight := make([]limiter.Limit, limiter.MaxLimits)
	for i := range eight {
		eight[i] = limiter.Limit{Name: string(rune('a' + i)), Quota: 5, Window: minute}
	}
	for _, row := range []struct {
		policy    *limiter.Policy
		load      float64
		low, high float64
		ratio     bool // of the bounds, to what the formula expects
	}{
		{compile(t, one), 1, 0, 2, false},
		{compile(t, one), 3, 0, 400, false}, // 40 expected
		{compile(t, one), 6, 0.9, 1.1, true},
		{compile(t, one), 9, 0.95, 1.05, true},
		{compile(t, eight...), 6, 0.9, 1.1, true}, // a set is as full in each limit
	} {
		m := limiter.NewMemory(tallies, row.policy.Len())
		live := int(row.load * tallies)
		for n := range live {
			take(m, row.policy, midnight, stranger(m, n), 1)
		}
		got := 0.0
		for n := range probes {
			if take(m, row.policy, midnight, stranger(m, 1<<40+n), 0).Inherited > 0 {
				got++
			}
		}
		expected := probes * overChance(16*float64(live)/float64(6*tallies))
		if row.ratio {
			got /= expected
		}
		require.GreaterOrEqual(t, got, row.low, "load %v, expected %v", row.load, expected)
		require.LessOrEqual(t, got, row.high, "load %v, expected %v", row.load, expected)
	}
	require.InDelta(t, 2.6e-8, fullChance(16./6), 0.05e-8, "as the doc has it, for IPv4")
	require.InDelta(t, 0.8e-2, fullChance(16*3./6), 0.05e-2, "and for IPv6")
}

// fullChance is the chance that a Poisson variable of the given mean is 16 or more,
// overChance that it is 17 or more.
func fullChance(mean float64) float64 { return above(15, mean) }
func overChance(mean float64) float64 { return above(16, mean) }

func above(most int, mean float64) float64 {
	term, below := math.Exp(-mean), 0.0
	for k := range most + 1 {
		below += term
		term *= mean / float64(k+1)
	}
	return 1 - below
}

// Fill is the share of cells in use, of the limit that has the most.
func TestFill(t *testing.T) {
	a := compile(t, limiter.Limit{Name: "a", Quota: 5, Window: minute})
	b := compile(t, limiter.Limit{Name: "b", Quota: 5, Window: hour})
	for _, clients := range []int{1, 1000, 20_000} {
		m := limiter.NewMemory(clients, 2)
		require.Zero(t, m.Fill(midnight))
		for n := range 2 * clients {
			take(m, a, midnight, stranger(m, n), 1)
		}
		for n := range clients {
			take(m, b, midnight, stranger(m, n), 1)
		}
		if clients > 1 {
			require.InDelta(t, 2./6, m.Fill(midnight), 0.05)
			require.InDelta(t, 1./6, m.Fill(midnight.Add(2*minute)), 0.05)
		}
		require.Positive(t, m.Fill(midnight))
		require.Zero(t, m.Fill(midnight.Add(2*hour)))
		for n := range 20 * clients {
			take(m, a, midnight, stranger(m, n), 1)
		}
		require.Greater(t, m.Fill(midnight), 0.95)
	}
}

// Retain keeps what was counted for limits that stay, in whatever order, and gives cells
// for as many clients to each that is new: the size follows the number of limits.
func TestRetain(t *testing.T) {
	limit := func(name string) limiter.Limit { return limiter.Limit{Name: name, Quota: 5, Window: minute} }
	left := func(m *limiter.Memory, p *limiter.Policy) (left []int64) {
		v := take(m, p, midnight, 1, 0)
		for i := range p.Len() {
			left = append(left, v.Limits[i].Remaining)
		}
		return left
	}
	a, ab, bca := compile(t, limit("a")), compile(t, limit("a"), limit("b")), compile(t, limit("b"), limit("c"), limit("a"))
	m := limiter.NewMemory(100, 1)
	one := m.Size()
	m.Retain(midnight, a)
	require.Equal(t, one, m.Size())
	require.True(t, take(m, a, midnight, 1, 1).Admitted)
	m.Retain(midnight, ab)
	two := m.Size()
	require.Greater(t, two, one)
	require.True(t, take(m, ab, midnight, 1, 1).Admitted)
	require.Equal(t, []int64{3, 4}, left(m, ab))
	m.Retain(midnight, bca, a)
	require.Equal(t, two-one, m.Size()-two, "as much for each limit")
	require.Equal(t, []int64{4, 5, 3}, left(m, bca))
	m.Retain(midnight, a)
	require.Equal(t, one, m.Size())
	require.Equal(t, []int64{3}, left(m, a))
	require.Equal(t, []int64{3, 5}, left(m, ab), "b was let go of, and is met again")
	require.Equal(t, two, m.Size(), "with cells of its own")
}
