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
		e.concludeNobody(dc, &v)
		return v.denial
	}
	d.tier = who.tier
	who.dry = q.dry
	if e.customers != nil { // whose limits may have been waited for
		now = e.now()
		dc.reply.Fields.Now = now.UnixMicro()
	}
	if price := e.priceOf(q); price != nil {
		if d.Cost, ok = e.price(now, q.r, price); !ok {
			d.conclude(&verdict{reason: NegativeCost, status: http.StatusInternalServerError})
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
		if now, ok = e.enter(now, q, dc, &who, &shown); !ok {
			e.refuseAtOnce(now, dc, &who, &shown, tooManyAtOnce())
			break
		}
		var c charged
		e.chargeShared(now, &who, &shown, d.Cost, &c)
		d.concludeCharge(&who, &c)
		dc.noteCharge(e, &c)
		e.answerCharge(now, dc, &who, &shown, &c)
	}
	if d.aside != nil && d.aside.Inherited > 0 {
		e.report.inherited(now)
	}
	if d.Saturated {
		e.report.saturated(now)
	}
	return nil
}

// priceOf returns what prices a request: its route or, if that does not, Config.Cost. It is nil
// if neither does.
func (e *engine) priceOf(q *question) func(*http.Request) int64 {
	if q.r == nil || q.price != nil {
		return q.price
	}
	return e.cost
}

// price returns what a request costs. It is not ok where the program is at fault.
func (e *engine) price(now time.Time, r *http.Request, of func(*http.Request) int64) (cost int64, ok bool) {
	if cost = of(r); cost < 0 {
		e.report.warn(now, costNegative, "Config.Cost returned a negative cost; refused", "cost", cost)
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
		p.now, p.free, p.ctx = e.now, e.free, dc.Context
		p.tell = func(now time.Time) { e.tell(now, dc) }
		dc.decision.withAside().pending = p
	}
}

// decideWithWork decides a request from step 3 on, where a challenge may be offered:
//
//  3. What it shows besides tokens: proofs. The first good one is redeemed.
//  4. Charge. Own tallies come before the shared one, and where both refuse, the
//     waiting room before nobody. It can only admit.
//  5. The verdict, and what a refused client can do: work, or wait.
//  6. The answer.
func (e *engine) decideWithWork(now time.Time, q *question, dc *decisionContext, who *subject, shown *credentials) {
	d := &dc.decision
	e.readProofs(now, q, who, shown)
	d.noteProof(shown.proof.reason)
	now, ok := e.enter(now, q, dc, who, shown)
	if !ok {
		e.proofs.note(shown.proof.reason)
		e.refuseAtOnce(now, dc, who, shown, tooManyAtOnce())
		return
	}
	c, asked := e.chargeByMode(now, who, shown, d.Cost)
	if shown.proof.byCookie {
		for _, id := range shown.proof.used { // else they would pile up until they end
			a := dc.decision.withAside()
			a.cookies = append(a.cookies, e.proofCookie(id, "", 0))
		}
	}

	var pass roomPass
	if e.room != nil && !(asked && c.verdict.Admitted) {
		pass = e.readRoomPass(now, who, shown, d.Cost)
		if room, ok := e.chargeRoom(now, who, &pass, d.Cost); ok {
			e.admitFromRoom(now, q, dc, who, shown, &pass, &room)
			return
		}
	}

	v, tell, give := proofWanted(), told{}, given{}
	dear := asked && who.tier.tooDear(d.Cost)
	if c.own != nil || !asked && e.sellsTallies() {
		who.tier = who.tier.pass // these are the quotas that the answer is about
	}
	if asked {
		v, tell = verdictOf(&c.verdict), e.tellOf(now, who, &c)
		d.noteCharge(who, &c)
		dc.noteCharge(e, &c)
		e.challenge.noteLoad(now, q, dc, who, &c)
	}
	if c.own == nil && len(shown.own) > 0 {
		// The client keeps the token of the tally that it has paid for; a cookie has room
		// for one. The memory counts the shared one.
		tell.tally = nil
		if p := shown.proof; p.opened {
			tell.own, tell.tally, tell.paid = &shown.own[p.index].own, &shown.own[p.index].tally, true
		}
	}
	if v.reason == ProofReplayed {
		shown.proof.reason = ProofReplayed // also where the offer has another reason
	}
	d.noteProof(shown.proof.reason)
	e.proofs.note(shown.proof.reason)
	if v.helpedByProof(e.challenge.mode) && !dear && !e.shadow {
		o := e.offer(now, who)
		v = v.offering(o)
		if give.challenge = o.field; o.challenge != nil {
			d.withAside().Offered = o.challenge
		}
	}
	v.jitter()
	if v.status == http.StatusForbidden && v.reason != CostAboveQuota && q.r != nil && dc.opensPage(q.r) {
		// To search engines 403 is for ever: they would drop a page that was only guarded
		// for a while. No 5xx, by which balancers would take an instance out that is refusing.
		v.status = http.StatusTooManyRequests
	}
	d.conclude(&v)
	if e.room != nil && v.status != 0 && !e.shadow && q.r != nil && dc.wantsPage(q.r) {
		if issued, wait := e.issueTicket(now, who, pass, d.Cost); wait > 0 {
			d.withAside().RoomWait = wait
			give.roomCookie = e.roomCookie(now, who, &issued, &issued.tally)
		}
	}
	e.answer(now, dc, who, shown, tell, give)
}

// admitFromRoom concludes a request that the waiting room has admitted.
func (e *engine) admitFromRoom(now time.Time, q *question, dc *decisionContext, who *subject, shown *credentials, pass *roomPass, c *charged) {
	d := &dc.decision
	var give given
	if e.quiet != QuietNoToken {
		next := e.nextPass(now, who, *pass, c, d.Cost)
		give.roomCookie = e.roomCookie(now, who, &next, &c.tally)
	}
	who.tier = who.tier.room
	d.concludeCharge(who, c)
	dc.noteCharge(e, c)
	e.challenge.noteLoad(now, q, dc, who, c)
	d.FromWaitingRoom = true
	e.answer(now, dc, who, shown, told{standings: &c.verdict}, give)
}

// chargeByMode charges the tally that the mode means. It is not ok, and nothing is
// charged, if a proof is wanted first.
func (e *engine) chargeByMode(now time.Time, who *subject, shown *credentials, cost int64) (c charged, ok bool) {
	if e.challenge.mode == EveryRequest {
		return e.chargeProof(now, who, shown, cost)
	}
	return e.chargeBought(now, who, shown, cost)
}
