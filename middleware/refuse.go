// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"cmp"
	"net/http"
	"strconv"

	"github.com/tallystick/tallystick/middleware/internal/page"
	"github.com/tallystick/tallystick/middleware/internal/reply"
)

// refuse answers a refused request. The fields are set, and nothing else has it stored.
func (e *engine) refuse(w http.ResponseWriter, r *http.Request, dc *decisionContext, denial *Denial) {
	d := &dc.decision
	h := w.Header()
	a := new(refusalFields)
	a.set(h, reply.CacheControl, reply.NoStore)
	if d.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", cmp.Or(denial.WWWAuthenticate, "Bearer"))
	}
	dc.addCookies(h)
	var refusal page.Refusal
	e.describe(&refusal, dc)
	if e.hooks.refused != nil || e.hooks.page != nil {
		dc.decision.withExtras().given = e.given(r, dc, refusal)
	}
	if e.hooks.refused != nil {
		serveRefusal(w, r, e.hooks.refused, refusal.Status)
		return
	}
	if len(h["Vary"]) > 0 {
		h.Add("Vary", "Accept")
	} else {
		a.set(h, "Vary", "Accept")
	}
	html := dc.wantsPage(r)
	if html && e.hooks.page != nil {
		serveRefusal(w, r, e.hooks.page, refusal.Status)
		return
	}
	b := e.bodies.Get().(*body)
	if e.writeRefusal(w, r, &refusal, a, b, html, "") != nil {
		return // an HTTP/2 stream that was reset may still be sending it
	}
	e.bodies.Put(b)
}

// given returns a refusal for a handler of the program's, which lives as long as the request.
func (e *engine) given(r *http.Request, dc *decisionContext, refusal page.Refusal) *page.Given {
	return &page.Given{
		Refusal:     &refusal,
		PrefersHTML: func() bool { return dc.wantsPage(r) },
		Answer: func(w http.ResponseWriter, r *http.Request, site string) {
			_ = e.writeRefusal(w, r, &refusal, new(refusalFields), new(body), dc.wantsPage(r), site)
		},
		SendsScript:   func(r *http.Request) { e.checks.pageSent(e.now(), r) },
		SentByAnother: e.sentByAnother,
	}
}

// serveRefusal has a handler of the program's answer. If it writes no status, the refusal's is meant: net/http would
// send 200, and a client would take the refusal for a success.
func serveRefusal(w http.ResponseWriter, r *http.Request, h http.Handler, status int) {
	refusing := &refusing{ResponseWriter: w, status: status}
	h.ServeHTTP(refusing, r)
	refusing.begin()
}

type refusing struct {
	http.ResponseWriter
	status int
	begun  bool
}

// begin sends the status of the refusal, unless the handler has sent one.
func (w *refusing) begin() {
	if !w.begun {
		w.WriteHeader(w.status)
	}
}

// WriteHeader implements [http.ResponseWriter].
func (w *refusing) WriteHeader(status int) {
	w.begun = w.begun || status >= 200
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *refusing) Write(b []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(b)
}

// Flush implements [http.Flusher].
func (w *refusing) Flush() {
	w.begin()
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for [http.ResponseController].
func (w *refusing) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// describe fills in what problem details and pages say of a decision.
func (e *engine) describe(refusal *page.Refusal, dc *decisionContext) {
	d, x := &dc.decision, new(exceptions)
	if dc.decision.extras != nil {
		x = &dc.decision.extras.exceptions
	}
	refusal.Status, refusal.Cause, refusal.RetryAfter, refusal.RoomWait = int(d.status), causeOf(d.Reason), d.RetryAfter, x.RoomWait
	refusal.Cost, refusal.Embedded = d.Cost, e.transport.embedded
	if !e.transport.quiet && d.decided && (d.Reason == OverLimit || d.Reason == CostAboveQuota) {
		refusal.LimitNames = d.tier.names
		for i, name := range d.tier.names {
			if name != "" && d.statusOf(i).blocked() {
				refusal.Violated |= 1 << i
			}
		}
	}
	switch {
	case x.Proof != "":
		refusal.Reason = string(x.Proof)
		refusal.Setup = x.Proof == proofSecretUnknown || x.Proof == proofClockDiffers
	case x.Offered != nil || d.Reason == SoldOut || d.Reason == TooManyAtOnce:
		refusal.Reason = string(d.Reason)
	}
	if c := x.Offered; c != nil {
		refusal.Challenge = page.Challenge{Text: c.Text, TTL: c.TTL, Work: c.Work}
	}
	if c := e.challenge; c != nil {
		refusal.Base, refusal.PageStyle = c.path, c.pageStyle
		if e.transport.kind != HeaderOnly { // no page that is opened, and no form, carries fields
			refusal.Script, refusal.Style, refusal.PageScript = c.script, c.style, c.pageScript
		}
	}
}

// causeOf says what a page or a problem is about.
func causeOf(reason Reason) page.Cause {
	switch reason {
	case NoToken, MemoryFull, ProofReplayed:
		return page.ProofRequired
	case OverLimit, SoldOut, TooManyAtOnce:
		return page.QuotaExceeded
	case CostAboveQuota:
		return page.CostAboveQuota
	case CounterDown, Overloaded, IdentityUnavailable:
		return page.ReducedCapacity
	case IdentityUnknown:
		return page.IdentityUnknown
	}
	return page.Other
}

// writeRefusal writes the built-in page, or the built-in problem details, which it makes in b.
// A request that is not for a page does not get one, though it may prefer HTML.
// The error comes from the write: the client is gone, and no answer reaches it.
func (e *engine) writeRefusal(w http.ResponseWriter, r *http.Request, refusal *page.Refusal, a *refusalFields, b *body, html bool, site string) (err error) {
	h := w.Header()
	last, contentType := len(b.text), "application/problem+json"
	if html && page.Navigates(r) {
		contentType = "text/html; charset=utf-8"
		b.text = page.AppendPage(b.text[:0], refusal, h, r, site)
		if refusal.Opens(r) {
			e.checks.pageSent(e.now(), r)
		}
	} else {
		b.text = page.AppendProblem(b.text[:0], refusal)
	}
	if len(b.text) != last {
		b.length = strconv.Itoa(len(b.text))
	}
	a.set(h, "Content-Type", contentType)
	a.set(h, "Content-Length", b.length)
	a.set(h, "X-Content-Type-Options", "nosniff")
	w.WriteHeader(refusal.Status)
	_, err = w.Write(b.text)
	return err
}

// A body of a refusal is used again for the next: a ResponseWriter keeps nothing of what it has
// written (see [io.Writer]). The one of net/http may, where it returns an error: for HTTP/2
// another goroutine writes. Pages with a form in them are made apart.
type body struct {
	text   []byte
	length string // of text: most are as long as the one before
}

func newBody() any { return &body{text: make([]byte, 0, 2<<10)} }

// refusalFields are one allocation for the fields of a refusal of our own.
type refusalFields struct {
	values [5]string
	n      int
}

// set sets a field in place of whatever stands there, to a slice of capacity one, so that no Add
// reaches the next value.
func (a *refusalFields) set(h http.Header, name, value string) {
	a.values[a.n] = value
	a.n++
	h[name] = a.values[a.n-1 : a.n : a.n]
}
