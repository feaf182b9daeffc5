// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"math/rand/v2"
	"runtime"
	"sync"

	"github.com/tallystick/tallystick/internal/limiter"
)

// A Flood says what strangers did to the counts of their victims.
type Flood struct {
	Tallies   int // that the memory is made for
	Victims   int
	Strangers int
	Lowered   int // victims whose count is lower than it was
	Raised    int // victims whose count is higher: charged for a stranger
	Freed     int // victims at their quota who were admitted again
}

// MeasureFlood charges victims, every other up to the quota, then each of a
// number of strangers once, from all processors, and looks at the victims again.
func MeasureFlood(tallies, victims, strangers int) Flood {
	const quota = 100
	c := newCounterOf(tallies, quota)
	f := Flood{Tallies: tallies, Victims: victims, Strangers: strangers}
	keys, used := make([]limiter.Key, victims), make([]int64, victims)
	for i := range keys {
		keys[i], used[i] = random(), quota
		if i%2 == 1 {
			used[i] = 1 + rand.Int64N(quota-1)
		}
		c.take(keys[i], used[i])
	}
	var group sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for k := range workers {
		group.Go(func() {
			for i := k; i < strangers; i += workers {
				c.take(random(), 1)
			}
		})
	}
	group.Wait()
	for i, k := range keys {
		_, v := c.take(k, 0)
		switch now := quota - v.Limits[0].Remaining; {
		case now < used[i]:
			f.Lowered++
		case now > used[i]:
			f.Raised++
		}
		if used[i] == quota {
			if _, v := c.take(k, 1); v.Admitted {
				f.Freed++
			}
		}
	}
	return f
}

// A Parallel says how many of a tally's requests were admitted that came all at
// once.
type Parallel struct {
	Goroutines int
	Requests   int
	Quota      int
	Admitted   int
}

// MeasureParallel sends four times the quota of one tally, from the given
// number of goroutines. Each shows the last tally that it was given, as clients
// on parallel connections do: older ones than the memory's.
func MeasureParallel(goroutines, quota int) Parallel {
	c := newCounterOf(limiter.DefaultClients, int64(quota))
	k := random()
	admitted := make([]int, goroutines)
	each := (4*quota + goroutines - 1) / goroutines
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			candidate := limiter.Candidate{Key: k}
			for range each {
				tally, v := c.memory.Take(c.now, c.policy, &candidate, 1)
				if v.Admitted {
					admitted[g]++
				}
				candidate.Shown = tally
			}
		})
	}
	group.Wait()
	p := Parallel{Goroutines: goroutines, Requests: goroutines * each, Quota: quota}
	for _, n := range admitted {
		p.Admitted += n
	}
	return p
}
