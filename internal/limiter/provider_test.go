// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
)

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

// One network can fill a quarter of the memory. What it sends beyond that raises nobody's
// start but its own.
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

// A provider's newcomers that share a cell are counted together, none of them too low,
// also when there is room again.
func TestGuestsShareACell(t *testing.T) {
	const quota = 5
	p := compile(t, limiter.Limit{Quota: quota, Window: minute})
	m := limiter.NewMemory(1, 1) // 16 cells: four are a quarter
	guests(m, p, 'a', 16, 7)
	admitted := guests(m, p, 'b', 100, 7)
	require.Less(t, admitted, 1+quota, "one quota for the hundred")
	v := m.Peek(midnight, p, &limiter.Candidate{Key: numbered(m, 'x', 1), Provider: 7}, 1)
	require.False(t, v.Admitted)
	v = m.Peek(midnight, p, &limiter.Candidate{Key: numbered(m, 'x', 1), Provider: 8}, 1)
	require.True(t, v.Admitted, "others are not held to it")

	rest := int64(0)
	for n := range 16 {
		rest += drain(m, p, midnight, limiter.Candidate{Key: numbered(m, 'a', n), Provider: 7})
	}
	require.EqualValues(t, 15*(quota-1), rest, "all but one of those that came first keep their cells")
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

// A network that is alone loses nothing while there is room.
func TestALoneProviderLosesNothing(t *testing.T) {
	const quota, clients = 5, 1000 // 6,000 cells: 1,500 are a quarter
	p := compile(t, limiter.Limit{Quota: quota, Window: minute})
	m := limiter.NewMemory(clients, 1)
	full := 0
	for n := range 2000 { // sets of five on average: one newcomer in ten thousand meets a full one
		if drain(m, p, midnight, limiter.Candidate{Key: numbered(m, 'a', n), Provider: 7}) != quota {
			full++
		}
	}
	require.LessOrEqual(t, full, 3)
}

// A flood from everywhere is nobody's, however large: no provider holds a quarter of it.
func TestAFloodFromEverywhereIsNobodys(t *testing.T) {
	const quota = 1000
	p := compile(t, limiter.Limit{Quota: quota, Window: minute})
	m := limiter.NewMemory(1, 1)
	shared := false
	for n := range 5000 {
		f := limiter.Candidate{Key: numbered(m, 'a', n), Provider: uint64(n % 100)}
		_, v := m.Take(midnight, p, &f, 1)
		shared = shared || v.Inherited > int64(n/16+1)
	}
	require.False(t, shared, "no start is higher than what was asked, spread over the cells")
}
