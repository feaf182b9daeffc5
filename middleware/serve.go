// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"cmp"
	"net/http"

	"github.com/tallystick/tallystick/middleware/internal/reply"
)

// serve limits one request: decide, tell, then refuse it or pass it on. The route may have a
// price of its own.
func (e *engine) serve(w http.ResponseWriter, r *http.Request, next http.Handler, price func(*http.Request) int64) {
	if preflight(r) {
		next.ServeHTTP(w, r)
		return
	}
	if e.challenge != nil && e.challenge.answers(r.URL.Path) {
		e.serveEndpoints(w, r)
		return
	}
	if e.hooks.skip != nil && e.hooks.skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	outer := contextOf(r.Context())
	dc, lists := newContext(r.Context(), outer)
	fields := &dc.reply.Fields
	defer dc.end(r)
	var q call // not by a literal, which would be copied
	q.engine, q.ctx, q.r, q.cost, q.price, q.dc = e, dc.Context, r, 1, price, dc
	denial := q.decide()
	now := q.at
	if outer != nil {
		if dc.joins(outer, w, r) {
			fields.Within(&outer.reply.Fields, lists)
		}
		e.checkOuter(now, r, outer)
	}
	if q.checked {
		e.checkRequest(now, r, dc)
		next = e.checkingFields(now, w, dc, next)
	}
	e.allow(dc, denial)
	if dc.decision.Allowed || e.hooks.hear() {
		r = dc.asking(r)
	}
	if e.hooks.onDecision != nil {
		e.hooks.onDecision(dc, dc.decided())
	}
	if !dc.decision.Allowed {
		dc.leave() // a handler of the program's may take its time to refuse
		if outer != nil {
			dc.giveBackOutside(now, w)
		}
		reply.ForbidStoring(w.Header())
		fields.Set(w.Header())
		e.refuse(w, r, dc, denial)
		return
	}
	// The responses to GET and HEAD may be cached, and are made by handlers that
	// look at Cache-Control: a no-store of ours, set ahead, would hide what they
	// want cached. To have the other fields without it would be worse: an adapter
	// whose handlers write past our writer would have tokens stored by caches.
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		fields.SetAhead(w.Header())
		dc.addCookies(w.Header()) // nothing is lost if a handler drops it
	}
	if dc.decision.extras != nil && dc.decision.extras.permit != nil {
		dc.reply.TakenOver = dc.decision.extras.permit.TakenOver
	}
	defer dc.reply.Finalize() // wrote nothing, or panicked: the fields are for the code that recovers
	if p := dc.heldCharge(); p != nil {
		dc.reply.Final = p.conclude
		defer p.end()
		next.ServeHTTP(dc.reply.Wrap(w), r)
		p.returned = true
		return
	}
	next.ServeHTTP(dc.reply.Wrap(w), r)
}

// allow notes what is done about a decision.
func (e *engine) allow(dc *decisionContext, denial *Denial) {
	// A denial is obeyed even in shadow mode: it may be what guards the door.
	dc.decision.Allowed = dc.decision.Admitted || e.shadow && denial == nil
}

// preflight reports whether r is a CORS preflight (Fetch standard, 4.8). The
// browser sends it without credentials and without asking its user: it is
// neither charged nor refused. Any other OPTIONS request is an ordinary one, and so is
// what no browser would send: a preflight has no body, no credentials, and none of the
// fields that it asks for.
func preflight(r *http.Request) bool {
	if r.Method != http.MethodOptions || r.ContentLength != 0 ||
		len(r.Header["Origin"]) == 0 || len(r.Header["Access-Control-Request-Method"]) == 0 {
		return false
	}
	for _, name := range [...]string{
		"Cookie", "Authorization", "Proxy-Authorization", "X-Api-Key", TokenHeader, ProofHeader,
		// Some routers dispatch by these: the request would be another than it looks.
		"X-Http-Method-Override", "X-Http-Method", "X-Method-Override",
	} {
		if len(r.Header[name]) > 0 {
			return false
		}
	}
	return true
}

// CORSAllowHeaders returns the request header fields that a CORS configuration
// must allow for pages of other origins: the list for
// Access-Control-Allow-Headers.
func CORSAllowHeaders() []string { return []string{TokenHeader, ProofHeader} }

// CORSExposeHeaders returns the response header fields that a CORS configuration must expose for
// scripts of other origins to read: the list for Access-Control-Expose-Headers. It has the default
// fields, or all that the policies of the program have in Config.Fields. The CORS middleware
// belongs outside of this one, so that refusals carry its fields too.
func CORSExposeHeaders(chosen ...Fields) []string {
	var sent Fields
	for _, f := range chosen {
		sent |= withDefaults(Config{Fields: f}).Fields
	}
	sent = cmp.Or(sent, RateLimitFields)
	list := append([]string{TokenHeader, ChallengeHeader}, sent.names()...)
	return append(list, "Retry-After", reply.DegradedField)
}
