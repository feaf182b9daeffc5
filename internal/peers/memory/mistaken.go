// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A Mistaken says how often a new tally is taken for one that is in memory.
type Mistaken struct {
	Tallies  int // that the memory is made for
	Live     int
	Looks    int // of new tallies
	Hits     int // of them, how many were shown a count that is not theirs
	Expected float64
}

// MeasureMistaken looks for new tallies, which charges nothing, in a memory
// made for tallies that holds live ones.
func MeasureMistaken(tallies, live, looks int) Mistaken {
	c := newCounter(tallies)
	for range live {
		c.take(random(), 1)
	}
	var hits atomic.Int64
	var group sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for range workers {
		group.Go(func() {
			mine := int64(0) // a shared count would be a measurement of its own
			for range looks / workers {
				if _, v := c.take(random(), 0); v.Inherited == 0 && v.Limits[0].Remaining != quota {
					mine++
				}
			}
			hits.Add(mine)
		})
	}
	group.Wait()
	looks = looks / workers * workers
	return Mistaken{
		Tallies:  tallies,
		Live:     live,
		Looks:    looks,
		Hits:     int(hits.Load()),
		Expected: float64(looks) * taken(mean(tallies, float64(live))),
	}
}
