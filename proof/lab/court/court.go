// SPDX-License-Identifier: Apache-2.0

// Package court judges what real servers answer. A Stage is the servers, a Line is one client's way to a policy of theirs, and the
// Oracle sees every answer of every line: so it knows what each tally has used, and where, and whether an answer was just.
package court

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Complaints count what was found wrong, and keep the first.
type Complaints struct {
	mu    sync.Mutex
	n     int64
	first string
}

// Note notes one.
func (c *Complaints) Note(format string, of ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; c.n == 1 {
		c.first = fmt.Sprintf(format, of...)
	}
}

// Read returns how many were noted, and the first.
func (c *Complaints) Read() (n int64, first string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n, c.first
}

// An Outage is when something does not stand, or others do not know yet that it does.
type Outage struct {
	state atomic.Int64 // even: it stands; odd: it does not
}

// Now is for Stood.
func (o *Outage) Now() int64 { return o.state.Load() }

// Stood says whether it stood all the time since Now said this.
func (o *Outage) Stood(since int64) bool { return since%2 == 0 && o.state.Load() == since }

// Change is the beginning or the end of an outage.
func (o *Outage) Change() { o.state.Add(1) }
