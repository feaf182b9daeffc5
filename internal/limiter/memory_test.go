// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"cmp"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
)

// stranger returns the key of the n-th of many tallies.
func stranger(m *limiter.Memory, n int) limiter.Key { return numbered(m, 's', n) }

// Limits of very different windows share one memory. A flood that is counted by
// the minute must not take the cells of those counted by the day, by the year,
// or of a deep bucket for leftovers of a wrong clock.
func TestShortLimitsSpareLongOnes(t *testing.T) {
	short := compile(t, limiter.Limit{Name: "short", Quota: 1000, Window: second})
	for _, l := range []limiter.Limit{
		{Quota: 5, Window: day},
		{Quota: 5, Window: limiter.MaxWindow},
		{Algorithm: limiter.FixedWindow, Quota: 5, Window: 30 * day},
		{Algorithm: limiter.TokenBucket, Quota: 5, Window: limiter.MaxWindow},
		{Algorithm: limiter.TokenBucket, Quota: 1, Window: 10 * second, Burst: 100_000},
		{Algorithm: limiter.LeakyBucket, Quota: 1, Window: 60 * day},
	} {
		t.Run(l.Algorithm.String()+"/"+l.Window.String(), func(t *testing.T) {
			p := compile(t, l)
			m := limiter.NewMemory(8, 1)
			require.True(t, take(m, p, midnight, 1, p.Capacity()).Admitted)
			for n := range 1000 {
				take(m, short, midnight, stranger(m, n), 1)
			}
			require.False(t, take(m, p, midnight, 1, 1).Admitted)
			newcomers, _ := m.Inherited()
			require.Positive(t, newcomers, "the workload fills the memory")

			m = limiter.NewMemory(1, 1)
			require.True(t, take(m, p, midnight, 1, p.Capacity()).Admitted)
			for n := range 16 { // of the same limit, which owe much less
				take(m, p, midnight, stranger(m, n), 1)
			}
			require.False(t, take(m, p, midnight, 1, 1).Admitted)
		})
	}
}

// anotherSize is what to do where a memory is not as large as its formula says.
const anotherSize = "a memory takes another size than the formula here. An operator plans with it: if that is meant, change the formula,\n" +
	"the table of sizes in docs/bounds.md and the doc of NewMemory together; a memory of the same cells that grew needs a reason in the commit."

func TestMemorySize(t *testing.T) {
	for _, row := range []struct{ tallies, limits, sets, stripes, paid, paidStripes, passes, passStripes int }{
		{0, 1, 24_576, 384, 49_152, 48, 12_288, 192}, // 7.6 MiB and the locks
		{limiter.DefaultClients, 1, 24_576, 384, 49_152, 48, 12_288, 192},
		{limiter.DefaultClients, 2, 24_576, 384, 49_152, 48, 12_288, 192},
		{1 << 19, 1, 196_608, 1024, 393_216, 384, 98_304, 1024}, // the most locks
		{1, 1, 1, 1, 16, 1, 1, 1},
		{10, 1, 4, 1, 16, 1, 2, 1}, // 60 cells, rounded up to sets
		{1000, 1, 375, 5, 752, 1, 188, 2},
		{6000, 2, 2275, 35, 4544, 4, 1139, 17}, // 2,250 sets, as many under each lock
	} {
		m := limiter.NewMemory(row.tallies, row.limits)
		want := row.limits*(row.sets*(16*16+16)+1025*8) + 16*row.paid + 1025*8 + 64*(row.stripes+row.paidStripes+row.passStripes) + 8*cmp.Or(row.tallies, limiter.DefaultClients)
		require.Equal(t, want, m.Size(), "%+v: %s", row, anotherSize)
		var limits []limiter.Limit
		for i := range row.limits {
			limits = append(limits, limiter.Limit{Name: string(rune('a' + i)), Quota: 5, Window: minute})
		}
		p := compile(t, limits...)
		for _, passes := range []int{row.limits, 0} { // none are sold any more
			m.Retain(midnight, []*limiter.Policy{p, p.Pass(hour)}[:1+min(1, passes)]...)
			require.Equal(t, want+passes*(row.passes*(16*16+16)+1025*8), m.Size(), "%+v: %s", row, anotherSize)
		}
	}
	require.Panics(t, func() { limiter.NewMemory(-1, 1) })
	require.Panics(t, func() { limiter.NewMemory(1, 0) })
	require.Panics(t, func() { limiter.NewMemory(1, -1) })
}

// An outsider cannot aim at a place in the memory: keys have the memory's seed.
func TestKeysAreSeeded(t *testing.T) {
	a, b := limiter.NewMemory(1, 1), limiter.NewMemory(1, 1)
	require.Equal(t, a.Key([]byte("x")), a.Key([]byte("x")))
	require.NotEqual(t, a.Key([]byte("x")), a.Key([]byte("y")))
	require.NotEqual(t, a.Key([]byte("x")), b.Key([]byte("x")))
}

// A new tally meets another's tag in its set with a chance below 16/2³². In a
// memory whose sets are all full that is 0.0007 in all these looks, and more than
// two hits come once in 10¹⁰ runs; with tags of 16 bits there would be 49.
func TestNobodyIsMistaken(t *testing.T) {
	const live, looks, quota = 10_000, 200_000, 5
	p := compile(t, limiter.Limit{Quota: quota, Window: minute})
	m := limiter.NewMemory(1000, 1)
	for n := range live {
		take(m, p, midnight, numbered(m, 'l', n), 1)
	}
	newcomers, _ := m.Inherited()
	require.Positive(t, newcomers, "the sets are full")
	hits := 0
	for n := range looks {
		// Who is known begins with nothing, and has something all the same.
		if v := take(m, p, midnight, numbered(m, 'n', n), 0); v.Inherited == 0 && v.Limits[0].Remaining != quota {
			hits++
		}
	}
	require.LessOrEqual(t, hits, 2)
}

// Each limit has cells of its own. A flood that fills the cells of a long limit leaves the
// cells of a short limit alone.
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
		expected := probes * above(16, 16*float64(live)/float64(6*tallies))
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
