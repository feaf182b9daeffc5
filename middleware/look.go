// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/httpfield"
)

// look looks at a request that has been decided.
func (e *engine) look(now time.Time, back time.Duration, r *http.Request, dc *decisionContext) {
	a := e.report.alarms
	if back > 0 {
		e.report.warn(now, clockJumped, "the clock has stepped back: it was wrong before, or is now", "by", back)
	}
	e.lookAtCookies(now, r)
	d := &dc.decision
	if c := e.challenge; c != nil && d.Reason == NoToken && (c.path == "" || e.carriage == HeaderOnly) && e.page == nil && e.refused == nil &&
		dc.opensPage(r) && a.pageTold.CompareAndSwap(false, true) {
		e.report.warn(now, newcomersOnGet, "a page is refused, and its visitor cannot do the work", "remedy", "limit the POST of its form alone, or set Challenge.Path and mount Middleware.Endpoints there")
	}
	if who := d.Identity.Addr(); who.IsValid() && a.lookout.note(now, who, programOf(r, &d.Identity)) {
		e.report.warn(now, everybodyOne, "every request comes from one private address, though from many programs: all of them share one quota",
			"remedy", "have the proxy name its clients, and trust it with ForwardedFor, Forwarded or AddressFromHeader")
	}
}

// lookAtCookies looks whether the browser stores the cookie, by what it says of the page.
func (e *engine) lookAtCookies(now time.Time, r *http.Request) {
	if e.carriage == HeaderOnly || e.quiet == QuietNoToken {
		return
	}
	secure := strings.HasPrefix(e.cookieName, "__Host-")
	switch scheme := pageScheme(r); {
	case !secure && (r.TLS != nil || scheme == "https"):
		e.report.warn(now, cookieInsecure, "the cookie is sent without Secure and without __Host-, and the site is on TLS", "remedy", "do not set Config.InsecureCookie")
	case secure && r.TLS == nil && scheme == "http" && !local(r.Host) && !e.showsCookie(r):
		e.report.warn(now, cookieDropped, "a page on plain HTTP: browsers drop the cookie, which is Secure", "remedy", "serve the site on TLS, or set Config.InsecureCookie while you develop")
	}
}

// pageScheme returns the scheme of the page of this very site that has sent a request, as
// the browser says, or "". What r.TLS says is of the last connection alone.
func pageScheme(r *http.Request) string {
	for _, name := range [...]string{"Origin", "Referer"} {
		if len(r.Header[name]) != 1 {
			continue
		}
		scheme, rest, _ := strings.Cut(r.Header[name][0], "://")
		if host, _, _ := strings.Cut(rest, "/"); r.Host != "" && strings.EqualFold(host, r.Host) {
			return scheme
		}
	}
	return ""
}

// local reports whether browsers take a host for safe without TLS.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	host = strings.ToLower(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && addr.IsLoopback()
}

// showsCookie reports whether a request has a cookie of the policy: then the browser keeps it.
func (e *engine) showsCookie(r *http.Request) bool {
	for range httpfield.Cookies(r.Header["Cookie"], e.cookieName, e.cookieSuffixes...) {
		return true
	}
	return false
}

// programOf returns what a request says of its program, if it comes from id itself, a
// private address, and has no field of a proxy: such requests could be anybody's.
func programOf(r *http.Request, id *Identity) string {
	program := r.UserAgent()
	if from, _ := peer(r); !near(from) || homeOf(from) != id.home() || namesAnother(r) {
		return ""
	}
	return program[:min(len(program), 128)]
}

// namesAnother reports whether a request has a field in which proxies name their clients:
// then it is another check that tells.
func namesAnother(r *http.Request) bool {
	for _, name := range customary() {
		if len(r.Header[name]) > 0 {
			return true
		}
	}
	return false
}

// lookForTwice looks whether one of the outer middlewares has the same policy, and the same
// request: a handler that serves several requests by its own limiter makes new ones, with
// a header of their own.
func (e *engine) lookForTwice(now time.Time, r *http.Request, outer *decisionContext) {
	for ; outer != nil; outer = contextOf(outer.Context) {
		if outer.decision.engine.name == e.name && sameMap(outer.request.Header, r.Header) {
			e.report.warn(now, policyTwice, "a request has passed this policy twice, and is charged twice",
				"remedy", "mount it once, or give the other one another Config.Policy")
			return
		}
	}
}

func sameMap(a, b http.Header) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// lookingBack returns next, and after it looks what has become of the fields.
func (e *engine) lookingBack(now time.Time, w http.ResponseWriter, dc *decisionContext, next http.Handler) http.Handler {
	return http.HandlerFunc(func(guarded http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(guarded, r)
		f := &dc.reply.Fields
		switch name := f.Lost(w.Header()); {
		case !f.Settled() && written(w):
			e.report.warn(now, writerBypassed, "the handler has not written to the ResponseWriter that it was given: the fields and the token may be missing",
				"remedy", "have the adapter send Header, Write and WriteHeader to that one")
		case f.Settled() && name != "":
			e.report.warn(now, fieldsLost, "something outside of the limiter has taken away or replaced a field of the response", "field", name,
				"remedy", "let it pass; to send fewer fields, set Config.Quiet or Config.Fields")
		}
	})
}

// written reports whether a response has begun, as far as a framework's writer tells.
func written(w http.ResponseWriter) bool {
	switch w := w.(type) {
	case interface{ Written() bool }:
		return w.Written()
	case interface{ BytesWritten() int }:
		return w.BytesWritten() > 0
	}
	return false
}

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

// What instances disagree about. Each decides by itself, and sees of the others only what they have signed:
//
//   - By another secret. Anybody can write a token or a challenge that looks like that, for one client or for a
//     /48. So clients of several networks have to show such ones. One request a second is looked at.
//   - Under another clock. A window, or a challenge, that begins later than now and that a secret of ours has
//     signed cannot be made up: the first one is told of. What has expired says nothing, as anybody may keep it.
//
// Neither decides anything.

// clockDiffers tells of a clock that was ahead of now by so much, at least.
func (e *engine) clockDiffers(now time.Time, by time.Duration) {
	if !e.report.alarms.rang[clockDiffers].due(now) {
		return // nothing is allocated for each token of a fleet that is all wrong
	}
	e.report.tell(slog.LevelWarn, clockDiffers, "an instance has signed what begins later than now: the clock of this one is behind, or that of the other is ahead",
		"ahead", by.Truncate(time.Second), "remedy", "have all instances keep their clocks by NTP")
}

// secretUnknown notes that a client shows what no secret of ours has signed.
func (e *engine) secretUnknown(now time.Time, id *Identity) {
	if e.report.alarms.unknown.note(now, id) {
		e.report.warn(now, secretUnknown, "clients of several networks show what another secret has signed",
			"kids", strings.Join(e.codec.KeyIDs(), ","), "remedy", "give all instances the same Config.Secrets, and drop an old one after TokenLife only")
	}
}
