// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/httpfield"
	"github.com/tallystick/tallystick/middleware/internal/page"
)

// checkRequest checks a request that has been decided.
func (e *engine) checkRequest(now time.Time, r *http.Request, dc *decisionContext) {
	e.checkCookies(now, r)
	d := &dc.decision
	if d.Reason == NoToken {
		e.checkWork(now, r, dc)
	}
	if d.Own { // what it shows was bought, perhaps of another instance, and that takes a script
		e.checks.scripts.Store(true)
	}
	id := &d.Identity
	who := id.Addr()
	if !who.IsValid() {
		return
	}
	if id.proxyWarning == nil {
		e.checks.proxy(now, id, r)
	}
	if e.checks.only.Note(now, who, programOf(r, id)) {
		e.checks.warn(now, everybodyOne)
	}
}

// checkWork checks whether a client that is to work can: a browser that shows a page, or sends a form, needs the
// endpoints.
func (e *engine) checkWork(now time.Time, r *http.Request, dc *decisionContext) {
	if e.challenge.path != "" && e.transport.kind != HeaderOnly || e.hooks.refused != nil {
		return
	}
	if e.hooks.page != nil && !page.HasElement(e.hooks.page) || !dc.wantsPage(r) || !page.Navigates(r) {
		return // a page of the program's may have a script of its own
	}
	switch opens := page.Opens(r); {
	case !opens && e.checks.onForm.CompareAndSwap(false, true):
		e.checks.warn(now, formUnsolvable)
	case opens && e.checks.onPage.CompareAndSwap(false, true):
		e.checks.warn(now, newcomersOnGet)
	}
}

// checkCookies checks whether the browser stores the cookie, by what it says of the page.
func (e *engine) checkCookies(now time.Time, r *http.Request) {
	if e.transport.kind == HeaderOnly || e.transport.kind == MemoryOnly {
		return
	}
	secure := strings.HasPrefix(e.transport.cookieName, "__Host-")
	switch scheme := pageScheme(r); {
	case !secure && (r.TLS != nil || scheme == "https"):
		e.checks.warn(now, cookieInsecure)
	case secure && r.TLS == nil && scheme == "http" && !local(r.Host) && !e.transport.showsCookie(r):
		e.checks.warn(now, cookieDropped)
	}
}

// sentByAnother checks a request that was taken for one of another site's page. A browser that says so by Origin alone,
// as over plain HTTP, is right only where the proxy has passed on the Host.
func (e *engine) sentByAnother(r *http.Request) {
	_, host, named := strings.Cut(r.Header.Get("Origin"), "://")
	if named && host != r.Host && len(r.Header["Sec-Fetch-Site"]) == 0 {
		e.checks.warn(e.now(), hostChanged)
	}
}

// pageScheme returns the scheme of the page of this very site that has sent a request, as the
// browser says, or "". r.TLS is about the last connection alone.
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
func (c *transport) showsCookie(r *http.Request) bool {
	for range httpfield.Cookies(r.Header["Cookie"], c.cookieName, c.cookieSuffixes...) {
		return true
	}
	return false
}

// programOf returns what a request says of its program, if it comes from id itself, a private
// address, and has no field of a proxy: any client could be behind such requests.
func programOf(r *http.Request, id *Identity) string {
	program := r.UserAgent()
	if from, _ := peer(r); !near(from) || firstAddrOf(from) != id.firstAddr() || namesAnother(r) {
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

// checkOuter checks whether one of the outer middlewares has the same policy, and the same
// request: a handler that serves several requests by its own limiter makes new ones, with
// a header of their own.
func (e *engine) checkOuter(now time.Time, r *http.Request, outer *decisionContext) {
	for ; outer != nil; outer = contextOf(outer.Context) {
		if outer.decision.engine.name == e.name && sameMap(outer.request.Header, r.Header) {
			e.checks.warn(now, policyTwice)
			return
		}
	}
}

// checkingFields returns next, and after it checks what has become of the fields.
func (e *engine) checkingFields(now time.Time, w http.ResponseWriter, dc *decisionContext, next http.Handler) http.Handler {
	return http.HandlerFunc(func(guarded http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(guarded, r)
		f := &dc.reply.Fields
		switch name := f.Lost(w.Header()); {
		case !f.Finalized() && written(w):
			e.checks.warn(now, writerBypassed)
		case f.Finalized() && name != "":
			e.checks.warn(now, fieldsLost, "field", name)
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

// Behind a proxy that the identity function does not know of, all clients are one: they share a
// quota, and nothing fails. So where an identity is an address one thing is asked: does the request
// name a client beyond it, as proxies do?
//
//   - An address that proxies of one's own have, and clients from the Internet do not,
//     is told of at once.
//   - Any other may be a client that writes the field itself. It is told of when it has
//     named many clients within a day.

// proxy checks whether the client of a request is a proxy.
func (c *checks) proxy(now time.Time, id *Identity, r *http.Request) {
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
			c.warn(now, proxyUntrusted, "field", name)
			return
		}
		if who == from && listed(&t, lines, id) {
			continue // an adapter has named the client, and gateways have written themselves to its right
		}
		self, other := id.firstAddr(), firstAddrOf(named)
		if named.IsGlobalUnicast() && !near(named) && other != self && c.namers.Note(now, self, other) {
			c.warn(now, proxySuspected, "field", name)
			return
		}
	}
}

// beyond finds id in a request, at the connection's other end or in the field, and the client that
// the field names beyond it. named is invalid if that is no address.
func beyond(t *httpfield.AddressField, lines []string, id *Identity, from netip.Addr) (who, named netip.Addr, found bool) {
	if firstAddrOf(from) == id.firstAddr() {
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
		if firstAddrOf(hop) == id.firstAddr() {
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
		if hop.IsValid() && firstAddrOf(hop) == id.firstAddr() {
			return true
		}
	}
	return false
}

// firstAddrOf is the first address of an address' network, if it is one.
func firstAddrOf(addr netip.Addr) netip.Addr {
	id := Address(addr)
	return id.firstAddr()
}
