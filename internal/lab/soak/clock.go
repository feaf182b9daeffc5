// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sync"
	"sync/atomic"
	"time"
)

// window is the length of every window here, in seconds, and middle is where in it a round
// begins: far enough from both ends that clocks which disagree as they may are in one window.
const (
	window = 60
	middle = 20
)

// clocks are those of the instances, by which they decide. They are moved by hand: so what
// is admitted hangs on counts, and not on how fast the machine is.
type clocks struct {
	// While a decision is made it holds this for reading, and no clock is moved. A decision
	// that saw two times could belong to either of two windows, and could not be judged.
	gate  sync.RWMutex
	right atomic.Int64   // Unix seconds
	ahead []atomic.Int64 // of the true time, for each instance
	exact int64          // seconds: the window of the exact routes
	first int64          // the moment of it in which right begins
}

// exactWindow returns the window of the exact routes. Redis goes by its own clock, which says now:
// so the window is longer than any run, and now is in the middle of one. With one length for
// all, a run that crosses the end of such a window would find its charges gone.
func exactWindow(now time.Time) time.Duration {
	const most = 365 * 24 * 60 * 60
	whole := (2*now.Unix()/most + 1) / 2 // and a half have passed
	return time.Duration(2*now.Unix()/(2*whole+1)/window*window) * time.Second
}

// newClocks returns clocks that begin in the middle of a window of the exact routes, in or about 2026.
func newClocks(instances int, exact time.Duration) *clocks {
	c := &clocks{ahead: make([]atomic.Int64, instances), exact: int64(exact / time.Second)}
	c.first = c.exact/2/window*window + middle
	c.right.Store(time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC).Unix()/c.exact*c.exact + c.first)
	return c
}

// now is the clock of an instance.
func (c *clocks) now(instance int) int64 { return c.right.Load() + c.ahead[instance].Load() }

// windowOf is the number of the window in which an instance is.
func (c *clocks) windowOf(instance int) int64 { return c.now(instance) / window }

// move puts the true time forward, and all clocks right.
func (c *clocks) move(seconds int64) {
	c.gate.Lock()
	defer c.gate.Unlock()
	c.right.Add(seconds)
	for i := range c.ahead {
		c.ahead[i].Store(0)
	}
}

// pass puts the true time forward until all tokens have ended, those of the exact routes too, and
// again into the middle of a window of theirs: no cycle may see two of them.
func (c *clocks) pass() {
	c.move(3*c.exact + c.first - c.right.Load()%c.exact)
}

// set has the clock of one instance differ from the true time.
func (c *clocks) set(instance int, ahead int64) {
	c.gate.Lock()
	defer c.gate.Unlock()
	c.ahead[instance].Store(ahead)
}

// A passage is a request on its way to a decision.
type passage struct {
	clocks   *clocks
	instance int
	decided  sync.Once
}

func (c *clocks) enter(instance int) *passage {
	c.gate.RLock()
	return &passage{clocks: c, instance: instance}
}

// leave says that the decision was made.
func (p *passage) leave() { p.decided.Do(p.clocks.gate.RUnlock) }
