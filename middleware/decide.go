// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"net/http"
	"time"
)

// decide decides a request, of HTTP or not, and fills q.dc: the decision, and the fields that
// tell the client. It returns the identity function's own refusal, if that was it.
//
// The order of the steps is the security argument:
//
//  1. Who asks. It is the cheapest question, and all that follows is made out to the answer. A
//     request without an identity ends here: a shared blank identity would let strangers spend each
//     other's quota.
//  2. What it costs. A negative cost must not reach the arithmetic.
//  3. What it shows. A MAC comes before all parsing, at most four of them are computed,
//     and what is not ours is as if absent, with the same answer whatever is wrong.
//  4. Charge. The tally shown and the memory are merged by their maximum, so what is
//     shown can only make the limit stricter. Check and charge are one atomic step.
//  5. The verdict: what that means, and what a refused client can do about it.
//  6. The answer. It depends on the verdict and on the tally, and on nothing else that
//     was shown.
//
// A policy with an exact counter, or with a challenge, has steps of its own from 3 on:
// [call.decideExact], [call.decideWithWork].
func (q *call) decide() *Denial {
	d := &q.dc.decision
	d.engine, d.Cost = q.engine, q.cost

	v, ok := q.identify()
	q.checked = q.r != nil && q.checks.picks(q.at)
	if !ok {
		q.concludeUncharged(&v)
		return v.denial
	}
	d.tier = q.who.tier
	price := q.priced()
	if price != nil {
		if d.Cost, ok = q.costBy(price); !ok {
			q.concludeUncharged(&verdict{reason: NegativeCost, status: http.StatusInternalServerError})
			return nil
		}
	}
	if q.units != nil && !q.costUnits() {
		q.concludeUncharged(&verdict{reason: NegativeCost, status: http.StatusInternalServerError})
		return nil
	}
	if q.who.waited || price != nil || q.units != nil {
		q.readClock()
	}
	q.readTokens()
	d.tokens, d.tokenErr = uint8(q.shown.accepted), q.shown.fault

	switch {
	case q.exact != nil:
		q.decideExact()
	case q.challenge != nil:
		q.decideWithWork()
	default:
		if !q.enter() {
			q.refuseAtOnce(tooManyAtOnce())
			break
		}
		var c charged
		if q.untilHeard(func() { c = charged{}; q.chargeShared(d.Cost, &c) }) {
			q.refuseAtOnce(overloaded())
			break
		}
		d.concludeCharge(&q.who, &c)
		q.noteCharge(&c)
		q.answerCharge(&c)
	}
	if d.extras != nil && d.extras.Inherited > 0 {
		q.checks.warn(q.at, memoryFull)
	}
	if d.Saturated {
		q.checks.warn(q.at, salesFull)
	}
	if d.Reason == CostAboveQuota && q.r != nil && (q.price == nil || q.each != nil) { // of a route it was told when it was mounted
		q.tellPrice(q.at, q.who.tier, q.priceOf(d.Cost))
	}
	return nil
}

// priced returns what prices a request: its route or, if that does not, Config.Cost. It is nil
// if neither does.
func (q *call) priced() func(*http.Request) int64 {
	if q.r == nil || q.price != nil {
		return q.price
	}
	return q.hooks.cost
}

// costBy returns what a request costs. It is not ok where the program is at fault.
func (q *call) costBy(price func(*http.Request) int64) (cost int64, ok bool) {
	if cost = price(q.r); cost < 0 {
		q.checks.warn(q.at, costNegative, "cost", cost)
		return cost, false
	}
	return cost, true
}

// costUnits prices a request in each unit, unless it peeks. It is not ok where the program is at fault.
func (q *call) costUnits() (ok bool) {
	d := &q.dc.decision
	if d.Cost == 0 {
		return true
	}
	u, most := new(unitCosts), int64(0)
	for i := range q.who.tier.units {
		u.costs[i] = d.Cost
	}
	for _, unit := range q.units {
		cost := int64(1)
		if given, there := q.costs[unit.name]; there {
			cost = given
		} else if q.r != nil && unit.cost != nil {
			if cost, ok = q.costBy(unit.cost); !ok {
				return false
			}
		}
		for i := range q.who.tier.units {
			if has(unit.limits, i) {
				u.costs[i] = cost
			}
		}
	}
	for i := range q.who.tier.units {
		most = max(most, u.costs[i])
	}
	if most == 0 { // it peeks
		d.Cost = 0
		return true
	}
	d.withExtras().units, q.each = u, &u.costs
	return true
}

// noteCharge is charge for a request that was admitted by c, and notes what of it depends
// on the outcome.
func (q *call) noteCharge(c *charged) {
	dc, e := q.dc, q.engine
	if c.verdict.Admitted {
		dc.charge(c.own)
	}
	if p := c.heldCharge; p != nil {
		p.now, p.freeStatuses, p.ctx = e.now, e.freeStatuses, dc.Context
		p.reissue = func(now time.Time) { e.reissueToken(now, dc) }
		dc.decision.withExtras().heldCharge = p
	}
}

// decideWithWork decides a request from step 3 on, where a challenge may be offered.
//
// The order of the steps is the security argument:
//
//  1. Proofs. A proof is a credential like a token, so it is read before any choice of a
//     tally. The first good one is redeemed: the price is asked before there is a tally.
//  2. The slot. It comes before the charge: a request that finds none has spent nothing.
//  3. Charge, by mode. Own tallies come before the shared one. The cookies of the proofs
//     that are spent by it are taken back, whatever the answer.
//  4. The waiting room. It comes after a refusal and before the verdict: it can only admit.
//  5. The verdict. What was charged is noted with it, under the quotas that were asked, and
//     so is what became of the proofs: a replay is known only when it was to be charged.
//  6. What the answer carries. It is about the tally that was charged, so nothing that
//     follows changes it.
//  7. The offer of a challenge. It needs the verdict, for work that does not help is not
//     sold, and it may change it, where nothing is for sale.
//  8. The spread of the wait and the status of a page. They are for a verdict that is
//     final: the record gets no other.
//  9. The ticket. It goes with a page that is refused in the end, and is no way around 4.
//
// The answer comes last.
func (q *call) decideWithWork() {
	d := &q.dc.decision
	q.readProofs()
	d.noteProof(q.shown.proof.reason)

	if !q.enter() {
		q.challenge.proofs.note(q.shown.proof.reason)
		q.refuseAtOnce(tooManyAtOnce())
		return
	}

	var (
		c, room     charged
		asked, open bool
		pass        roomPass
	)
	busy := q.untilHeard(func() {
		if c, asked = q.chargeByMode(d.Cost); q.room != nil && !(asked && c.verdict.Admitted) && !q.waits() {
			pass = q.readRoomPass(d.Cost)
			room, open = q.chargeRoom(&pass, d.Cost)
		}
	})
	if !c.verdict.Admitted {
		q.memory.GiveBack(q.shown.proof.spend)
		busy = busy || q.shown.proof.busy
	}
	q.transport.takeBackProofs(d, &q.shown.proof)
	if open {
		q.admitFromRoom(&pass, &room)
		return
	}
	if busy {
		q.challenge.proofs.note(q.shown.proof.reason)
		q.refuseAtOnce(overloaded())
		return
	}

	v, dear := proofWanted(), asked && q.who.tier.tooDear(q.priceOf(d.Cost))
	if c.own != nil || !asked && q.challenge.sellsTallies() {
		q.who.tier = q.who.tier.pass // these are the quotas that the answer is about
	}
	if asked {
		v = verdictOf(&c.verdict)
		d.noteCharge(&q.who, &c)
		q.noteCharge(&c)
		q.noteLoad(&c)
	}
	q.challenge.noteProofs(d, q.shown.proof.reason, v.reason)

	fields, offers := q.answerFieldsWithWork(&c, asked), offerFields{}

	if v.helpedByProof(q.challenge.mode) && !dear && !q.shadow {
		v, offers.challenge = q.offerWork(d, v)
	}

	v.jitter()
	v.status = q.statusOfPage(&v)
	d.conclude(&v)

	if q.room != nil && v.status != 0 && !q.shadow && q.r != nil && q.dc.wantsPage(q.r) {
		offers.roomCookie = q.ticketOf(d, pass)
	}
	q.answer(fields, offers)
}

// takeBackProofs has the answer remove the cookies of proofs that are of no use any more:
// else they would pile up until they end.
func (c *transport) takeBackProofs(d *record, p *proof) {
	if !p.byCookie {
		return
	}
	for _, id := range p.used {
		a := d.withExtras()
		a.cookies = append(a.cookies, c.proofCookie(id, "", 0))
	}
}

// noteProofs notes why the last proof was not accepted. A replay is the reason also where
// the offer that follows has another.
func (c *challenger) noteProofs(d *record, reason, verdict Reason) {
	if verdict == ProofReplayed {
		reason = ProofReplayed
	}
	d.noteProof(reason)
	c.proofs.note(reason)
}

// answerFieldsWithWork returns the fields about a charge where tallies are bought. A client keeps the token of
// the tally that it has paid for, though the shared one was charged: a cookie has room for one,
// and the memory counts the shared one.
func (q *call) answerFieldsWithWork(c *charged, asked bool) (fields answerFields) {
	if asked {
		fields = q.answerFieldsOf(c)
	}
	if c.own == nil && len(q.shown.own) > 0 {
		fields.tally = nil
		if p := q.shown.proof; p.opened {
			fields.own, fields.tally, fields.paid = &q.shown.own[p.index].own, &q.shown.own[p.index].tally, true
		}
	}
	return fields
}

// offerWork offers a challenge to a request that v refuses. It returns the verdict with the
// offer, and the field of the challenge.
func (q *call) offerWork(d *record, v verdict) (verdict, string) {
	o := q.offer()
	if o.challenge != nil {
		d.withExtras().Offered = o.challenge
	}
	return v.offering(o), o.field
}

// statusOfPage returns the status of v. A page that is opened is refused with 429 and not with
// 403, which to search engines is for ever: they would drop a page that was only guarded for a
// while. No 5xx, by which balancers would take an instance out that is refusing.
func (q *call) statusOfPage(v *verdict) int {
	if v.status == http.StatusForbidden && v.reason != CostAboveQuota && q.r != nil && q.dc.opensPage(q.r) {
		return http.StatusTooManyRequests
	}
	return v.status
}

// ticketOf issues the ticket that goes with the refusal of a page, and returns its cookie: none
// where no wait would help.
func (q *call) ticketOf(d *record, pass roomPass) string {
	issued, wait := q.issueTicket(pass, d.Cost)
	if wait <= 0 {
		return ""
	}
	d.withExtras().RoomWait = wait
	return q.roomCookie(&issued, &issued.tally)
}

// admitFromRoom concludes a request that the waiting room has admitted.
func (q *call) admitFromRoom(pass *roomPass, c *charged) {
	d := &q.dc.decision
	var offers offerFields
	if q.transport.kind != MemoryOnly {
		next := q.nextPass(*pass, c, d.Cost)
		offers.roomCookie = q.roomCookie(&next, &c.tally)
	}
	q.who.tier = q.who.tier.room
	d.concludeCharge(&q.who, c)
	q.noteCharge(c)
	q.noteLoad(c)
	d.FromWaitingRoom = true
	q.answer(answerFields{standings: &c.verdict}, offers)
}

// chargeByMode charges the tally that the mode means. It is not ok, and nothing is
// charged, if a proof is wanted first.
func (q *call) chargeByMode(cost int64) (c charged, ok bool) {
	if q.challenge.mode == EveryRequest {
		return q.chargeProof(cost)
	}
	return q.chargeBought(cost)
}
