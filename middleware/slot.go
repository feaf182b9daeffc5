// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"time"

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
	own, dear := e.ownCandidates(who, shown, cost), who.tier.tooDear(cost)
	for i := range own {
		if !dear && e.memory.Peek(now, who.tier.pass.policy, &own[i], cost).Admitted {
			return true
		}
	}
	shared := e.sharedCandidate(who, shown)
	mayShare := e.challenge == nil || !e.challenge.workFirst(now) || dear && len(own) > 0
	if mayShare && e.memory.Peek(now, who.tier.policy, &shared, cost).Admitted {
		return true
	}
	if e.room == nil {
		return false
	}
	pass := e.readRoomPass(now, who, shown, cost)
	if !pass.admits(now) {
		return false
	}
	room := e.roomCandidate(who, &pass)
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
	own := slots.NewPlace(func() { g.table.Leave(e.now(), s) })
	if g.CancelHeld && !e.shadow {
		dc.Context = own.EndAfter(dc.Context, g.MaxHold, ErrHeldTooLong)
	}
	dc.decision.withAside().place = own
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
