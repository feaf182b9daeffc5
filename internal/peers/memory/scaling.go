// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"golang.org/x/perf/benchmath"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// A Scaling says what one decision costs while the given number of processors
// make decisions.
type Scaling struct {
	Live       int // tallies that are asked for in turn; 1 is a hot one
	Processors int
	Nanos      benchmath.Summary // of the clock on the wall, for each decision
}

// MeasureScaling makes decisions for as long as it is told, so many times over,
// by each number of processors from one to all there are. A tally is chosen at
// random, which is part of the time; the memory has room for all.
func MeasureScaling(live int, each time.Duration, times int) []Scaling {
	c := newCounterOf(max(limiter.DefaultClients, 2*live), storeless.MaxQuota)
	keys := make([]limiter.Key, live)
	for i := range keys {
		keys[i] = random()
		c.take(keys[i], 1)
	}
	most := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(most)
	samples := make([][]float64, most)
	for range times { // in turn, so that a busy moment of the machine hits all
		for n := range samples {
			runtime.GOMAXPROCS(n + 1)
			samples[n] = append(samples[n], c.nanos(keys, n+1, each))
		}
	}
	var all []Scaling
	for n, values := range samples {
		sample := benchmath.NewSample(values, &benchmath.DefaultThresholds)
		all = append(all, Scaling{live, n + 1, benchmath.AssumeNothing.Summary(sample, 0.95)})
	}
	return all
}

// nanos returns the time on the wall that each decision takes while so many
// goroutines make them.
func (c *counter) nanos(keys []limiter.Key, goroutines int, each time.Duration) float64 {
	const batch = 1 << 12 // decisions between two looks at the clock
	made := make([]int, goroutines)
	var group sync.WaitGroup
	start := time.Now()
	for g := range goroutines {
		group.Go(func() {
			random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
			n := 0
			for time.Since(start) < each {
				for range batch {
					c.take(keys[random.Uint32N(uint32(len(keys)))], 1)
				}
				n += batch
			}
			made[g] = n
		})
	}
	group.Wait()
	sum := 0
	for _, n := range made {
		sum += n
	}
	return float64(time.Since(start).Nanoseconds()) / float64(sum)
}
