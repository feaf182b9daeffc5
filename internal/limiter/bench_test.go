// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// The quota is out of reach, so that every request is admitted and charged.
var unlimited = storeless.Limit{Quota: storeless.MaxQuota, Window: minute}

func BenchmarkStep(b *testing.B) {
	for _, a := range algorithms {
		b.Run(a.String(), func(b *testing.B) {
			p := compile(b, storeless.Limit{Algorithm: a, Quota: storeless.MaxQuota, Window: day})
			var t limiter.Tally
			now := midnight
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(50 * time.Millisecond) // what a meter of this quota asks for
				var v storeless.Verdict
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

func BenchmarkTakeParallel(b *testing.B) {
	p := compile(b, unlimited)
	for _, bench := range []struct {
		name    string
		tallies int
	}{{"hot", 1}, {"many", 1 << 15}} {
		b.Run(bench.name, func(b *testing.B) {
			m := limiter.NewMemory(0, 1)
			keys := make([]limiter.Key, bench.tallies)
			for i := range keys {
				keys[i] = stranger(m, i)
			}
			b.ReportAllocs()
			var worker, total atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				n := int(worker.Add(1)) * len(keys) / runtime.GOMAXPROCS(0) // apart from each other
				asked := int64(0)
				for pb.Next() {
					f := limiter.Candidate{Key: keys[n%len(keys)]}
					m.Take(midnight, p, &f, 1)
					n++
					asked++
				}
				total.Add(asked)
			})
			requireWorkload(b, m, p, keys, total.Load())
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
		spent += storeless.MaxQuota - take(m, p, midnight, k, 0).Limits[0].Remaining
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
