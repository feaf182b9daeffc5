// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	mathrand "math/rand/v2"
	"net/http"
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
//  5. The verdict: the counter's or, in an outage, what the policy has chosen for it.
//     Load is no outage, so that nobody can flood the way into the fallback.
//  6. The answer, and what settling changes.
//
// who is a copy: the compiler takes it for what outlives the decision, with the call.
func (e *engine) decideExact(now time.Time, q *question, dc *decisionContext, who subject, shown *credentials) {
	x, d := e.exact, &dc.decision
	switch {
	case q.early():
		// TLS early data may be replayed by anybody, and each replay would be
		// charged: RFC 8470 section 5.2.
		e.concludeExact(now, dc, &who, shown, verdict{reason: TooEarly, status: http.StatusTooEarly}, answerFields{})
		return
	case who.tier.policy.Capacity() < d.Cost:
		e.concludeExact(now, dc, &who, shown, verdictOf(&limiter.Verdict{Impossible: true}), answerFields{})
		return
	}
	c := e.exactCall(&who, shown, d.Cost)
	known := x.recall(now, &c, shown, d.Cost)
	if known.stale && !who.dry {
		if answered := x.refusals.Ask(c.refusal, x.Deadline); answered != nil {
			defer answered()
		} else {
			now = e.now()
			dc.reply.Fields.Now = now.UnixMicro()
			known = x.recall(now, &c, shown, d.Cost)
		}
	}
	if known.refuses {
		e.concludeRefusal(now, dc, &who, shown, &c, &known)
		return
	}
	if v, ok := e.enterExact(now, q, dc, &who); !ok {
		e.refuseAtOnce(now, dc, &who, shown, v)
		return
	}
	if x.changesOwners {
		c.Known = e.known(now, &who, &c)
	}
	began := time.Now() // of the monotonic clock: how long a call takes is no date
	v, outcome, err := e.exact.askCounter(now, q, &who, &c, d.Cost)
	d.noteCall(outcome, time.Since(began))
	e.checks.counterRefuses(now, outcome, err, &x.guard)
	switch outcome {
	case guardedcall.Answered:
		e.checks.counterAnswers(now, &x.guard)
		e.concludeAnswer(now, dc, &who, shown, &c, &v, &known)
	case guardedcall.Full:
		e.checks.counterAnswers(now, &x.guard)
		e.concludeExact(now, dc, &who, shown, noRoom(v.Wait), answerFields{})
	case guardedcall.Contended:
		e.checks.counterAnswers(now, &x.guard)
		e.concludeContended(now, dc, &who, shown, &c)
	case guardedcall.Busy:
		e.concludeExact(now, dc, &who, shown, overloaded(), answerFields{})
	case guardedcall.Failed:
		e.checks.warn(now, counterFailed, "error", err)
		e.concludeOutage(now, dc, &who, shown, &c)
	case guardedcall.Down:
		e.checks.counterDown(now, x.consequence(), err)
		e.concludeOutage(now, dc, &who, shown, &c)
	case guardedcall.NotAsked:
		e.concludeOutage(now, dc, &who, shown, &c)
	}
}

// exactCall names what is counted for a request: of an address with shards, in one of them.
func (e *engine) exactCall(who *subject, shown *credentials, cost int64) exactCall {
	return e.shardCall(who, shown, cost, mathrand.Int64N(e.exact.shardsOf(who)))
}

// shardsOf returns how many keys are counted for a subject.
func (x *exactCounter) shardsOf(who *subject) int64 {
	if who.id.kind != kindAddress {
		return 1
	}
	return x.shards
}

// shardCall names what is counted for a request. Counters get a hash: engines are read
// by other people than the program is.
func (e *engine) shardCall(who *subject, shown *credentials, cost, shard int64) exactCall {
	h := sha256.New()
	h.Write([]byte("tallystick/v1/exact\x00"))
	h.Write(who.bytes)
	quotas := who.tier.exact
	if e.exact.shardsOf(who) > 1 {
		quotas = who.tier.shard
		h.Write([]byte{0, byte(shard)})
	}
	sum := h.Sum(nil)
	c := exactCall{fallback: e.sharedCandidate(who, shown)}
	c.Call = exact.Call{Key: base64.RawURLEncoding.EncodeToString(sum[:16]), Cost: max(cost, 1), Policy: quotas}
	// A client that moves to a larger tier is not what was refused before.
	for i := range c.refusal {
		c.refusal[i] = sum[16+i] ^ who.tier.quotaHash[i]
	}
	return c
}

// known returns what token and memory know of what a counter is asked for, whose account may begin anew. It is
// never more than was used: nothing of a memory that was full, where tallies go on from the counts of others; of
// an address with shards nothing, for a tally is that of all; and of a bucket nothing where the fallback has a
// part of its quota, which takes longer to pay a debt.
func (e *engine) known(now time.Time, who *subject, c *exactCall) (known []exact.Used) {
	if e.exact.shardsOf(who) > 1 {
		return nil
	}
	f, p := c.fallback, who.tier.fallback
	f.Networks = nil
	tally, _ := e.memory.Take(now, p, &f, 0)
	if e.memory.Lends() {
		tally, _ = p.Step(now, f.Shown, 0)
	}
	for i := range p.Len() {
		s := tally[i]
		window := p.Limit(i).Burst == 0
		if window && s.Cur == 0 && s.Prev != 0 { // an owner whose clock is behind may have counted it in a window that goes on
			s = limiter.State{At: s.At - 1, Cur: s.Prev}
		}
		if window && s.Cur|s.Prev != 0 || !window && s.At != 0 && p.Limit(i).Quota == c.Policy.Limit(i).Quota {
			known = append(known, exact.Used{ID: c.Policy.ID(i), At: s.At, Cur: s.Cur, Prev: s.Prev})
		}
	}
	return known
}

// askCounter has the counter decide. A cost of 0 peeks, and is always admitted.
func (x *exactCounter) askCounter(now time.Time, q *question, who *subject, c *exactCall, cost int64) (exact.Verdict, guardedcall.Outcome, error) {
	caller := x.callerOf(who)
	if cost == 0 || who.dry {
		v, outcome, err := x.guard.Peek(q.ctx, now, x.now, caller, c.Call)
		v.Admitted = v.Admitted || cost == 0
		return v, outcome, err
	}
	c.ID = rand.Text() // what the client calls its request never is one
	return x.guard.Take(q.ctx, now, x.now, caller, c.Call)
}

// concludeAnswer concludes a request that the counter has decided. A refusal is
// remembered, but not where something was given back meanwhile. An admission ends what is
// remembered.
func (e *engine) concludeAnswer(now time.Time, dc *decisionContext, who *subject, shown *credentials, c *exactCall, v *exact.Verdict, known *foreknown) {
	cost, is := dc.decision.Cost, limiter.VerdictAs[limiter.Verdict](v.Verdict)
	fields := answerFields{standings: &is}
	switch {
	case v.Admitted:
		if known.stale {
			e.exact.refusals.Forget(c.refusal)
		}
		tally := c.fallback.Shown
		if cost > 0 && !who.dry {
			at := e.exact.chargedAt(now, now, &v.Receipt)
			tally = e.memory.Record(at, who.tier.fallback, &c.fallback, cost)
			if e.signsLess() {
				var forgetful *limiter.Memory
				tally = forgetful.Record(at, who.tier.fallback, &c.fallback, cost)
			}
			dc.decision.withExtras().counted = &counted{call: c.Call, receipt: v.Receipt, at: at, refusal: c.refusal}
			dc.charge(nil)
		}
		tally[e.exact.stamp] = limiter.State{}
		fields.tally = &tally
	case !who.dry:
		said := guardedcall.Refusal{Cost: cost, Said: now.UnixMicro(), Until: now.Add(v.Wait).UnixMicro()}
		said.Limit, said.Remaining = longest(&is, len(who.tier.names))
		if e.exact.refusals.Note(c.refusal, said, known.givenBack) {
			fields.tally = e.exact.stamped(now, c, cost, &said)
		}
	}
	e.concludeExact(now, dc, who, shown, verdictOf(&is), fields)
}

// concludeRefusal concludes a request that was refused before, without a call. A client
// that does not know yet is told by its token.
func (e *engine) concludeRefusal(now time.Time, dc *decisionContext, who *subject, shown *credentials, c *exactCall, known *foreknown) {
	var fields answerFields
	if !known.clientKnows {
		fields.tally = e.exact.stamped(now, c, dc.decision.Cost, &known.Refusal)
	}
	v := limiter.Verdict{Wait: wholeSeconds(known.Left(now))}
	if standings(&v, &known.Refusal, len(who.tier.names)) {
		fields.standings = &v
	}
	e.concludeExact(now, dc, who, shown, verdictOf(&v), fields)
}

// concludeOutage concludes a request that the counter did not decide.
func (e *engine) concludeOutage(now time.Time, dc *decisionContext, who *subject, shown *credentials, c *exactCall) {
	switch {
	case dc.decision.Cost > 0 && e.exact.Outage == FailClosed:
		dc.decision.Degraded = true
		e.concludeExact(now, dc, who, shown, counterDown(), answerFields{})
	default:
		e.concludeFallback(now, dc, who, shown, c)
	}
}

// concludeContended concludes a request whose call has lost every race for its key. The
// client may be who hammers it: it gets the fallback only where the program has said so.
func (e *engine) concludeContended(now time.Time, dc *decisionContext, who *subject, shown *credentials, c *exactCall) {
	if e.exact.Contended != FailOpen {
		e.concludeExact(now, dc, who, shown, overloaded(), answerFields{})
		return
	}
	e.concludeFallback(now, dc, who, shown, c)
}

// concludeFallback concludes a request by token and memory, with the fallback's quotas.
func (e *engine) concludeFallback(now time.Time, dc *decisionContext, who *subject, shown *credentials, c *exactCall) {
	d := &dc.decision
	d.Degraded = true
	if d.Cost == 0 { // a peek is always admitted, and there is nothing to see
		e.concludeExact(now, dc, who, shown, verdict{reason: WithinLimits}, answerFields{})
		return
	}
	tally, v := e.takeFrom(now, who.tier.fallback, who, &c.fallback, d.Cost)
	capOutageWait(&v)
	if v.Admitted {
		dc.charge(nil)
	}
	fields := answerFields{standings: &v}
	if e.signsLess() {
		if v.Admitted {
			var forgetful *limiter.Memory
			tally = forgetful.Record(now, who.tier.fallback, &c.fallback, d.Cost)
			fields.tally = &tally
		}
	} else if v.Admitted || shown.good() && who.tier.fallback.Exceeds(now, tally, c.fallback.Shown) {
		fields.tally = &tally
	}
	d.noteInherited(v.Inherited)
	e.concludeExact(now, dc, who, shown, verdictOf(&v), fields)
}

// concludeExact writes the decision and the answer.
func (e *engine) concludeExact(now time.Time, dc *decisionContext, who *subject, shown *credentials, v verdict, fields answerFields) {
	v.jitter()
	dc.decision.conclude(&v)
	if fields.standings != nil {
		dc.decision.noteLimits(who, fields.standings)
	}
	e.answer(now, dc, who, shown, fields, offerFields{})
}
