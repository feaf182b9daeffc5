// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// busySets are memories of one set, with a few cells left: the others belong to
// tallies with counts too large to be replaced.
func busySet(t *testing.T, cells int, heavy *limiter.Policy) (m *limiter.Memory, keep func(now time.Time)) {
	t.Helper()
	m = limiter.NewMemory(1, 1)
	return m, func(now time.Time) {
		for n := range 16 - cells {
			m.Take(now, heavy, &limiter.Candidate{Key: numbered(m, 'h', n)}, 1000)
		}
	}
}

// For every order of clients and every number of cells: a request that the
// memory admits would be admitted by one that forgets nothing. This holds for requests
// that show nothing, an old tally or the newest one, with providers and networks.
func TestNobodyIsCountedTooLow(t *testing.T) {
	const quota = 20
	window := 10 * second
	for _, a := range algorithms {
		for _, cells := range []int{4, 16} {
			t.Run(a.String()+"/"+map[int]string{4: "4 cells", 16: "16 cells"}[cells], func(t *testing.T) {
				l := limiter.Limit{Name: "l", Algorithm: a, Quota: quota, Window: window}
				if a == limiter.TokenBucket {
					l.Burst = 7
				}
				inherited, admitted, refused := 0, 0, 0
				runs := 12
				if kit.Brief() {
					runs = 3
				}
				for seed := range uint64(runs) {
					r := rand.New(rand.NewPCG(seed, 0xf100))
					p := compile(t, l)
					m, ballast := busySet(t, cells, p.Scale(limiter.MaxQuota))
					tallies := cells + 1 + r.IntN(3*cells)
					logs := make([]history, tallies)
					wallet := make([]limiter.Tally, tallies)
					providers, networks := r.IntN(2) == 0, r.IntN(3) == 0
					now, hot := midnight, 0
					for range 3000 {
						switch op := r.IntN(40); {
						case op == 0:
							now = now.Add(time.Duration(r.Int64N(int64(2 * window))))
						case op == 1: // to the end of a window, or its start
							now = now.Truncate(window).Add(window - tick*time.Duration(r.IntN(2)))
						case op < 6:
							hot = r.IntN(tallies)
						default:
							now = now.Add(time.Duration(r.Int64N(int64(window / 200))))
						}
						ballast(now)
						n := hot
						if r.IntN(3) > 0 {
							n = r.IntN(tallies)
						}
						f := limiter.Candidate{Key: numbered(m, 'f', n)}
						if r.IntN(4) == 0 {
							f.Shown = wallet[n]
						}
						if providers {
							f.Provider = uint64(1 + n%2)
						}
						if networks {
							f.Networks = []limiter.Network{{Key: numbered(m, 'n', n%5), Policy: p.Scale(8)}}
						}
						cost := 1 + r.Int64N(2)*r.Int64N(4)
						tally, v := m.Take(now, p, &f, cost)
						if v.Inherited > 0 {
							inherited++
						}
						if !v.Admitted {
							refused++
							continue
						}
						admitted++
						wallet[n] = tally
						us := now.UnixMicro()
						require.True(t, logs[n].admits(p, 0, us, us/window.Microseconds(), cost), "seed %d: tally %d is counted too low", seed, n)
						logs[n].add(p, now, cost, tally)
					}
					for n := range logs {
						requireSpans(t, l, logs[n])
					}
				}
				require.Greater(t, inherited, 500, "the workload takes cells from others")
				require.Greater(t, admitted, 500)
				require.Greater(t, refused, 500)
			})
		}
	}
}

// requireSpans checks the bounds that the documentation gives for one tally: L in an
// aligned window, of sliding windows 2L−1 in any span of one; of buckets B and what
// leaks, in any span.
func requireSpans(t *testing.T, l limiter.Limit, log history) {
	t.Helper()
	w := l.Window.Microseconds()
	aligned := map[int64]int64{}
	for i, a := range log {
		aligned[a.clock/w] += a.cost
		sum := int64(0)
		for _, b := range log[i:] {
			if b.clock-a.clock >= w {
				break
			}
			sum += b.cost
			if isBucket(l.Algorithm) {
				burst := max(1, l.Burst)
				require.LessOrEqual(t, sum, burst+(b.clock-a.clock)/interval(l))
			}
		}
		if l.Algorithm == limiter.SlidingWindow {
			require.LessOrEqual(t, sum, 2*l.Quota-1)
		}
	}
	for _, sum := range aligned {
		if !isBucket(l.Algorithm) {
			require.LessOrEqual(t, sum, l.Quota)
		}
	}
}

// A newcomer takes the smallest count as it weighs now, not as it was written: what
// others begin with is no more than has to be.
func TestTheSmallestWeightIsTaken(t *testing.T) {
	p := compile(t, limiter.Limit{Quota: 20, Window: minute})
	m := limiter.NewMemory(1, 1)
	require.True(t, take(m, p, midnight, stranger(m, 0), 8).Admitted)
	now := midnight.Add(105 * second) // of eight two are left
	for n := range 15 {
		require.True(t, take(m, p, now, stranger(m, 1+n), 5).Admitted)
	}
	v := take(m, p, now, stranger(m, 100), 3)
	require.Zero(t, v.Inherited, "the first newcomer takes what no tally had lost before")
	v = take(m, p, now, stranger(m, 101), 0)
	require.EqualValues(t, 2, v.Inherited)
	require.EqualValues(t, 18, v.Limits[0].Remaining)
	require.EqualValues(t, 20, take(m, p, now, stranger(m, 1), 0).Limits[0].Remaining+5, "no other tally has lost anything")

	bucket := compile(t, limiter.Limit{Name: "b", Algorithm: limiter.TokenBucket, Quota: 20, Window: minute})
	for n := range 16 {
		require.True(t, take(m, bucket, midnight, stranger(m, n), int64(3+n)).Admitted)
	}
	require.True(t, take(m, bucket, midnight, stranger(m, 100), 10).Admitted)
	require.EqualValues(t, 3, take(m, bucket, midnight, stranger(m, 101), 0).Inherited)
}

// What a newcomer begins with is told to whom it concerns, counted, and kept.
func TestInherited(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			p := compile(t, limiter.Limit{Algorithm: a, Quota: 6, Window: minute})
			if a == limiter.LeakyBucket {
				p = compile(t, limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 1, Window: 10 * second, Burst: 6})
			}
			m := limiter.NewMemory(1, 1)
			for n := range 16 {
				require.Zero(t, take(m, p, midnight, stranger(m, n), 3).Inherited)
			}
			require.True(t, take(m, p, midnight, stranger(m, 16), 3).Admitted)
			newcomers, quotas := m.Inherited()
			require.Zero(t, newcomers)
			require.Zero(t, quotas)

			f := limiter.Candidate{Key: stranger(m, 17)}
			require.EqualValues(t, 3, m.Peek(midnight, p, &f, 1).Inherited)
			require.EqualValues(t, 3, m.Peek(midnight, p, &f, 1).Limits[0].Remaining)
			newcomers, _ = m.Inherited()
			require.Zero(t, newcomers, "a look is no newcomer")

			tally, v := m.Take(midnight, p, &f, 1)
			require.True(t, v.Admitted)
			require.EqualValues(t, 3, v.Inherited)
			require.EqualValues(t, 2, v.Limits[0].Remaining)
			_, v = m.Take(midnight, p, &f, 1)
			require.Zero(t, v.Inherited, "it is known now")
			require.EqualValues(t, 1, v.Limits[0].Remaining)
			network := []limiter.Network{{Key: numbered(m, 'n', 0), Policy: p}}
			v = m.Peek(midnight, p, &limiter.Candidate{Key: f.Key, Networks: network}, 1)
			require.EqualValues(t, 3, v.Inherited, "but its network is not")
			v = m.Peek(midnight, p, &limiter.Candidate{Key: stranger(m, 18), Shown: tally}, 3)
			require.False(t, v.Admitted, "what is shown counts, where it is more")
			_, v = m.Take(midnight, p, &limiter.Candidate{Key: stranger(m, 18)}, 4)
			require.False(t, v.Admitted, "a newcomer may be refused early")
			newcomers, quotas = m.Inherited()
			require.EqualValues(t, 2, newcomers, "one was admitted, one refused")
			require.InDelta(t, 1, quotas, 0.001, "with half of a quota each")
			require.Zero(t, m.Saturations())
		})
	}
}

// A network's count is one of its limit's. A tally begins with no more of it than its own
// quota, a bucket with the time that it owes, and the network still owes all of it.
func TestANetworksCellIsTaken(t *testing.T) {
	for _, a := range algorithms[:3] {
		p := compile(t, limiter.Limit{Algorithm: a, Quota: 6, Window: minute})
		wide := p.Scale(64)
		m := limiter.NewMemory(1, 1)
		for n := range 16 { // all of them, or the smallest would be another
			require.True(t, take(m, wide, midnight, numbered(m, 'n', n), 300).Admitted)
		}
		require.True(t, take(m, p, midnight, stranger(m, 1), 1).Admitted)
		v := take(m, p, midnight, stranger(m, 2), 2)
		require.False(t, v.Admitted)
		require.EqualValues(t, map[bool]int64{true: 5, false: 300}[isBucket(a)], v.Inherited)
		for n := range 16 {
			left := take(m, wide, midnight, numbered(m, 'n', n), 0).Limits[0].Remaining
			require.EqualValues(t, wide.Capacity()-300, left, "%s: network %d", a, n)
		}
	}

	// A bucket of a larger tier that the tally's cell does not know yet owes longer.
	tiers := []*limiter.Policy{compile(t, limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 6, Window: minute, Burst: 600}),
		compile(t, limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 6, Window: minute})}
	m := limiter.NewMemory(1, 1)
	for n := range 16 {
		require.True(t, take(m, tiers[0], midnight, stranger(m, n), 500).Admitted)
	}
	require.True(t, take(m, tiers[1], midnight, stranger(m, 100), 1).Admitted)
	v := take(m, tiers[1], midnight, stranger(m, 101), 1)
	require.False(t, v.Admitted)
	require.Equal(t, 10*second, v.Wait, "no longer than its own full bucket")
	for n := range 16 {
		require.EqualValues(t, 100, take(m, tiers[0], midnight, stranger(m, n), 0).Limits[0].Remaining, "tally %d", n)
	}
}

// A mark of a wrong clock takes its cell when it is read. If that was the network's, then
// the network begins where a newcomer does, and not with what the tally owes.
func TestAMarkTakesItsNetworksCell(t *testing.T) {
	p := compile(t, limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 6, Window: minute})
	wide := p.Scale(64)
	m := limiter.NewMemory(1, 1)
	network := limiter.Network{Key: numbered(m, 'n', 0), Policy: wide}
	require.True(t, take(m, wide, midnight, network.Key, 3).Admitted)
	for n := range 15 {
		require.True(t, take(m, wide, midnight, numbered(m, 'w', n), 300).Admitted)
	}
	f := limiter.Candidate{Key: stranger(m, 1), Networks: []limiter.Network{network}}
	f.Shown[0].At = midnight.Add(day).UnixMicro()
	_, v := m.Take(midnight, p, &f, 1)
	require.False(t, v.Admitted)
	require.EqualValues(t, 3, v.Inherited)
	require.EqualValues(t, wide.Capacity()-3, take(m, wide, midnight, network.Key, 0).Limits[0].Remaining)
}

// A floor is the most of all that was taken, not the last.
func TestTheFloorKeepsTheMost(t *testing.T) {
	for _, a := range algorithms[:3] {
		p := compile(t, limiter.Limit{Algorithm: a, Quota: 20, Window: minute})
		m := limiter.NewMemory(1, 1)
		for n := range 16 {
			require.True(t, take(m, p, midnight, stranger(m, n), 5).Admitted)
		}
		require.True(t, take(m, p, midnight, stranger(m, 100), 1).Admitted, "begins with nothing, and has one")
		require.True(t, take(m, p, midnight, stranger(m, 101), 1).Admitted, "takes that one")
		require.EqualValues(t, 5, take(m, p, midnight, stranger(m, 102), 0).Inherited, a)
	}
}
