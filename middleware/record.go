// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"bytes"
	"context"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/middleware/internal/httpfield"
	"github.com/tallystick/tallystick/middleware/internal/page"
	"github.com/tallystick/tallystick/middleware/internal/reply"
	"github.com/tallystick/tallystick/middleware/internal/slots"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/storeless"
)

// A record is kept of each decision. Every request allocates one, so it is small: a [Decision] is
// made of it on demand. Fields that both have mean the same.
type record struct {
	Identity   Identity
	Cost       int64
	RetryAfter time.Duration
	Reason     Reason

	engine *engine // that has decided
	tier   *tier   // nil where the Identity is zero
	extras *extras // nil for most
	first  [fewLimits]packedStatus

	status   int16
	tokens   uint8
	tokenErr tokenFault

	Admitted, Allowed, Own, FromWaitingRoom, Saturated, Degraded bool
	decided                                                      bool // the limits were asked
}

// withExtras returns the extras of a record that needs some.
func (d *record) withExtras() *extras {
	if d.extras == nil {
		d.extras = new(extras)
	}
	return d.extras
}

// units returns what the request costs on each limit, or nil if the same on all.
func (d *record) units() *unitCosts {
	if d.extras == nil {
		return nil
	}
	return d.extras.units
}

// statusOf returns how the i-th limit stands.
func (d *record) statusOf(i int) packedStatus {
	switch {
	case i < fewLimits:
		return d.first[i]
	case d.extras == nil:
		return packedStatus{}
	}
	return d.extras.others[i-fewLimits]
}

// noteLimits notes how the limits stand.
func (d *record) noteLimits(who *subject, v *limiter.Verdict) {
	d.decided, d.tier = true, who.tier
	for i := range who.tier.names {
		l := &v.Limits[i]
		s := packedStatus{int32(l.Remaining), uint32(l.Reset/time.Second) << 1}
		if l.Blocked {
			s.reset |= 1
		}
		if i < fewLimits {
			d.first[i] = s
		} else {
			d.withExtras().others[i-fewLimits] = s
		}
	}
}

// noteCharge notes what was charged, and how its limits stand.
func (d *record) noteCharge(who *subject, c *charged) {
	d.Saturated, d.Own = c.verdict.Saturated, c.own != nil
	d.noteInherited(c.verdict.Inherited)
	d.noteLimits(who, &c.verdict)
}

// noteInherited notes what a newcomer to a full memory has begun with.
func (d *record) noteInherited(cost int64) {
	if cost > 0 {
		d.withExtras().Inherited = cost
	}
}

// noteProof notes why a proof was not accepted.
func (d *record) noteProof(reason Reason) {
	if reason != "" {
		d.withExtras().Proof = reason
	}
}

// noteCall notes a call to the counter that the request has waited for.
func (d *record) noteCall(outcome guardedcall.Outcome, took time.Duration) {
	x := d.withExtras()
	x.Call = outcome.String()
	x.CallTook += took.Truncate(time.Microsecond)
}

// conclude notes what becomes of the request.
func (d *record) conclude(v *verdict) {
	d.Admitted = v.status == 0
	d.Reason, d.status, d.RetryAfter = v.reason, int16(v.status), v.retryAfter
	if v.identityErr != nil {
		d.withExtras().IdentityErr = v.identityErr
	}
}

// concludeCharge notes what was charged, how its limits stand, and what that means.
func (d *record) concludeCharge(who *subject, c *charged) {
	v := verdictOf(&c.verdict)
	v.jitter()
	d.conclude(&v)
	d.noteCharge(who, c)
}

// decision returns the decision about r, which is nil outside of HTTP.
func (d *record) decision(r *http.Request) Decision {
	made := Decision{
		Policy: d.engine.name, Cost: d.Cost, Identity: d.Identity,
		Admitted: d.Admitted, Allowed: d.Allowed, Own: d.Own, FromWaitingRoom: d.FromWaitingRoom,
		Saturated: d.Saturated, Degraded: d.Degraded,
		Reason: d.Reason, Status: int(d.status), RetryAfter: d.RetryAfter,
		Tokens: int(d.tokens), TokenErr: d.tokenErr.err(),
		tier: d.tier, pseudonyms: d.engine.pseudonyms, request: r, decided: d.decided,
	}
	if d.tier != nil {
		made.Tier = d.tier.name
	}
	for i := range made.statuses {
		made.statuses[i] = d.statusOf(i)
	}
	if x := d.extras; x != nil {
		made.IdentityErr, made.Proof, made.Offered, made.RoomWait = x.IdentityErr, x.Proof, x.Offered, x.RoomWait
		if x.units != nil {
			made.each = &x.units.costs
		}
		made.Inherited, made.Call, made.CallTook = x.Inherited, x.Call, x.CallTook
	}
	return made
}

// Extras are apart from a record because few decisions have any, and every request allocates a record.
type extras struct {
	exceptions
	given       *page.Given   // a refusal that a handler of the program's answers
	cookies     []string      // that go out beside the token's: of the waiting room, and of spent proofs
	permit      *slots.Permit // of a request that is being served, where there is a Concurrency
	exactCharge *exactCharge  // on an exact route; nil: nothing was
	heldCharge  *heldCharge   // what is charged when the outcome is known; nil: nothing
	units       *unitCosts    // nil: the request costs the same in all limits
}

// An exactCharge can be given back to the exact counter that has made it, and retried.
type exactCharge struct {
	call    exact.Call
	receipt exact.Receipt // zero where the counter did not answer
	at      time.Time     // for which token and memory have counted it
	refusal guardedcall.Key
	tries   map[uint8]*try // of settlements, by the limits that they are about
}

// A try is a settlement whose answer may have been lost.
type try struct {
	call exact.Call // that charges more; its ID is "" until it is made
	lost bool       // an answer: it may have been given back
	back bool       // it was, or never will be
	late error      // says that nothing came back
}

// unitCosts are what a request costs on each limit, and what settlements have added to that.
type unitCosts struct {
	costs limiter.Costs

	mu   sync.Mutex // for settlements of several units at once
	more limiter.Costs
}

// Exceptions are the extras that a [Decision] has too.
type exceptions struct {
	IdentityErr error
	Proof       Reason
	Offered     *pow.Challenge
	RoomWait    time.Duration
	Inherited   int64
	Call        string
	CallTook    time.Duration
	others      [storeless.MaxLimits - fewLimits]packedStatus // of the limits after the first
}

// fewLimits is how many limits most policies have at most.
const fewLimits = 2

type decisionKey struct{}

// A decisionContext is a context with a decision in it, the request that has this context, the
// strings of the response's fields, and the writer that sees to them: one allocation for all
// that outlives the decision, and for the bytes of an address, which do not. It fits a
// size of allocation, which a test holds.
type decisionContext struct {
	context.Context
	decision         record
	reply            reply.Guard
	own              *token.Own    // the own tally that was charged; nil: a shared one
	settled          atomic.Uint32 // the limits that cannot be settled any more
	charged          bool          // there is something to settle
	negotiated, html bool          // HTML is preferred; if negotiated
	asked            bool          // there is a request
	address          [16]byte      // any but one that stands for another of IPv4
	request          http.Request  // that handlers are given
}

// newContext returns the context of a decision about a request. Inside of the outermost middleware's it has
// room for what all of them say.
func newContext(asking context.Context, outer *decisionContext) (*decisionContext, *reply.Lists) {
	if outer == nil || outer.reply.Fields.Inside() {
		return &decisionContext{Context: asking}, nil
	}
	var inner struct {
		decisionContext
		lists reply.Lists
	}
	inner.Context = asking
	return &inner.decisionContext, &inner.lists
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

// heldCharge returns the part of the charge that depends on the outcome, or nil.
func (dc *decisionContext) heldCharge() *heldCharge {
	if dc.decision.extras == nil {
		return nil
	}
	return dc.decision.extras.heldCharge
}

// addCookies adds to h the cookies that go out beside the token's.
func (dc *decisionContext) addCookies(h http.Header) {
	if dc.decision.extras == nil {
		return
	}
	for _, cookie := range dc.decision.extras.cookies {
		h.Add(reply.SetCookie, cookie)
	}
}

// end is called when r has been answered.
func (dc *decisionContext) end(r *http.Request) {
	dc.handBack(r)
	dc.leave()
}

// leave gives the permit of the request back, if it has one.
func (dc *decisionContext) leave() {
	if dc.decision.extras != nil {
		dc.decision.extras.permit.Done()
	}
}

// Value implements [context.Context].
func (dc *decisionContext) Value(key any) any {
	switch key.(type) {
	case decisionKey:
		return dc
	case page.GivenKey:
		if x := dc.decision.extras; x != nil && x.given != nil {
			return x.given
		}
	}
	return dc.Context.Value(key)
}

// contextOf returns what the innermost middleware around a request has decided, or nil.
func contextOf(ctx context.Context) *decisionContext {
	dc, _ := ctx.Value(decisionKey{}).(*decisionContext)
	return dc
}

// joins reports whether w and r are of the response that outer sees to: whether w writes to it or, where another writer is in
// between (of http.TimeoutHandler, or of a logger), r is the same request, or one of the same client. A request whose URL was
// rewritten, as by http.StripPrefix, has its header map still. The context does not
// tell: a handler that serves a batch hands it on to requests of others, whose tokens must not come back to the client that asks.
func (dc *decisionContext) joins(outer *decisionContext, w http.ResponseWriter, r *http.Request) bool {
	was := &outer.request
	if outer.reply.Answers(w) || was.RemoteAddr == r.RemoteAddr && sameMap(was.Header, r.Header) {
		return true
	}
	a, b := &dc.decision.Identity, &outer.decision.Identity
	var rooms [2][1 + longestInFull]byte
	return !a.IsZero() && bytes.Equal(a.append(rooms[0][:0]), b.append(rooms[1][:0]))
}

func sameMap(a, b http.Header) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// outer returns the decision of the middleware around this one, if both are about one response.
func (dc *decisionContext) outer() *decisionContext {
	if !dc.reply.Fields.Inside() {
		return nil
	}
	return contextOf(dc.Context)
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

// charge notes that the request was charged to a tally of the decision's Identity: the shared
// one, or an own one. With so little, and the decision, the charge can be changed.
func (dc *decisionContext) charge(own *token.Own) {
	if d := &dc.decision; d.Cost > 0 {
		dc.charged, dc.own = true, own
	}
}

// charged returns p with those limits alone that the request was charged on, and has the
// networks of f do the same. A shadow that would have refused it has counted nothing of it, and there
// is nothing to give back or to add to.
func (d *record) charged(p *limiter.Policy, f *limiter.Candidate) *limiter.Policy {
	isCharged := func(i int) bool { return !(p.Limit(i).Shadow && d.statusOf(i).blocked()) }
	for i := range p.Len() {
		if isCharged(i) {
			continue
		}
		for n := range f.Networks {
			f.Networks[n].Policy = f.Networks[n].Policy.Charging(isCharged)
		}
		return p.Charging(isCharged)
	}
	return p
}
