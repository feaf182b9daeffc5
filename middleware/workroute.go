// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"net/http"
	"time"
)

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
