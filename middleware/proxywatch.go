// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/httpfield"
)

// customary are the fields in which proxies name their clients.
func customary() [9]string {
	return [...]string{
		"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Fly-Client-Ip", "Cf-Connecting-Ip",
		"True-Client-Ip", "X-Client-Ip", "Fastly-Client-Ip", "X-Envoy-External-Address",
	}
}

// watchForProxy looks whether the client of a request is a proxy.
func (e *engine) watchForProxy(now time.Time, id *Identity, r *http.Request) {
	const (
		trust  = "trust it, with ForwardedFor, Forwarded or AddressFromHeader"
		ifOurs = "if it is a proxy of yours, " + trust + "; if not, leave it: a client can write this field"
	)
	from, _ := peer(r)
	for _, name := range customary() {
		lines := r.Header[name]
		if len(lines) == 0 {
			continue
		}
		t := httpfield.AddressFieldNamed(name)
		who, named, found := beyond(&t, lines, id, from)
		if !found {
			continue
		}
		if near(who) {
			e.report.warn(now, proxyUntrusted, "the client is a private address that names another, as proxies do: all of its clients share one quota",
				"field", name, "remedy", trust)
			return
		}
		if who == from && listed(&t, lines, id) {
			continue // an adapter has told who it is, and gateways have written themselves to its right
		}
		self, other := id.home(), homeOf(named)
		if named.IsGlobalUnicast() && !near(named) && other != self && e.report.alarms.watch.note(now, self, other) {
			e.report.warn(now, proxySuspected, "one client names many others, as proxies do: all of its clients share one quota",
				"field", name, "remedy", ifOurs)
			return
		}
	}
}

// beyond finds id in a request, at the connection's other end or in the field, and whom
// the field names beyond it. Of what is found, named is invalid if it is no address.
func beyond(t *httpfield.AddressField, lines []string, id *Identity, from netip.Addr) (who, named netip.Addr, found bool) {
	if homeOf(from) == id.home() {
		who = from
	}
	if !t.List {
		named, _ = t.Only(lines)
		return who, named, who.IsValid()
	}
	for hop := range t.Entries(lines) {
		if who.IsValid() {
			return who, hop, true
		}
		if homeOf(hop) == id.home() {
			who = hop
		}
	}
	return netip.Addr{}, netip.Addr{}, false
}

// listed reports whether id is among the entries of a list.
func listed(t *httpfield.AddressField, lines []string, id *Identity) bool {
	if !t.List {
		return false
	}
	for hop := range t.Entries(lines) {
		if hop.IsValid() && homeOf(hop) == id.home() {
			return true
		}
	}
	return false
}

// homeOf is the home of an address, if it is one.
func homeOf(addr netip.Addr) netip.Addr {
	id := Address(addr)
	return id.home()
}
