// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
)

// decideExact decides a request from step 4 on, where a counter is authoritative:
//
//  4. A refusal that is remembered refuses without a call, for a while. Then one request asks
//     again, and others of its key wait for that answer. Else the counter decides. Its
//     verdict counts; what token and memory hold serves the fallback alone.
//  5. The verdict: the counter's or, in an outage, what the policy has chosen for it. Load is no
//     outage, so that no flood opens the way into the fallback.
//  6. The answer, and what settling changes.
func (q *call) decideExact() {
	x, d := q.exact, &q.dc.decision
	switch {
	case q.early():
		// An attacker may replay TLS early data, and each replay would be charged: RFC 8470 section
		// 5.2.
		q.concludeExact(verdict{reason: TooEarly, status: http.StatusTooEarly}, answerFields{})
		return
	case q.who.tier.policy.TooDear(q.priceOf(d.Cost)) >= 0:
		q.concludeExact(verdictOf(&limiter.Verdict{Impossible: true}), answerFields{})
		return
	}
	c := q.exactCall(d.Cost)
	known := q.findRefusal(&c, d.Cost)
	if known.stale && !q.dry {
		if answered := x.refusals.Ask(c.refusal, x.Deadline); answered != nil {
			defer answered()
		} else {
			q.readClock()
			known = q.findRefusal(&c, d.Cost)
		}
	}
	if known.refuses {
		q.concludeRefusal(&c, &known)
		return
	}
	if v, ok := q.enterExact(); !ok {
		q.refuseAtOnce(v)
		return
	}
	began := time.Now() // of the monotonic clock: how long a call takes is no date
	v, outcome, err := q.askCounter(&c, d.Cost)
	q.readClock()
	q.noteCall(time.Since(began), outcome, err)
	switch outcome {
	case guardedcall.Answered:
		q.concludeAnswer(&c, &v, &known)
	case guardedcall.Full:
		q.concludeExact(noRoom(v.Wait), answerFields{})
	case guardedcall.Contended:
		if x.Contended == FailOpen {
			q.concludeFallback(&c)
		} else { // the client itself may hammer the key
			q.concludeExact(overloaded(), answerFields{})
		}
	case guardedcall.Busy:
		q.concludeExact(overloaded(), answerFields{})
	default:
		q.concludeOutage(&c)
	}
}

// exactCall names what is counted for a request. Counters get a hash: engines are read
// by other people than the program is.
func (q *call) exactCall(cost int64) exactCall {
	sum := sha256.Sum256(slices.Concat([]byte("tallystick/v1/exact\x00"), q.who.bytes))
	f := q.sharedCandidate() // whose networks lie in q: the call outlives q, which is on the stack
	c := exactCall{fallback: limiter.Candidate{Key: f.Key, Provider: f.Provider, Shown: f.Shown, Costs: q.each, Networks: append([]limiter.Network(nil), f.Networks...)}}
	c.Call = exact.Call{Key: base64.RawURLEncoding.EncodeToString(sum[:16]), Cost: max(cost, 1), Policy: q.who.tier.exact}
	if q.each != nil && cost > 0 {
		c.Costs = *q.each
		c.Cost = slices.Max(c.Costs[:])
	}
	// A client that moves to a larger tier is not what was refused before.
	for i := range c.refusal {
		c.refusal[i] = sum[16+i] ^ q.who.tier.quotaHash[i]
	}
	return c
}

// askCounter has the counter decide. A cost of 0 peeks, and is always admitted.
func (q *call) askCounter(c *exactCall, cost int64) (exact.Verdict, guardedcall.Outcome, error) {
	caller := q.callerOf()
	if cost == 0 || q.dry {
		v, outcome, err := q.exact.guard.Peek(q.ctx, q.at, q.now, caller, c.Call)
		v.Admitted = v.Admitted || cost == 0
		return v, outcome, err
	}
	c.ID = rand.Text() // what the client calls its request never is one
	return q.exact.guard.Take(q.ctx, q.at, q.now, caller, c.Call)
}

// concludeAnswer concludes a request that the counter has decided. A refusal is
// remembered, but not where something was given back meanwhile. An admission ends what is
// remembered.
func (q *call) concludeAnswer(c *exactCall, v *exact.Verdict, known *cachedRefusal) {
	cost, is := q.dc.decision.Cost, limiter.VerdictAs[limiter.Verdict](v.Verdict)
	fields := answerFields{standings: &is}
	switch {
	case v.Admitted:
		if known.stale {
			q.exact.refusals.Forget(c.refusal)
		}
		tally := c.fallback.Shown
		if cost > 0 && !q.dry {
			tally = q.memory.Record(q.at, q.who.tier.fallback, &c.fallback, cost)
			q.dc.decision.withExtras().exactCharge = &exactCharge{call: c.Call, receipt: v.Receipt, at: q.at, refusal: c.refusal}
			q.dc.charge(nil)
		}
		tally[q.exact.stamp] = limiter.State{}
		fields.tally = &tally
	case !q.dry:
		said := guardedcall.Refusal{Said: q.at.UnixMicro(), Until: q.at.Add(v.Wait).UnixMicro()}
		said.Limit, said.Remaining = longest(&is, len(q.who.tier.names))
		said.Cost = q.priceOf(cost).Of(int(said.Limit))
		if q.exact.refusals.Note(c.refusal, said, known.givenBack) {
			fields.tally = q.stamped(c, cost, &said)
		}
	}
	q.concludeExact(verdictOf(&is), fields)
}

// concludeRefusal concludes a request that was refused before, without a call. A client
// that does not know yet is told by its token.
func (q *call) concludeRefusal(c *exactCall, known *cachedRefusal) {
	var fields answerFields
	if !known.clientKnows {
		fields.tally = q.stamped(c, q.dc.decision.Cost, &known.Refusal)
	}
	v := limiter.Verdict{Wait: wholeSeconds(known.Left(q.at))}
	if standings(&v, &known.Refusal, len(q.who.tier.names)) {
		fields.standings = &v
	}
	q.concludeExact(verdictOf(&v), fields)
}

// concludeOutage concludes a request that the counter did not decide.
func (q *call) concludeOutage(c *exactCall) {
	if q.dc.decision.Cost > 0 && q.exact.Outage == FailClosed {
		q.dc.decision.Degraded = true
		q.concludeExact(counterDown(), answerFields{})
		return
	}
	q.concludeFallback(c)
}

// concludeFallback concludes a request by token and memory, with the fallback's quotas.
func (q *call) concludeFallback(c *exactCall) {
	d := &q.dc.decision
	d.Degraded = true
	if d.Cost == 0 { // a peek is always admitted, and there is nothing to see
		q.concludeExact(verdict{reason: WithinLimits}, answerFields{})
		return
	}
	tally, v := q.takeFrom(q.who.tier.fallback, &c.fallback, d.Cost)
	if v.Impossible { // above the part of an instance; the counter may admit it
		q.concludeExact(counterDown(), answerFields{})
		return
	}
	capOutageWait(&v)
	if v.Admitted {
		q.dc.charge(nil)
	}
	fields := answerFields{standings: &v}
	if v.Admitted || q.shown.good() && q.who.tier.fallback.Exceeds(q.at, tally, c.fallback.Shown) {
		fields.tally = &tally
	}
	d.noteInherited(v.Inherited)
	q.concludeExact(verdictOf(&v), fields)
}

// concludeExact writes the decision and the answer.
func (q *call) concludeExact(v verdict, fields answerFields) {
	v.jitter()
	q.dc.decision.conclude(&v)
	if fields.standings != nil {
		q.dc.decision.noteLimits(&q.who, fields.standings)
	}
	q.answer(fields, offerFields{})
}
