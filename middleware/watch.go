package middleware

import (
	"net/http"
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
func (w *watch) note(who, named netip.Addr, now time.Time) bool {
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

// customary returns the fields in which proxies name their clients.
func customary() [9]testimony {
	one := func(name string) testimony { return testimony{name, false, longestAddress, parseForwardedFor} }
	return [...]testimony{
		forwardedFor, forwardedElements, one("X-Real-Ip"), one("Fly-Client-Ip"), one("Cf-Connecting-Ip"),
		one("True-Client-Ip"), one("X-Client-Ip"), one("Fastly-Client-Ip"), one("X-Envoy-External-Address"),
	}
}

// watchOut looks whether the client of a request is a proxy.
func (e *engine) watchOut(id *Identity, r *http.Request, now time.Time) {
	from, _ := peer(r)
	for _, t := range customary() {
		who, named, found := t.beyond(r.Header[t.name], id, from)
		if !found {
			continue
		}
		if near(who) {
			e.warn(&e.alarms.proxy, now, "the client is a private address that names another, as proxies do: all of its clients share one quota",
				"field", t.name, "remedy", "trust it, with ForwardedFor, Forwarded or AddressFromHeader")
			return
		}
		if who == from && t.lists(r.Header[t.name], id) {
			continue // an adapter has told who it is, and gateways have written themselves to its right
		}
		other := Address(named)
		if named.IsGlobalUnicast() && !near(named) && other.addr != id.addr && e.alarms.watch.note(id.addr, other.addr, now) {
			e.warn(&e.alarms.crowd, now, "one client names many others, as proxies do: all of its clients share one quota",
				"field", t.name, "remedy", "trust it, with ForwardedFor, Forwarded or AddressFromHeader")
			return
		}
	}
}

// beyond finds id in a request, at the connection's other end or in the field, and whom
// the field names beyond it. Of what is found, named is invalid if it is no address.
func (t *testimony) beyond(lines []string, id *Identity, from netip.Addr) (who, named netip.Addr, found bool) {
	if len(lines) == 0 {
		return
	}
	if Address(from).addr == id.addr {
		who = from
	}
	if !t.list {
		named, _ = t.only(lines)
		return who, named, who.IsValid()
	}
	hops := 0
	for entry, whole := range fromTheRight(lines, t.longest) {
		if hops++; !whole || hops > maxHops {
			break
		}
		if entry == "" {
			continue
		}
		hop, _ := t.parse(entry)
		switch {
		case who.IsValid():
			return who, hop.Unmap().WithZone(""), true
		case Address(hop).addr == id.addr:
			who = hop.Unmap().WithZone("")
		}
	}
	return netip.Addr{}, netip.Addr{}, false
}

// lists reports whether id is among the entries of a list.
func (t *testimony) lists(lines []string, id *Identity) bool {
	hops := 0
	for entry, whole := range fromTheRight(lines, t.longest) {
		if hops++; !t.list || !whole || hops > maxHops {
			break
		}
		if hop, ok := t.parse(entry); ok && Address(hop).addr == id.addr {
			return true
		}
	}
	return false
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
