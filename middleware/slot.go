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
	most := g.maxFor(q.who.tier.name)
	for i := range q.shown.own {
		if q.takeSlot(g.keyOf([]byte{kindOwn}, q.shown.own[i].own.ID[:]), most) {
			return true
		}
	}
	return q.takeSlot(g.keyOf(q.who.bytes), most)
}

// takeSlot gives the request a slot of this instance, if one of a tally is free.
func (q *call) takeSlot(key slots.Key, most int) bool {
	g, now := q.gate, q.now // and not q: the permit outlives the decision
	s := g.table.Try(q.at, key, most)
	if s == nil {
		return false
	}
	q.hold(func() { g.table.Leave(now(), s) }, g.CancelHeld, g.MaxHold)
	return true
}

// hold has the request hold a slot until its end, which is after most if it is ended.
func (q *call) hold(release func(), isEnded bool, most time.Duration) {
	permit := slots.NewPermit(release)
	if isEnded && !q.shadow {
		q.dc.Context = permit.EndAfter(q.dc.Context, most, errHeldTooLong)
	}
	q.dc.decision.withExtras().permit = permit
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
	key := sha256.Sum256(slices.Concat([]byte("tallystick/v1/slot\x00"), q.who.bytes))
	call := exact.Call{Key: base64.RawURLEncoding.EncodeToString(key[:16]), Cost: 1, Policy: q.who.tier.leases, ID: rand.Text()}
	began := time.Now()
	answer, outcome, err := q.exact.guard.Take(q.ctx, q.at, q.now, q.callerOf(), call)
	q.noteCall(time.Since(began), outcome, err)
	otherwise := q.exact.Outage
	switch outcome {
	case guardedcall.Answered:
		if !answer.Admitted {
			return tooManyAtOnce(), false
		}
		ctx, receipt, x := context.WithoutCancel(q.ctx), answer.Receipt, q.exact
		q.hold(func() {
			ctx, cancel := context.WithTimeout(ctx, x.Deadline)
			defer cancel()
			lost := false
			_ = x.giveBack(ctx, receipt, &lost) // else it ends by itself
		}, true, g.MaxHold-leaseMargin)
		return v, true
	case guardedcall.Contended:
		if otherwise = q.exact.Contended; otherwise != FailOpen {
			return overloaded(), false
		}
	case guardedcall.Full:
		return noRoom(answer.Wait), false
	case guardedcall.Busy:
		return overloaded(), false
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
