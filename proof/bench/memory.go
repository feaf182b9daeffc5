// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"runtime"
	"time"
)

// visit has each client ask h once, and keep the token that it gets, in another order than later, lest what a limiter
// keeps of them lies in memory in that order.
func visit(c *population, h http.Handler) {
	a := newAsker(http.MethodPost, h)
	a.population, a.either = c, true
	for _, i := range rand.Perm(len(c.addresses)) {
		a.next = i
		a.run(1)
		check(a.after(1))
		c.tokens[i] = a.w.header.Get(byHeader)
	}
}

// many is how many clients fill a limiter whose heap is measured, or ask it one after the other.
const many = 50_000

// keepers are limiters that keep something in this process.
var keepers = []string{ourName, lowest, reference, "throttled", "ulule", "go-limiter"}

// measureMemory measures the heap of a limiter when it is new, and for each client that it has met.
func measureMemory(ctx context.Context, s *settings, o *opening, long time.Duration) samples {
	c := newPopulation(many / s.part)
	var rows []row
	for _, name := range keepers {
		rows = append(rows, row{name, func(add func(string, float64)) {
			empty := heap()
			h := limiters[name](o, plenty(len(c.addresses)))
			fresh := heap()
			visit(c, h)
			clear(c.tokens)
			add("new", fresh-empty)
			add("client", (heap()-fresh)/float64(len(c.addresses)))
			runtime.KeepAlive(h)
		}})
	}
	return s.play(ctx, "memory", rows, long)
}

// heap returns the bytes of the heap that are in use. The collector runs three times, because pools
// give up what they hold only at the second.
func heap() float64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
