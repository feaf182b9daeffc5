// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"net/http"
	"time"
)

// decide decides a request, of HTTP or not, and fills dc: the decision, and the fields that
// tell the client. It returns the identity function's own refusal, if that was it.
//
// The order of the steps is the security argument:
//
//  1. Who asks. It is the cheapest question, and all that follows is made out to the
//     answer. A request by nobody ends here: a shared blank identity would let
//     strangers spend each other's quota.
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
// [engine.decideExact], [engine.decideWithWork].
func (e *engine) decide(now time.Time, q *question, dc *decisionContext) *Denial {
	d := &dc.decision
	d.engine, d.Cost = e, q.cost

	var who subject
	v, ok := e.identify(now, q, dc, &who)
	if !ok {
		e.concludeUncharged(dc, &v)
		return v.denial
	}
	d.tier = who.tier
	who.dry = q.dry
	if who.waited {
		now = e.now()
		dc.reply.Fields.Now = now.UnixMicro()
	}
	if price := e.hooks.priceOf(q); price != nil {
		if d.Cost, ok = e.price(now, q.r, price); !ok {
			e.concludeUncharged(dc, &verdict{reason: NegativeCost, status: http.StatusInternalServerError})
			return nil
		}
	}
	var shown credentials
	e.readTokens(now, q, &who, &shown)
	d.tokens, d.tokenErr = uint8(shown.accepted), shown.fault

	switch {
	case e.exact != nil:
		e.decideExact(now, q, dc, who, &shown)
	case e.challenge != nil:
		e.decideWithWork(now, q, dc, &who, &shown)
	default:
		if !e.enter(now, q, dc, &who, &shown) {
			e.refuseAtOnce(now, dc, &who, &shown, tooManyAtOnce())
			break
		}
		var c charged
		e.chargeShared(now, &who, &shown, d.Cost, &c)
		d.concludeCharge(&who, &c)
		dc.noteCharge(e, &c)
		e.answerCharge(now, dc, &who, &shown, &c)
	}
	if d.extras != nil && d.extras.Inherited > 0 {
		e.checks.warn(now, memoryFull)
	}
	if d.Saturated {
		e.checks.warn(now, salesFull)
	}
	if d.Reason == CostAboveQuota && q.r != nil && q.price == nil { // of a route it was told when it was mounted
		e.tellDear(now, who.tier, d.Cost)
	}
	return nil
}

// priceOf returns what prices a request: its route or, if that does not, Config.Cost. It is nil
// if neither does.
func (h *hooks) priceOf(q *question) func(*http.Request) int64 {
	if q.r == nil || q.price != nil {
		return q.price
	}
	return h.cost
}

// price returns what a request costs. It is not ok where the program is at fault.
func (e *engine) price(now time.Time, r *http.Request, of func(*http.Request) int64) (cost int64, ok bool) {
	if cost = of(r); cost < 0 {
		e.checks.warn(now, costNegative, "cost", cost)
		return cost, false
	}
	return cost, true
}

// noteCharge is charge for a request that was admitted by c, and notes what of it depends
// on the outcome.
func (dc *decisionContext) noteCharge(e *engine, c *charged) {
	if c.verdict.Admitted {
		dc.charge(c.own)
	}
	if p := c.pending; p != nil {
		p.now, p.freeStatuses, p.ctx = e.now, e.freeStatuses, dc.Context
		p.reissue = func(now time.Time) { e.reissueToken(now, dc) }
		dc.decision.withExtras().pending = p
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
func (e *engine) decideWithWork(now time.Time, q *question, dc *decisionContext, who *subject, shown *credentials) {
	d := &dc.decision
	e.challenge.readProofs(now, q, who, shown)
	d.noteProof(shown.proof.reason)

	if !e.enter(now, q, dc, who, shown) {
		e.challenge.proofs.note(shown.proof.reason)
		e.refuseAtOnce(now, dc, who, shown, tooManyAtOnce())
		return
	}

	c, asked := e.chargeByMode(now, who, shown, d.Cost)
	e.carriage.takeBackProofs(d, &shown.proof)

	var pass roomPass
	if e.room != nil && !(asked && c.verdict.Admitted) {
		pass = e.room.readRoomPass(now, who, shown, d.Cost)
		if room, ok := e.room.chargeRoom(now, who, &pass, d.Cost); ok {
			e.admitFromRoom(now, q, dc, who, shown, &pass, &room)
			return
		}
	}

	v, dear := proofWanted(), asked && who.tier.tooDear(d.Cost)
	if c.own != nil || !asked && e.challenge.sellsTallies() {
		who.tier = who.tier.pass // these are the quotas that the answer is about
	}
	if asked {
		v = verdictOf(&c.verdict)
		d.noteCharge(who, &c)
		dc.noteCharge(e, &c)
		e.challenge.noteLoad(now, q, dc, who, &c)
	}
	e.challenge.noteProofs(d, shown.proof.reason, v.reason)

	fields, offers := e.answerFieldsWithWork(now, who, shown, &c, asked), offerFields{}

	if v.helpedByProof(e.challenge.mode) && !dear && !e.shadow {
		v, offers.challenge = e.offerWork(now, d, who, v)
	}

	v.jitter()
	v.status = statusOfPage(q, dc, &v)
	d.conclude(&v)

	if e.room != nil && v.status != 0 && !e.shadow && q.r != nil && dc.wantsPage(q.r) {
		offers.roomCookie = e.ticketOf(now, d, who, pass)
	}
	e.answer(now, dc, who, shown, fields, offers)
}

// takeBackProofs has the answer remove the cookies of proofs that are of no use any more:
// else they would pile up until they end.
func (c *carriage) takeBackProofs(d *record, p *proof) {
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
func (e *engine) answerFieldsWithWork(now time.Time, who *subject, shown *credentials, c *charged, asked bool) (fields answerFields) {
	if asked {
		fields = e.answerFieldsOf(now, who, shown, c)
	}
	if c.own == nil && len(shown.own) > 0 {
		fields.tally = nil
		if p := shown.proof; p.opened {
			fields.own, fields.tally, fields.paid = &shown.own[p.index].own, &shown.own[p.index].tally, true
		}
	}
	return fields
}

// offerWork offers a challenge to a request that v refuses. It returns the verdict with the
// offer, and the field of the challenge.
func (e *engine) offerWork(now time.Time, d *record, who *subject, v verdict) (verdict, string) {
	o := e.challenge.offer(now, who)
	if o.challenge != nil {
		d.withExtras().Offered = o.challenge
	}
	return v.offering(o), o.field
}

// statusOfPage returns the status of v. A page that is opened is refused with 429 and not with
// 403, which to search engines is for ever: they would drop a page that was only guarded for a
// while. No 5xx, by which balancers would take an instance out that is refusing.
func statusOfPage(q *question, dc *decisionContext, v *verdict) int {
	if v.status == http.StatusForbidden && v.reason != CostAboveQuota && q.r != nil && dc.opensPage(q.r) {
		return http.StatusTooManyRequests
	}
	return v.status
}

// ticketOf issues the ticket that goes with the refusal of a page, and returns its cookie: none
// where no wait would help.
func (e *engine) ticketOf(now time.Time, d *record, who *subject, pass roomPass) string {
	issued, wait := e.room.issueTicket(now, who, pass, d.Cost)
	if wait <= 0 {
		return ""
	}
	d.withExtras().RoomWait = wait
	return e.carriage.roomCookie(now, who, &issued, &issued.tally)
}

// admitFromRoom concludes a request that the waiting room has admitted.
func (e *engine) admitFromRoom(now time.Time, q *question, dc *decisionContext, who *subject, shown *credentials, pass *roomPass, c *charged) {
	d := &dc.decision
	var offers offerFields
	if e.carriage.transport != MemoryOnly {
		next := e.room.nextPass(now, who, *pass, c, d.Cost)
		offers.roomCookie = e.carriage.roomCookie(now, who, &next, &c.tally)
	}
	who.tier = who.tier.room
	d.concludeCharge(who, c)
	dc.noteCharge(e, c)
	e.challenge.noteLoad(now, q, dc, who, c)
	d.FromWaitingRoom = true
	e.answer(now, dc, who, shown, answerFields{standings: &c.verdict}, offers)
}

// chargeByMode charges the tally that the mode means. It is not ok, and nothing is
// charged, if a proof is wanted first.
func (e *engine) chargeByMode(now time.Time, who *subject, shown *credentials, cost int64) (c charged, ok bool) {
	if e.challenge.mode == EveryRequest {
		return e.chargeProof(now, who, shown, cost)
	}
	return e.chargeBought(now, who, shown, cost)
}
