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
	"github.com/tallystick/tallystick/storeless"
)

// underCeiling returns a tally of which the memory by itself admits what a policy says.
func underCeiling(k limiter.Key, shown limiter.Tally, ceiling *limiter.Policy) limiter.Candidate {
	return limiter.Candidate{Key: k, Shown: shown, Networks: []limiter.Network{{Key: ^k, Policy: ceiling}}}
}

// A memory admits of a tally what its ceiling says, whatever the tally shows; what others have
// admitted counts in the tally alone.
func TestCeiling(t *testing.T) {
	p := compile(t, storeless.Limit{Quota: 30, Window: minute})
	here, there := limiter.NewMemory(64, 1), limiter.NewMemory(64, 1)
	under := func(m *limiter.Memory, shown limiter.Tally) limiter.Candidate {
		return underCeiling(m.Key([]byte("somebody")), shown, p.Share(3))
	}
	f := under(here, limiter.Tally{})
	require.EqualValues(t, 10, drain(here, p, midnight, f), "one that shows nothing")

	at := midnight.Add(20 * second)
	_, v := here.Take(at, p, &f, 1)
	require.False(t, v.Admitted)
	require.Equal(t, 40*second+6*second, v.Wait, "until the ceiling of ten has room")
	require.Zero(t, v.Limits[0].Remaining, "no more is told than is admitted")
	require.Equal(t, v.Wait, v.Limits[0].Reset)

	tally, _ := here.Take(at, p, &f, 0)
	g := under(there, tally)
	require.EqualValues(t, 10, drain(there, p, at, g), "ten elsewhere leave all ten here")
	_, v = there.Take(at, p, &g, 0)
	require.EqualValues(t, 0, v.Limits[0].Remaining)

	tally, _ = there.Take(at, p, &g, 0)
	tally[0].Cur = 27
	third := limiter.NewMemory(64, 1)
	require.EqualValues(t, 3, drain(third, p, at, under(third, tally)), "the quota holds as well")
}

// What is given back, or charged afterwards, is so under the ceiling too, and what is held
// takes room there.
func TestCeilingIsSettled(t *testing.T) {
	p := compile(t, storeless.Limit{Quota: 30, Window: minute})
	m := limiter.NewMemory(64, 1)
	f := underCeiling(7, limiter.Tally{}, p.Share(3))
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
	held := underCeiling(f.Key, limiter.Tally{}, p.Share(3).Charging(never))
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

// What is refused is not charged later: of a ceiling that has room for it as much is left as before.
func TestRefusalsTakeNothingOfACeilingThatIsChargedLater(t *testing.T) {
	p := compile(t, storeless.Limit{Name: "attempts", Quota: 3, Window: minute}, storeless.Limit{Name: "failures", Quota: 9, Window: minute})
	at := func(i int) bool { return i == 0 }
	door, f := p.Charging(at), underCeiling(7, limiter.Tally{}, p.Share(3).Charging(at))
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

// A tally in networks has both and its ceiling: each of the four is asked, and charged.
func TestCeilingBesideNetworks(t *testing.T) {
	p := compile(t, storeless.Limit{Quota: 100, Window: minute})
	of := func(quota int64) *limiter.Policy {
		return compile(t, storeless.Limit{Quota: quota, Window: minute})
	}
	for _, test := range []struct {
		name                        string
		own, ceiling, near, far, is int64
	}{
		{"the tally", 9, 20, 30, 40, 9},
		{"the ceiling", 100, 8, 30, 40, 8},
		{"the /56", 100, 20, 7, 40, 7},
		{"the /48", 100, 20, 30, 6, 6},
	} {
		m := limiter.NewMemory(64, 1)
		f := underCeiling(m.Key([]byte(test.name)), limiter.Tally{}, of(test.ceiling))
		f.Networks = append(f.Networks, limiter.Network{Key: m.Key([]byte("/56")), Policy: of(test.near)},
			limiter.Network{Key: m.Key([]byte("/48")), Policy: of(test.far)})
		require.Equal(t, test.is, drain(m, of(test.own), midnight, f), test.name)
		require.Len(t, f.Networks, limiter.MaxNetworks)
	}
	m := limiter.NewMemory(64, 1)
	require.Panics(t, func() {
		m.Take(midnight, p, &limiter.Candidate{Networks: make([]limiter.Network, limiter.MaxNetworks+1)}, 1)
	})
	f := underCeiling(1, limiter.Tally{}, of(1))
	_, v := (*limiter.Memory)(nil).Take(midnight, p, &f, 5)
	require.True(t, v.Admitted, "without a memory there is no ceiling")
}

// Whatever is shown, and whichever memory is asked, N memories admit no more than a quota together
// in any aligned window, and each that begins anew one part more: for each algorithm, with
// restarts, and where the memory is full of strangers.
func TestCeilingsTogether(t *testing.T) {
	seeds := uint64(8)
	if kit.Brief() {
		seeds = 2
	}
	for _, full := range []bool{false, true} {
		for _, l := range []storeless.Limit{
			{Algorithm: storeless.FixedWindow, Quota: 37, Window: minute},
			{Algorithm: storeless.SlidingWindow, Quota: 37, Window: minute},
			{Algorithm: storeless.TokenBucket, Quota: 37, Window: minute, Burst: 23},
		} {
			for _, n := range []int64{3, 10} {
				t.Run(fmt.Sprintf("%s, %d memories, full %v", l.Algorithm, n, full), func(t *testing.T) {
					for seed := range seeds {
						admittedUnderCeilings(t, l, n, full, rand.New(rand.NewPCG(seed, uint64(n))))
					}
				})
			}
		}
	}
}

func admittedUnderCeilings(t *testing.T, l storeless.Limit, n int64, full bool, r *rand.Rand) {
	p := compile(t, l)
	ceiling := p.Share(n)
	clients := 64
	if full {
		clients = 1
	}
	memories := make([]*limiter.Memory, n)
	for i := range memories {
		memories[i] = limiter.NewMemory(clients, 1)
	}
	var (
		now      = midnight
		shown    = []limiter.Tally{{}}
		starts   int64
		admitted int64
		restarts = r.IntN(4)
		window   = int64(-1)
	)
	for range 4000 {
		if now = now.Add(time.Duration(r.Int64N(int64(50 * time.Millisecond)))); now.Unix()/60 != window {
			admitted, starts, window = 0, 0, now.Unix()/60
		}
		i := r.IntN(len(memories))
		if r.IntN(1000) < restarts {
			memories[i] = limiter.NewMemory(clients, 1)
			starts++
		}
		m := memories[i]
		if full {
			stranger := underCeiling(m.Key(fmt.Append(nil, r.Int())), limiter.Tally{}, ceiling)
			m.Take(now, p, &stranger, 1)
		}
		// Drops, forks, or shows the newest.
		f := underCeiling(m.Key([]byte("attacker")), shown[r.IntN(len(shown))], ceiling)
		cost := 1 + r.Int64N(2)
		tally, v := m.Take(now, p, &f, cost)
		if v.Admitted {
			admitted += cost
			if len(shown) < 8 {
				shown = append(shown, tally)
			} else {
				shown[r.IntN(len(shown)-1)+1] = tally
			}
		}
		if l.Algorithm == storeless.TokenBucket {
			// A burst at the window's beginning, and what flows in the window.
			require.LessOrEqual(t, admitted, (n+starts)*(l.Burst/n)+l.Quota)
			continue
		}
		require.LessOrEqual(t, admitted*n, l.Quota*(n+starts), "L·(1+C/N)")
	}
}
