// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Behind a proxy that the identity function does not know of, all clients are one: they
// share a quota, and nothing fails. A watch notices. It asks one question of any identity
// that is an address: does the request name somebody beyond it, as proxies do?
//
//   - An address that proxies of one's own have, and clients from the Internet do not,
//     is told of at once.
//   - Any other may be a client that writes the field itself. It is told of when it has
//     named many clients within a day.
//
// What is read was written by anyone, and decides nothing: the most that a client can do
// is one line in the log a minute. One request a second is looked at, and all other
// requests pay one atomic load.
type watch struct {
	looked atomic.Int64 // the second of the last look

	mu     sync.Mutex
	places [8]place // the first of each day; there are as many proxies that tell the same
}

// A place watches one address.
type place struct {
	who   netip.Addr
	since int64                 // Unix seconds
	named [manyNamed]netip.Addr // whom it has named, without repetition
	n     int
}

const (
	manyNamed = 4
	watchFor  = 24 * 60 * 60 // seconds
)

// due reports whether a request should be looked at.
func (w *watch) due(now time.Time) bool {
	last, second := w.looked.Load(), now.Unix()
	return second != last && w.looked.CompareAndSwap(last, second)
}

// note notes that who has named another, and reports whether it has named many.
func (w *watch) note(now time.Time, who, named netip.Addr) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	var p *place
	for i := range w.places {
		at := &w.places[i]
		if age := now.Unix() - at.since; age >= watchFor || age <= -watchFor {
			*at = place{}
		}
		if at.who == who {
			p = at
			break
		}
		if p == nil && !at.who.IsValid() {
			p = at
		}
	}
	if p == nil {
		return false
	}
	if !p.who.IsValid() {
		p.who, p.since = who, now.Unix()
	}
	for i := range p.n {
		if p.named[i] == named {
			return p.n == manyNamed
		}
	}
	if p.n < manyNamed {
		p.named[p.n] = named
		p.n++
	}
	return p.n == manyNamed
}

// near reports whether an address is one that proxies of one's own have, and clients
// from the Internet do not: private, loopback, link-local, or shared (RFC 6598).
func near(addr netip.Addr) bool {
	addr = addr.Unmap()
	return addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() || shared.Contains(addr)
}

// shared is the network between carriers and their customers, which platforms use for
// networks of their own.
var shared = netip.MustParsePrefix("100.64.0.0/10")
