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
func (q *call) enter() (ok bool) {
	g := q.gate
	if g == nil || q.r == nil {
		return true
	}
	n := g.maxFor(q.who.tier.name)
	for i := range q.shown.own {
		if s := g.table.Try(q.at, g.keyOf([]byte{kindOwn}, q.shown.own[i].own.ID[:]), n); s != nil {
			q.hold(s)
			return true
		}
	}
	s := g.table.Try(q.at, g.keyOf(q.who.bytes), n)
	if s == nil {
		return false
	}
	q.hold(s)
	return true
}

// hold gives the request a slot of this instance.
func (q *call) hold(s *slots.Slot) {
	g, now := q.gate, q.now // and not q: the permit outlives the decision
	own := slots.NewPermit(func() { g.table.Leave(now(), s) })
	if g.CancelHeld && !q.shadow {
		q.dc.Context = own.EndAfter(q.dc.Context, g.MaxHold, errHeldTooLong)
	}
	q.dc.decision.withExtras().permit = own
}

// refuseAtOnce concludes a request for which there is no slot. It was charged nothing, so
// the answer carries no more than the token of a tally that it has just bought.
func (q *call) refuseAtOnce(v verdict) {
	var fields answerFields
	if p := &q.shown.proof; p.opened {
		fields.own, fields.tally, fields.paid = &q.shown.own[p.index].own, &q.shown.own[p.index].tally, true
	}
	q.dc.decision.conclude(&v)
	q.answer(fields, offerFields{})
}

// enterExact leases a slot from the counter, and reports whether there is one; if not, v is what
// becomes of the request. A refusal is not remembered, because it is not known when a request ends.
func (q *call) enterExact() (v verdict, ok bool) {
	g := q.gate
	if g == nil || q.r == nil {
		return v, true
	}
	h := sha256.New()
	h.Write([]byte("tallystick/v1/slot\x00"))
	h.Write(q.who.bytes)
	call := exact.Call{Key: base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16]), Cost: 1, Policy: q.who.tier.leases, ID: rand.Text()}
	began := time.Now()
	answer, outcome, err := q.exact.guard.Take(q.ctx, q.at, q.now, q.callerOf(), call)
	q.dc.decision.noteCall(outcome, time.Since(began))
	q.checks.counterRefuses(q.at, outcome, err, &q.exact.guard)
	otherwise := q.exact.Outage
	switch outcome {
	case guardedcall.Answered:
		q.checks.counterAnswers(q.at, &q.exact.guard)
		if !answer.Admitted {
			return tooManyAtOnce(), false
		}
		ctx, receipt, x := context.WithoutCancel(q.ctx), answer.Receipt, q.exact
		own := slots.NewPermit(func() {
			ctx, cancel := context.WithTimeout(ctx, x.Deadline)
			defer cancel()
			lost := false
			_ = x.giveBack(ctx, receipt, &lost) // else it ends by itself
		})
		if !q.shadow {
			q.dc.Context = own.EndAfter(q.dc.Context, g.MaxHold-leaseMargin, errHeldTooLong)
		}
		q.dc.decision.withExtras().permit = own
		return v, true
	case guardedcall.Contended:
		q.checks.counterAnswers(q.at, &q.exact.guard)
		if otherwise = q.exact.Contended; otherwise != FailOpen {
			return overloaded(), false
		}
	case guardedcall.Full:
		return noRoom(answer.Wait), false
	case guardedcall.Busy:
		return overloaded(), false
	case guardedcall.Failed:
		q.checks.warn(q.at, counterFailed, "error", err)
	case guardedcall.Down:
		q.checks.counterDown(q.at, q.exact.consequence(), err)
	}
	if q.dc.decision.Degraded = true; otherwise == FailClosed {
		return counterDown(), false
	}
	if !q.enter() {
		return tooManyAtOnce(), false
	}
	return v, true
}

// leaseMargin is how long before the end of a lease the request ends: what a handler has
// to notice it.
const leaseMargin = time.Second

// callerOf says whether the client pays.
func (q *call) callerOf() guardedcall.Caller {
	pays := q.who.id.kind != kindAddress
	if q.exact.PayingTiers != nil {
		pays = slices.Contains(q.exact.PayingTiers, q.who.tier.name)
	}
	if pays {
		return guardedcall.Payer
	}
	return guardedcall.Stranger
}
