package middleware

import (
	"context"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/slots"
)

// enter finds a slot for a request before anything is charged: in the first tally that has
// one of those that it shows, and else in the one that all of its identity share. It is not
// ok if none is free, and returns the time, which is a later one if the request has waited.
func (e *engine) enter(now time.Time, r *http.Request, dc *decisionContext, who *subject, shown *credentials) (time.Time, bool) {
	g := e.gate
	if g == nil {
		return now, true
	}
	shared := g.keyOf(who.bytes)
	first, n := shared, g.maxFor(who.tier.name)
	for i := range shown.own {
		own := g.keyOf([]byte{kindOwn}, shown.own[i].own.ID[:])
		if i == 0 {
			first = own
		}
		if s := g.table.Try(now, own, n); s != nil {
			e.hold(now, dc, s)
			return now, true
		}
	}
	s := g.table.Try(now, shared, n)
	if s == nil && g.Queue > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), g.MaxHold)
		s, _ = g.table.Wait(ctx, e.now, first, n)
		cancel()
		now = e.now()
	}
	if s == nil {
		return now, false
	}
	e.hold(now, dc, s)
	return now, true
}

// hold gives the request a slot of this instance.
func (e *engine) hold(now time.Time, dc *decisionContext, s *slots.Slot) {
	g := e.gate
	own := slots.NewPlace(func() { g.table.Leave(e.now(), s) })
	if g.CancelHeld {
		dc.Context = own.EndAfter(dc.Context, g.MaxHold, ErrHeldTooLong)
	}
	dc.withAside().place = own
}

// refuseAtOnce concludes a request for which there is no slot. It was charged nothing, so
// there is nothing to tell, but the token of a tally that it has just bought.
func (e *engine) refuseAtOnce(now time.Time, dc *decisionContext, who *subject, shown *credentials, v verdict) {
	var tell told
	if p := &shown.proof; p.opened {
		tell.own, tell.tally, tell.paid = &shown.own[p.index].own, &shown.own[p.index].tally, true
	}
	dc.decision.conclude(&v)
	e.answer(now, dc, who, shown, tell, given{})
}
