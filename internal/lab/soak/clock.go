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
}

func newClocks(instances int) *clocks {
	c := &clocks{ahead: make([]atomic.Int64, instances)}
	// A Monday in the middle of a year: the run leaves neither.
	c.right.Store(time.Date(2026, time.June, 1, 0, 0, middle, 0, time.UTC).Unix())
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
