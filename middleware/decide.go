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
