// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Many callers ask a service at once: an exact counter, or a fleet. Used returns the nanoseconds of processors
// that other processes have spent on it so far, by unit.
type service struct {
	name string
	used func() map[string]float64
}

// A load is some callers, each with one call at a time.
type load struct {
	name    string // what its rows end in
	callers int
	ask     func(service string, caller, call int) error
}

// mostNoted is of how many calls a caller notes how long they took.
const mostNoted = 1 << 16

// measure asks a service for so long, after a sixth of it that does not count, and adds what a call
// took: on the wall, of the processors of this process, and of others.
func (l *load) measure(s *service, long time.Duration, all samples) {
	runtime.GC() // of what came before
	type caller struct {
		took []float64
		n    float64
		err  error
		_    [64]byte // the next one's are on another line of the cache
	}
	const warming, counting, ended = 0, 1, 2
	var phase, answered atomic.Int32
	callers := make([]caller, l.callers)
	var group sync.WaitGroup
	for i := range callers {
		c := &callers[i]
		c.took = make([]float64, 0, mostNoted)
		group.Go(func() {
			last := time.Now()
			for call := 0; phase.Load() != ended; call++ {
				if c.err = l.ask(s.name, i, call); c.err != nil {
					answered.Add(1)
					return
				}
				now := time.Now()
				if phase.Load() == counting {
					if c.n++; c.n == 1 {
						answered.Add(1)
					}
					if len(c.took) < mostNoted {
						c.took = append(c.took, float64(now.Sub(last)))
					}
				}
				last = now
			}
		})
	}
	usage := func() map[string]float64 {
		used := make(map[string]float64)
		if s.used != nil {
			used = s.used()
		}
		used["client"] = float64(processorTime())
		return used
	}
	time.Sleep(long / 6)
	before, began := usage(), time.Now()
	phase.Store(counting)
	for time.Sleep(long); answered.Load() == 0; time.Sleep(long) {
	}
	phase.Store(ended)
	wall, after := time.Since(began), usage()
	group.Wait()
	var took []float64
	n := 0.0
	for _, c := range callers {
		if c.err != nil {
			check(fmt.Errorf("%s: %w", s.name, c.err))
		}
		took, n = append(took, c.took...), n+c.n
	}
	all.add(s.name+l.name, "rate", 1e9*n/float64(wall))
	all.add(s.name+l.name, "p50", quantile(took, 0.5))
	all.add(s.name+l.name, "p99", quantile(took, 0.99))
	for unit := range after {
		all.add(s.name+l.name, unit, (after[unit]-before[unit])/n)
	}
}

// rest is for how long nothing is done, to see what others do.
const rest = 100 * time.Millisecond

// rotate has all services take turns under all loads: a busy moment of the machine hits all alike.
func rotate(ctx context.Context, s *settings, services []service, loads []load, long time.Duration, all samples, progress io.Writer) {
	each := max(time.Millisecond, long*6/7/time.Duration(s.groups*len(loads)*len(services)))
	for g := range s.groups {
		fmt.Fprintf(progress, "group %d of %d, slices of %s\n", g+1, s.groups, each.Round(time.Millisecond))
		for _, l := range loads {
			others := watch()
			time.Sleep(rest)
			all.add("", "others", others())
			for i := range services {
				check(ctx.Err())
				l.measure(&services[(i+g)%len(services)], each, all) // another begins in each group
			}
		}
	}
}
