// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"runtime"
	"sync"
)

// A group writes calls together that come while others are being written: the group
// commit of exact/file, for engines that it is compared with.
type group struct {
	commit func([]*job) error // all of them, on disk

	mu      sync.Mutex
	waiting []*job
	writing bool
}

// A job is a call that waits to be written.
type job struct {
	key    string
	passed bool
	done   chan error
}

func (g *group) take(key string) (bool, error) {
	j := &job{key: key, done: make(chan error, 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, j)
	if !g.writing {
		g.writing = true
		go g.write()
	}
	g.mu.Unlock()
	err := <-j.done
	return j.passed, err
}

// write writes what waits, until nothing does.
func (g *group) write() {
	for {
		runtime.Gosched() // those who were answered just now may ask again
		g.mu.Lock()
		jobs := g.waiting
		g.waiting = nil
		if len(jobs) == 0 {
			g.writing = false
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		err := g.commit(jobs)
		for _, j := range jobs {
			j.done <- err
		}
	}
}
