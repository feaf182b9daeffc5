// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// BenchmarkPopulation asks for tallies in random order, of a memory that is made for as many
// and knows them all: what that costs beside one tally is main memory. "-cpu 1,2,4" shows
// how it scales; one tally on all processors is the worst there is for a lock. A wide
// tally is one of IPv6, with a /56 and a /48.
func BenchmarkPopulation(b *testing.B) {
	for _, tallies := range []int{1, 1 << 16, 1 << 20, 10 << 20} {
		for _, limits := range []int{1, 2, 4} {
			for _, networks := range []int{0, 2} {
				if tallies > 1<<20 && (limits > 1 || networks > 0 || !kit.Long()) {
					continue // gigabytes
				}
				c := newPopulation(b, tallies, limits, networks)
				b.Run(fmt.Sprintf("tallies=%d/limits=%d/networks=%d", tallies, limits, networks), c.ask)
			}
		}
	}
}

// A population is of tallies that are known by their numbers.
type population struct {
	p        *limiter.Policy
	tallies  int
	networks int
	memory   func() *limiter.Memory // made when it is asked for
}

func newPopulation(b *testing.B, tallies, limits, networks int) *population {
	list := make([]limiter.Limit, limits)
	for i := range list {
		list[i] = unlimited
		list[i].Name = string(rune('a' + i))
	}
	c := &population{p: compile(b, list...), tallies: tallies, networks: networks}
	c.memory = sync.OnceValue(func() *limiter.Memory {
		m := limiter.NewMemory(tallies*(1+networks), limits) // each of them is one's own
		for n := range tallies {
			c.take(m, n)
		}
		return m
	})
	return c
}

// take asks for the n-th tally. Its key takes no memory of its own, that would have to be
// read.
func (c *population) take(m *limiter.Memory, n int) bool {
	k := scatter(uint64(n))
	f := limiter.Candidate{Key: limiter.Key(k), Provider: 1 + k>>52}
	var networks [limiter.MaxNetworks]limiter.Network
	for i := range c.networks {
		networks[i] = limiter.Network{Key: limiter.Key(scatter(k + uint64(1+i))), Policy: c.p}
	}
	f.Networks = networks[:c.networks]
	_, v := m.Take(midnight, c.p, &f, 1)
	return v.Admitted
}

func (c *population) ask(b *testing.B) {
	m := c.memory()
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	var worker, refused atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		r := rand.NewPCG(uint64(worker.Add(1)), 5)
		wrong := int64(0)
		for pb.Next() {
			if !c.take(m, int(r.Uint64()>>32)%c.tallies) {
				wrong++
			}
		}
		refused.Add(wrong)
	})
	b.StopTimer()
	require.Zero(b, refused.Load())
	newcomers, _ := m.Inherited()
	require.Zero(b, newcomers, "the memory has room")
	require.True(b, c.known(m), "a population that is not remembered measures nothing")
}

// known reports whether those that were asked for are remembered.
func (c *population) known(m *limiter.Memory) bool {
	for n := range min(c.tallies, 1000) {
		if take(m, c.p, midnight, limiter.Key(scatter(uint64(n))), 0).Limits[0].Remaining == limiter.MaxQuota {
			return false
		}
	}
	return true
}

// scatter is a bijection that looks like chance (splitmix64).
func scatter(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
