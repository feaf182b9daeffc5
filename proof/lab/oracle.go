// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// A Count counts what has happened, and keeps what was noted of the first.
type Count struct {
	mu    sync.Mutex
	n     int64
	first string
}

// Note counts one, and says what it is.
func (c *Count) Note(format string, of ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; c.first == "" {
		c.first = fmt.Sprintf(format, of...)
	}
}

// Read returns how many there are, and what was noted of the first.
func (c *Count) Read() (n int64, first string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n, c.first
}

// An Oracle knows what every tally of a policy has used in the window of a row, because it sees every answer that any
// client gets, of attackers too. So it says of a refusal whether the client had room. It errs in favour of the servers: a
// request under way, or without an answer, may have been charged.
type Oracle struct {
	Cookie  string // of the policy
	route   route
	Unjust  Count        // refusals of honest clients with room, and whatever else they should not meet
	Served  atomic.Int64 // requests of honest clients
	Refused atomic.Int64
	Asked   atomic.Int64 // to work first
	Busy    atomic.Int64 // because peers did not answer in time

	mu    sync.Mutex
	used  map[string]*used // by the address, or the number of a bought tally
	early []early
}

// NewOracle returns the oracle of a policy, which has the name of its row.
func NewOracle(name string, r route) *Oracle {
	return &Oracle{Cookie: "__Host-tallystick-" + name, route: r, used: map[string]*used{}}
}

// used is what a tally has used.
type used struct {
	charged   int64 // or may have been
	underway  int64
	inherited bool // it has begun with a count of others, somewhere
}

// An early refusal refuses a client although one of its tallies had room.
type early struct {
	roomy []*used
	how   string
}

func (o *Oracle) of(tally string) *used {
	if o.used[tally] == nil {
		o.used[tally] = new(used)
	}
	return o.used[tally]
}

// room reports whether one more has room.
func (o *Oracle) room(u *used) bool { return u.charged+u.underway < o.route.Quota }

// Verdict says, when all is over, how many of the refusals of clients that had room a full memory explains, and notes the others.
// What a tally has begun with goes along with it, in the memory and in its token: so the answer that told of it explains
// also those that came before.
func (o *Oracle) Verdict() (explained int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.early {
		if slices.ContainsFunc(e.roomy, func(u *used) bool { return !u.inherited }) {
			o.Unjust.Note("%s", e.how)
		} else {
			explained++
		}
	}
	o.early = nil
	return explained
}
