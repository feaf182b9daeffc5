// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/tallystick/tallystick/middleware/internal/httpfield"
	"github.com/tallystick/tallystick/middleware/internal/page"
	"github.com/tallystick/tallystick/middleware/internal/reply"
	"github.com/tallystick/tallystick/token"
)

type decisionKey struct{}

// A decisionContext is a context with a decision in it, the request that has this context, the
// strings of the response's fields, and the writer that sees to them: one allocation for all
// that outlives the decision, and for the bytes of an address, which do not. It fits a
// size of allocation, which a test holds.
type decisionContext struct {
	context.Context
	decision         record
	reply            reply.Guard
	own              *token.Own  // the own tally that was charged; nil: a shared one
	settled          atomic.Bool // it cannot be settled any more
	charged          bool        // there is something to settle
	negotiated, html bool        // HTML is preferred; if negotiated
	asked            bool        // there is a request
	address          [20]byte
	request          http.Request // that handlers are given
}

// asking returns the request r with this context: a copy that lies in it. The maps are of
// both, and so are the trailers that a client of HTTP/1.1 has not declared: net/http puts them
// into its own request, once the body is read, in a map of its making where there is none.
func (dc *decisionContext) asking(r *http.Request) *http.Request {
	if r.Trailer == nil && len(r.TransferEncoding) > 0 {
		r.Trailer = http.Header{}
	}
	dc.request, dc.asked = *r.WithContext(dc), true
	return &dc.request
}

// handBack gives r what net/http has written into the copy. By its own request a server removes
// the temporary files of a form, and by the pattern of a mux inside logs and metrics name the
// route. Nothing else is read, because a handler may have left something behind that goes on
// with the copy; and nothing is written that is the same, because r may be others' too.
func (dc *decisionContext) handBack(r *http.Request) {
	if !dc.asked {
		return
	}
	if form := dc.request.MultipartForm; form != r.MultipartForm {
		r.MultipartForm, r.Form, r.PostForm = form, dc.request.Form, dc.request.PostForm
	}
	if pattern := dc.request.Pattern; pattern != r.Pattern {
		r.Pattern = pattern
	}
}

// decided returns the decision.
func (dc *decisionContext) decided() Decision {
	if !dc.asked { // outside of HTTP
		return dc.decision.decision(nil)
	}
	return dc.decision.decision(&dc.request)
}

// pending returns what of the charge depends on the outcome, or nil.
func (dc *decisionContext) pending() *pending {
	if dc.decision.aside == nil {
		return nil
	}
	return dc.decision.aside.pending
}

// setAside adds the cookies of the aside to h.
func (dc *decisionContext) setAside(h http.Header) {
	if dc.decision.aside == nil {
		return
	}
	for _, cookie := range dc.decision.aside.cookies {
		h.Add(reply.SetCookie, cookie)
	}
}

// end is called when r has been answered.
func (dc *decisionContext) end(r *http.Request) {
	dc.handBack(r)
	dc.leave()
}

// leave gives the place of the request back, if it has one.
func (dc *decisionContext) leave() {
	if dc.decision.aside != nil {
		dc.decision.aside.place.Done()
	}
}

// Value implements [context.Context].
func (dc *decisionContext) Value(key any) any {
	if key == (decisionKey{}) {
		return dc
	}
	return dc.Context.Value(key)
}

// contextOf returns what the innermost middleware around a request has decided, or nil.
func contextOf(ctx context.Context) *decisionContext {
	dc, _ := ctx.Value(decisionKey{}).(*decisionContext)
	return dc
}

// wantsPage reports whether the client prefers HTML. The field is parsed once.
func (dc *decisionContext) wantsPage(r *http.Request) bool {
	if !dc.negotiated {
		dc.negotiated, dc.html = true, httpfield.PrefersHTML(r.Header["Accept"])
	}
	return dc.html
}

// opensPage reports whether the client wants a page to look at.
func (dc *decisionContext) opensPage(r *http.Request) bool { return dc.wantsPage(r) && page.Opens(r) }

// FromContext returns the decision about the request with this context. There
// is none if the request was skipped, or never came through a [Middleware]. The
// innermost decision counts where several middlewares are stacked.
func FromContext(ctx context.Context) (Decision, bool) {
	if dc := contextOf(ctx); dc != nil {
		return dc.decided(), true
	}
	return Decision{}, false
}
