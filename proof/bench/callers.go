// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"sync"
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
// took: on the wall, of the processors of this process, and of others. Each caller has at least one call that counts.
func (l *load) slice(add func(unit string, figure float64)) {
	runtime.GC() // of what came before
	type caller struct {
		took []float64
		n    float64
		err  error
		_    [64]byte // the next one's are on another line of the cache
	}
	usage := func() map[string]float64 {
		used := l.used()
		used["client"] = float64(processorTime())
		return used
	}
	callers, start := make([]caller, l.callers), time.Now()
	begin, end := start.Add(l.long/6), start.Add(l.long/6+l.long)
	var group sync.WaitGroup
	for i := range callers {
		c := &callers[i]
		c.took = make([]float64, 0, mostNoted)
		group.Go(func() {
			next := start.Add(l.every * time.Duration(i) / time.Duration(l.callers))
			for call, last := 0, start; c.n == 0 || next.Before(end); call++ {
				if l.every > 0 {
					time.Sleep(time.Until(next))
					last = time.Now()
				}
				if c.err = l.ask(i, call); c.err != nil {
					return
				}
				now := time.Now()
				if now.After(begin) {
					if c.n++; len(c.took) < mostNoted {
						c.took = append(c.took, float64(now.Sub(last)))
					}
				}
				if last = now; l.every > 0 {
					next = next.Add(l.every)
				} else {
					next = now
				}
			}
		})
	}
	time.Sleep(time.Until(begin))
	before := usage()
	group.Wait()
	wall, after := time.Since(begin), usage()
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
