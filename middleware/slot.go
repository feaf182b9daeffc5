// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/middleware/internal/slots"
)

// enter finds a slot for a request before anything is charged: in the first tally that has
// one of those that it shows, and else in the one that all of its identity share. It is not
// ok if none is free.
func (e *engine) enter(now time.Time, q *question, dc *decisionContext, who *subject, shown *credentials) (ok bool) {
	g := e.gate
	if g == nil || q.r == nil {
		return true
	}
	n := g.maxFor(who.tier.name)
	for i := range shown.own {
		if s := g.table.Try(now, g.keyOf([]byte{kindOwn}, shown.own[i].own.ID[:]), n); s != nil {
			e.hold(dc, s)
			return true
		}
	}
	s := g.table.Try(now, g.keyOf(who.bytes), n)
	if s == nil {
		return false
	}
	e.hold(dc, s)
	return true
}

// hold gives the request a slot of this instance.
func (e *engine) hold(dc *decisionContext, s *slots.Slot) {
	g := e.gate
	own := slots.NewPermit(func() { g.table.Leave(e.now(), s) })
	if g.CancelHeld && !e.shadow {
		dc.Context = own.EndAfter(dc.Context, g.MaxHold, errHeldTooLong)
	}
	dc.decision.withExtras().permit = own
}

// refuseAtOnce concludes a request for which there is no slot. It was charged nothing, so
// the answer carries no more than the token of a tally that it has just bought.
func (e *engine) refuseAtOnce(now time.Time, dc *decisionContext, who *subject, shown *credentials, v verdict) {
	var fields answerFields
	if p := &shown.proof; p.opened {
		fields.own, fields.tally, fields.paid = &shown.own[p.index].own, &shown.own[p.index].tally, true
	}
	dc.decision.conclude(&v)
	e.answer(now, dc, who, shown, fields, offerFields{})
}

// enterExact leases a slot from the counter, and reports whether there is one; if not, v is
// what becomes of the request. A refusal is not remembered: nobody knows when a request is
// going to end.
func (e *engine) enterExact(now time.Time, q *question, dc *decisionContext, who *subject) (v verdict, ok bool) {
	g := e.gate
	if g == nil || q.r == nil {
		return v, true
	}
	h := sha256.New()
	h.Write([]byte("tallystick/v1/slot\x00"))
	h.Write(who.bytes)
	call := exact.Call{Key: base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16]), Cost: 1, Policy: who.tier.leases, ID: rand.Text()}
	began := time.Now()
	answer, outcome, err := e.exact.guard.Take(q.ctx, now, e.now, e.exact.callerOf(who), call)
	dc.decision.noteCall(outcome, time.Since(began))
	e.checks.counterRefuses(now, outcome, err, &e.exact.guard)
	otherwise := e.exact.Outage
	switch outcome {
	case guardedcall.Answered:
		e.checks.counterAnswers(now, &e.exact.guard)
		if !answer.Admitted {
			return tooManyAtOnce(), false
		}
		ctx, receipt := context.WithoutCancel(q.ctx), answer.Receipt
		own := slots.NewPermit(func() {
			ctx, cancel := context.WithTimeout(ctx, e.exact.Deadline)
			defer cancel()
			lost := false
			_ = e.exact.giveBack(ctx, receipt, &lost) // else it ends by itself
		})
		if !e.shadow {
			dc.Context = own.EndAfter(dc.Context, g.MaxHold-leaseMargin, errHeldTooLong)
		}
		dc.decision.withExtras().permit = own
		return v, true
	case guardedcall.Contended:
		e.checks.counterAnswers(now, &e.exact.guard)
		if otherwise = e.exact.Contended; otherwise != FailOpen {
			return overloaded(), false
		}
	case guardedcall.Full:
		return noRoom(answer.Wait), false
	case guardedcall.Busy:
		return overloaded(), false
	case guardedcall.Failed:
		e.checks.warn(now, counterFailed, "error", err)
	case guardedcall.Down:
		e.checks.counterDown(now, e.exact.consequence(), err)
	}
	if dc.decision.Degraded = true; otherwise == FailClosed {
		return counterDown(), false
	}
	if !e.enter(now, q, dc, who, &credentials{}) {
		return tooManyAtOnce(), false
	}
	return v, true
}

// leaseMargin is how long before the end of a lease the request ends: what a handler has
// to notice it.
const leaseMargin = time.Second

// callerOf says whether who asks pays.
func (x *exactCounter) callerOf(who *subject) guardedcall.Caller {
	pays := who.id.kind != kindAddress
	if x.PayingTiers != nil {
		pays = slices.Contains(x.PayingTiers, who.tier.name)
	}
	if pays {
		return guardedcall.Payer
	}
	return guardedcall.Stranger
}
