// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// A refusal by any level charges no level.
func TestNetworksAllOrNothing(t *testing.T) {
	p := compile(t, limiter.Limit{Name: "a", Quota: 5, Window: minute}, limiter.Limit{Name: "b", Quota: 9, Window: hour})
	m := limiter.NewMemory(64, 2)
	wide := []limiter.Network{{Key: 100, Policy: p.Scale(2)}, {Key: 200, Policy: p.Scale(3)}}
	left := func(p *limiter.Policy, k limiter.Key) int64 {
		return take(m, p, midnight, k, 0).Limits[0].Remaining
	}
	ask := func(k limiter.Key, cost int64) limiter.Verdict {
		_, v := m.Take(midnight, p, &limiter.Candidate{Key: k, Networks: wide}, cost)
		return v
	}
	rows := []struct {
		key      limiter.Key
		cost     int64
		admitted bool
		left     [3]int64 // of the tally, the /56, the /48
		shown    int64    // Remaining in the verdict: the least of them
	}{
		{1, 5, true, [3]int64{0, 5, 10}, 0},
		{1, 1, false, [3]int64{0, 5, 10}, 0}, // the tally refuses: no network is charged
		{2, 3, true, [3]int64{2, 2, 7}, 2},
		{3, 3, false, [3]int64{5, 2, 7}, 2}, // the /56 refuses: neither tally nor /48
		{3, 0, true, [3]int64{5, 2, 7}, 2},
		{3, 6, false, [3]int64{5, 2, 7}, 2}, // above the capacity of the tally
		{3, 2, true, [3]int64{3, 0, 5}, 0},
	}
	for i, row := range rows {
		v := ask(row.key, row.cost)
		require.Equal(t, row.admitted, v.Admitted, "row %d", i)
		require.Equal(t, row.left, [3]int64{left(p, row.key), left(wide[0].Policy, 100), left(wide[1].Policy, 200)}, "row %d", i)
		require.Equal(t, row.shown, v.Limits[0].Remaining, "row %d", i)
		require.Equal(t, row.cost > 5, v.Impossible, "row %d", i)
		require.Equal(t, !row.admitted && !v.Impossible, v.Wait > 0, "row %d", i)
	}

	wide[0] = limiter.Network{Key: 101, Policy: p.Scale(2)} // a fresh /56 of the same /48
	require.True(t, ask(4, 5).Admitted)
	v := ask(5, 1)
	require.False(t, v.Admitted, "the /48 refuses")
	require.Equal(t, [2]int64{5, 5}, [2]int64{left(p, 5), left(wide[0].Policy, 101)}, "row 8: neither tally nor /56")

	_, v = (*limiter.Memory)(nil).Take(midnight, p, &limiter.Candidate{Networks: wide}, 5)
	require.True(t, v.Admitted, "without a memory there are no networks")
	many := &limiter.Candidate{Networks: make([]limiter.Network, limiter.MaxNetworks+1)}
	const tooMany = "limiter: 3 networks, more than MaxNetworks"
	require.PanicsWithValue(t, tooMany, func() { m.Take(midnight, p, many, 1) })
	require.PanicsWithValue(t, tooMany, func() { m.Record(midnight, p, many, 1) })
	require.PanicsWithValue(t, tooMany, func() { m.Restore(midnight, midnight, p, many, 1) })
}

// Requests take the locks of a tally and its networks in one order, so no two
// wait for each other; and what they admit together is what the networks allow.
func TestNetworksInParallel(t *testing.T) {
	const networks, workers, each = 12, 16, 400
	p := compile(t, limiter.Limit{Quota: 50, Window: minute})
	m := limiter.NewMemory(4096, 1)
	wide := p.Scale(2)
	var admitted [networks]atomic.Int64
	kit.Together(workers, func(worker int) {
		r := rand.New(rand.NewPCG(uint64(worker), 1))
		key := func(kind byte, n int) limiter.Key { return m.Key([]byte{kind, byte(n)}) }
		for range each {
			a, b := r.IntN(networks), r.IntN(networks)
			f := limiter.Candidate{Key: key('f', r.IntN(64)), Networks: []limiter.Network{{Key: key('n', a), Policy: wide}}}
			if a != b {
				f.Networks = append(f.Networks, limiter.Network{Key: key('n', b), Policy: wide})
			}
			if _, v := m.Take(midnight, p, &f, 1); v.Admitted {
				for _, n := range []int{a, b}[:len(f.Networks)] {
					admitted[n].Add(1)
				}
			}
		}
	})
	for n := range admitted {
		got := admitted[n].Load()
		require.LessOrEqual(t, got, int64(100), "network %d", n)
		require.Equal(t, 100-got, take(m, wide, midnight, m.Key([]byte{'n', byte(n)}), 0).Limits[0].Remaining, "network %d", n)
	}
}

// insideOf returns a tally in a network that has a policy.
func insideOf(k limiter.Key, shown limiter.Tally, p *limiter.Policy) limiter.Candidate {
	return limiter.Candidate{Key: k, Shown: shown, Networks: []limiter.Network{{Key: ^k, Policy: p}}}
}

// What is given back, or charged afterwards, is so in a network too, and what is held
// takes room there.
func TestNetworkIsSettled(t *testing.T) {
	p := compile(t, limiter.Limit{Quota: 30, Window: minute})
	m := limiter.NewMemory(64, 1)
	f := insideOf(7, limiter.Tally{}, p.Share(3))
	left := func() int64 {
		_, v := m.Take(midnight, p, &f, 0)
		return v.Limits[0].Remaining
	}
	_, v := m.Take(midnight, p, &f, 8)
	require.True(t, v.Admitted)
	require.EqualValues(t, 2, left())
	m.Restore(midnight, midnight, p, &f, 5)
	require.EqualValues(t, 7, left())
	m.Record(midnight, p, &f, 3)
	require.EqualValues(t, 4, left())

	never := func(int) bool { return false }
	held := insideOf(f.Key, limiter.Tally{}, p.Share(3).Charging(never))
	held.Held, held.Networks[0].Held = 3, 3
	_, v = m.Take(midnight, p.Charging(never), &held, 2)
	require.False(t, v.Admitted)
	_, v = m.Take(midnight, p.Charging(never), &held, 1)
	require.True(t, v.Admitted)
	require.EqualValues(t, 4, left(), "it is charged later")

	v = m.Peek(midnight, p, &f, 5)
	require.False(t, v.Admitted)
	require.False(t, v.Impossible)
	require.EqualValues(t, 4, left(), "a look charges nothing")
	v = m.Peek(midnight, p, &f, 11)
	require.True(t, v.Impossible, "it never fits the part")
	require.Zero(t, v.Wait)
}

// What is refused is not charged later: of a network that has room for it as much is left as before.
func TestRefusalsTakeNothingOfANetworkThatIsChargedLater(t *testing.T) {
	p := compile(t, limiter.Limit{Name: "attempts", Quota: 3, Window: minute}, limiter.Limit{Name: "failures", Quota: 9, Window: minute})
	at := func(i int) bool { return i == 0 }
	door, f := p.Charging(at), insideOf(7, limiter.Tally{}, p.Share(3).Charging(at))
	_, v := limiter.NewMemory(64, 1).Take(midnight, door, &f, 1)
	require.True(t, v.Admitted)
	require.EqualValues(t, 2, v.Limits[1].Remaining, "as if it were charged")
	f.Shown, _ = p.Step(midnight, limiter.Tally{}, 3)
	_, v = limiter.NewMemory(64, 1).Take(midnight, door, &f, 1)
	require.False(t, v.Admitted)
	require.True(t, v.Limits[0].Blocked)
	require.False(t, v.Limits[1].Blocked)
	require.EqualValues(t, 3, v.Limits[1].Remaining)
}

// guests ask once each, from one provider, or from as many as there are guests.
func guests(m *limiter.Memory, p *limiter.Policy, kind byte, n int, provider uint64) (admitted int) {
	for i := range n {
		f := limiter.Candidate{Key: numbered(m, kind, i), Provider: provider}
		if provider == 0 {
			f.Provider = uint64(1000 + i)
		}
		if _, v := m.Take(midnight, p, &f, 1); v.Admitted {
			admitted++
		}
	}
	return admitted
}

// begun is what newcomers begin with, on average.
func begun(m *limiter.Memory, p *limiter.Policy, provider uint64) float64 {
	const looks = 1000
	sum := int64(0)
	for i := range looks {
		sum += m.Peek(midnight, p, &limiter.Candidate{Key: numbered(m, 'l', i), Provider: provider}, 1).Inherited
	}
	return float64(sum) / looks
}

// One network can fill a quarter of the memory. What it sends beyond that raises only its
// own start.
func TestAQuarterForAProvider(t *testing.T) {
	const quota, clients = 50, 2000 // 12,000 cells
	p := compile(t, limiter.Limit{Quota: quota, Window: minute})
	m := limiter.NewMemory(clients, 1)
	guests(m, p, 'o', 12_000, 0) // others fill it, one cell each
	fair := begun(m, p, 7)
	require.Less(t, fair, 2.)
	guests(m, p, 'a', 200_000, 7)
	require.Less(t, begun(m, p, 8), 3., "200,000 of one network are a quarter, and one for each set")
	require.Greater(t, begun(m, p, 7), 30., "which they share")

	unknown := limiter.NewMemory(clients, 1)
	guests(unknown, p, 'o', 12_000, 0)
	for i := range 200_000 {
		take(unknown, p, midnight, numbered(unknown, 'a', i), 1)
	}
	require.Greater(t, begun(unknown, p, 0), 14., "without a provider they raise everybody's")
}

// The networks of a provider's newcomers share by kind: a /48 may do more than a /64.
func TestNetworksOfGuestsShareByKind(t *testing.T) {
	const quota = 5
	p := compile(t, limiter.Limit{Quota: quota, Window: minute})
	m := limiter.NewMemory(1, 1)
	admitted := 0
	for n := range 200 {
		f := limiter.Candidate{Key: numbered(m, 'a', n), Provider: 7, Networks: []limiter.Network{
			{Key: numbered(m, '5', n), Policy: p.Scale(8)}, {Key: numbered(m, '4', n), Policy: p.Scale(64)},
		}}
		if _, v := m.Take(midnight, p, &f, 1); v.Admitted {
			admitted++
		}
	}
	require.Less(t, admitted, 16+2*quota)
	require.GreaterOrEqual(t, admitted, 5)
}
