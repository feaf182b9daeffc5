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
// ok if none is free, and returns the time, which is a later one if the request has waited.
func (e *engine) enter(now time.Time, q *question, dc *decisionContext, who *subject, shown *credentials) (time.Time, bool) {
	g := e.gate
	if g == nil || q.r == nil {
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
	if s == nil && g.Queue > 0 && !e.shadow && e.wouldPass(now, who, shown, dc.decision.Cost) {
		ctx, cancel := context.WithTimeout(q.ctx, g.MaxHold)
		s, _ = g.table.Wait(ctx, e.now, first, n, g.networkOf(who, shared))
		cancel()
		now = e.now()
		dc.reply.Fields.Now = now.UnixMicro() // when it is charged, and so from where it is given back
		shown.dropEnded(now)
	}
	if s == nil {
		return now, false
	}
	e.hold(now, dc, s)
	return now, true
}

// wouldPass reports whether a request may stand in line: whether it would be admitted if it
// were its turn now. What has no proof, or is over its limits, costs nothing to send, and
// would take the places of those who share the line with it.
func (e *engine) wouldPass(now time.Time, who *subject, shown *credentials, cost int64) bool {
	if e.challenge != nil && e.challenge.mode == EveryRequest && !shown.proof.good {
		return false
	}
	own, dear := e.ownCandidates(shown), who.tier.tooDear(cost)
	for i := range own {
		if !dear && e.memory.Peek(now, who.tier.pass.policy, &own[i], cost).Admitted {
			return true
		}
	}
	shared := e.sharedCandidate(who, shown)
	mayShare := e.challenge == nil || !e.challenge.workFirst(now, who) || dear && len(own) > 0
	if mayShare && e.memory.Peek(now, who.tier.policy, &shared, cost).Admitted {
		return true
	}
	if e.room == nil {
		return false
	}
	pass := e.room.readRoomPass(now, who, shown, cost)
	if !pass.admits(now) {
		return false
	}
	room := e.room.roomCandidate(who, &pass)
	return e.memory.Peek(now, who.tier.room.policy, &room, cost).Admitted
}

// dropEnded forgets the tallies that have ended while the request stood in line. The memory
// knows them no more, and would count from zero.
func (c *credentials) dropEnded(now time.Time) {
	kept, p := c.own[:0], &c.proof
	for i := range c.own {
		if restOf(now, &c.own[i].own) > 0 {
			if p.opened && p.index == i {
				p.index = len(kept)
			}
			kept = append(kept, c.own[i])
		} else if p.opened && p.index == i {
			p.opened = false
		}
	}
	c.own = kept
}

// hold gives the request a slot of this instance.
func (e *engine) hold(now time.Time, dc *decisionContext, s *slots.Slot) {
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
	if _, ok = e.enter(now, q, dc, who, &credentials{}); !ok {
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
