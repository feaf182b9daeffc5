// SPDX-License-Identifier: Apache-2.0

// Package seen remembers a few of the values that came of late, to tell whether one client is many. Its
// values were written by anyone: they fill a fixed room, and decide nothing but whether a line is logged.
package seen

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	day  = 24 * 60 * 60 // seconds
	hour = 60 * 60      // seconds: forms may have few visitors

	manyNamed    = 4
	manyPrograms = 8
	manyClients  = 4
)

// few are different values that came within some seconds of the first.
type few[V comparable] struct {
	since  int64 // Unix seconds
	values []V
}

// ended reports whether the time of the values is over. A clock that steps back by as much was wrong.
func (f *few[V]) ended(now time.Time, seconds int64) bool {
	age := now.Unix() - f.since
	return age >= seconds || age <= -seconds
}

// begin forgets the values.
func (f *few[V]) begin(now time.Time) { f.since, f.values = now.Unix(), f.values[:0] }

// note adds a value if it is new, and reports whether there are many.
func (f *few[V]) note(v V, many int) bool {
	if len(f.values) < many && !slices.Contains(f.values, v) {
		f.values = append(f.values, v)
	}
	return len(f.values) == many
}

// Namers are addresses that name others, as proxies do: the first eight of each day. There are as many
// proxies that tell the same.
type Namers struct {
	mu  sync.Mutex
	all [8]namer
}

type namer struct {
	who   netip.Addr
	named few[netip.Addr]
}

// Note notes that one peer, who, has named another, and reports whether it has named many within a
// day.
func (n *Namers) Note(now time.Time, who, named netip.Addr) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	var free *namer
	for i := range n.all {
		at := &n.all[i]
		if at.named.ended(now, day) {
			at.who = netip.Addr{}
		}
		if at.who == who {
			return at.named.note(named, manyNamed)
		}
		if free == nil && !at.who.IsValid() {
			free = at
		}
	}
	if free == nil {
		return false
	}
	free.who = who
	free.named.begin(now)
	return free.named.note(named, manyNamed)
}

// Only is the only client that is ever seen, and how its requests differ. It is for proxies
// that do not name their clients at all.
type Only struct {
	mu       sync.Mutex
	who      netip.Addr
	programs few[string]
}

// Note notes which program an address has sent a request by, "" for one that says nothing of
// proxies, and reports whether all clients turn out to be this address.
func (o *Only) Note(now time.Time, who netip.Addr, program string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if who != o.who || o.programs.ended(now, day) {
		o.who = who
		o.programs.begin(now)
	}
	return program != "" && o.programs.note(strings.Clone(program), manyPrograms)
}

// Clients are those that have all shown the same.
type Clients struct {
	mu  sync.Mutex
	all few[Client]
}

// A Client is a customer, or a network larger than a client's.
type Client struct {
	Network netip.Prefix
	Name    string
}

// Note notes a client, and reports whether there are many within an hour.
func (c *Clients) Note(now time.Time, client Client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all.ended(now, hour) {
		c.all.begin(now)
	}
	return c.all.note(client, manyClients)
}
