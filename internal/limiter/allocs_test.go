// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// The quota is out of reach, so that every request is admitted and charged.
var unlimited = limiter.Limit{Quota: limiter.MaxQuota, Window: minute}

func BenchmarkStep(b *testing.B) {
	for _, a := range algorithms {
		b.Run(a.String(), func(b *testing.B) {
			p := compile(b, limiter.Limit{Algorithm: a, Quota: limiter.MaxQuota, Window: day})
			var t limiter.Tally
			now := midnight
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(50 * time.Millisecond) // what a meter of this quota asks for
				var v limiter.Verdict
				if t, v = p.Step(now, t, 1); !v.Admitted {
					b.Fatal("refused")
				}
			}
		})
	}
}

func BenchmarkTake(b *testing.B) {
	p := compile(b, unlimited)
	wide := []limiter.Network{{Key: 1 << 40, Policy: p}, {Key: 1 << 50, Policy: p}}
	for _, bench := range []struct {
		name    string
		tallies int
		wide    []limiter.Network
	}{{"hot", 1, nil}, {"many", 1 << 15, nil}, {"hot-with-networks", 1, wide}} {
		m := limiter.NewMemory(0, 1)
		keys := make([]limiter.Key, bench.tallies)
		for i := range keys {
			keys[i] = stranger(m, i)
		}
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				f := limiter.Candidate{Key: keys[n%len(keys)], Networks: bench.wide}
				if _, v := m.Take(midnight, p, &f, 1); !v.Admitted {
					b.Fatal("refused")
				}
				n++
			}
			requireWorkload(b, m, p, keys, int64(n))
		})
	}
}

// requireWorkload checks that the tallies were charged with what was asked: a
// benchmark of keys that are all the same, or forgotten, measures nothing.
func requireWorkload(b *testing.B, m *limiter.Memory, p *limiter.Policy, keys []limiter.Key, asked int64) {
	b.Helper()
	if asked == 0 {
		return
	}
	spent := int64(0)
	for _, k := range keys {
		spent += limiter.MaxQuota - take(m, p, midnight, k, 0).Limits[0].Remaining
	}
	require.GreaterOrEqual(b, spent, asked)
}

func BenchmarkChoose(b *testing.B) {
	p := compile(b, unlimited)
	m := limiter.NewMemory(0, 1)
	candidates := []limiter.Candidate{{Key: 1}, {Key: 2}, {Key: 3}}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, v := m.Choose(midnight, p, candidates, 1); !v.Admitted {
			b.Fatal("refused")
		}
	}
}

func BenchmarkMerge(b *testing.B) {
	p := compile(b, unlimited)
	x, _ := p.Step(midnight, limiter.Tally{}, 1)
	y, _ := p.Step(midnight, limiter.Tally{}, 2)
	b.ReportAllocs()
	for b.Loop() {
		y = p.Merge(midnight, x, y)
	}
}

// moreAllocations is what to do where a call allocates that did not.
const moreAllocations = "it allocates more than it did. To see where: go test -run '^$' -bench . -memprofilerate 1 -memprofile mem.out ./internal/limiter,\n" +
	"and go tool pprof -sample_index=alloc_objects mem.out. Keep it on the stack, or in what the caller has already:\n" +
	"each request, and each forged one, pays for it. Raise a budget only with a reason in the commit."

// Nothing that runs for each request allocates: not for a hot tally, not for
// one never seen, and not in the widest case.
func TestAllocations(t *testing.T) {
	limits := make([]limiter.Limit, limiter.MaxLimits)
	for i := range limits {
		limits[i] = limiter.Limit{Name: string(rune('a' + i)), Algorithm: algorithms[i%2], Quota: 1 << 30, Window: minute}
	}
	p := compile(t, limits...)
	m := limiter.NewMemory(64, limiter.MaxLimits)
	var a, b limiter.Tally
	a, _ = p.Step(midnight, a, 1)
	b, _ = p.Step(midnight, b, 2)
	wide := []limiter.Network{{Key: 100, Policy: p.Scale(8)}, {Key: 200, Policy: p.Scale(64)}}
	candidates := []limiter.Candidate{{Key: 1, Shown: a, Networks: wide}, {Key: 2, Shown: b, Networks: wide}, {Key: 3}}
	identity := []byte("192.0.2.1")
	n := 0
	for name, f := range map[string]func(){
		"Step":          func() { a, _ = p.Step(midnight, a, 1) },
		"Step, refused": func() { p.Step(midnight, a, 1<<30) },
		"Take":          func() { m.Take(midnight, p, &candidates[2], 1) },
		"Take, new":     func() { n++; candidates[2].Key = stranger(m, n); m.Take(midnight, p, &candidates[2], 1) },
		"Take, wide":    func() { m.Take(midnight, p, &candidates[0], 1) },
		"Take, nil":     func() { (*limiter.Memory)(nil).Take(midnight, p, &candidates[0], 1) },
		"Choose":        func() { m.Choose(midnight, p, candidates, 1) },
		"Choose, one":   func() { m.Choose(midnight, p, candidates[:1], 1) },
		"Merge":         func() { b = p.Merge(midnight, a, b) },
		"Exceeds":       func() { p.Exceeds(midnight, a, b) },
		"Expires":       func() { p.Expires(a) },
		"Key":           func() { m.Key(identity) },
	} {
		require.Zero(t, testing.AllocsPerRun(100, f), "%s: %s", name, moreAllocations)
	}
}

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
