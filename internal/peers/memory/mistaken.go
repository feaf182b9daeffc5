// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A Mistaken says how often a new family is taken for one that is in memory.
type Mistaken struct {
	Families int // that the memory is made for
	Live     int
	Looks    int // of new families
	Hits     int // of them, how many were shown a count that is not theirs
	Expected float64
}

// MeasureMistaken looks for new families, which charges nothing, in a memory
// made for families that holds live ones.
func MeasureMistaken(families, live, looks int) Mistaken {
	c := newCounter(families)
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
		Families: families,
		Live:     live,
		Looks:    looks,
		Hits:     int(hits.Load()),
		Expected: float64(looks) * taken(mean(families, float64(live))),
	}
}
