// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A load is some callers, each with one call at a time: one after the other, or one every so often.
type load struct {
	callers int
	every   time.Duration
	long    time.Duration
	ask     func(caller, call int) error
	used    func() map[string]float64 // the nanoseconds of processors that other processes have spent on it so far, by unit
}

// mostNoted limits the calls for which a caller notes how long they took.
const mostNoted = 1 << 16

// slice has the callers ask, after a sixth of the time that does not count, and adds what a call
// took: on the wall, of the processors of this process, and of others.
func (l *load) slice(add func(unit string, figure float64)) {
	runtime.GC() // of what came before
	type caller struct {
		took []float64
		n    float64
		err  error
		_    [64]byte // the next one's are on another line of the cache
	}
	const warming, counting, ended = 0, 1, 2
	var phase, answered atomic.Int32
	var group sync.WaitGroup
	callers := make([]caller, l.callers)
	for i := range callers {
		c := &callers[i]
		c.took = make([]float64, 0, mostNoted)
		group.Go(func() {
			last := time.Now()
			next := last.Add(l.every * time.Duration(i) / time.Duration(l.callers))
			for call := 0; phase.Load() != ended; call++ {
				if l.every > 0 {
					time.Sleep(time.Until(next))
					next, last = next.Add(l.every), time.Now()
				}
				if c.err = l.ask(i, call); c.err != nil {
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
		used := l.used()
		used["client"] = float64(processorTime())
		return used
	}
	time.Sleep(l.long / 6)
	before, began := usage(), time.Now()
	phase.Store(counting)
	for time.Sleep(l.long); answered.Load() == 0; time.Sleep(l.long) {
	}
	phase.Store(ended)
	wall, after := time.Since(began), usage()
	group.Wait()
	var took []float64
	n := 0.0
	for _, c := range callers {
		check(c.err)
		took, n = append(took, c.took...), n+c.n
	}
	add("rate", 1e9*n/float64(wall))
	add("p50", quantile(took, 0.5))
	add("p99", quantile(took, 0.99))
	for unit := range after {
		add(unit, (after[unit]-before[unit])/n)
	}
}
