// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
)

// Check and charge of one tally, all its limits and networks together, are one atomic
// step in memory. Which tally is charged is decided here.

// chargeShared charges the tally that all clients of the identity share.
func (q *call) chargeShared(cost int64, c *charged) {
	f := q.sharedCandidate()
	q.take(&f, cost, c)
}

// take charges the shared tally as it is given, and fills in c, which is zero.
func (q *call) take(f *limiter.Candidate, cost int64, c *charged) {
	switch {
	case q.outcomes != nil:
		c.tally, c.verdict, c.heldCharge = q.outcomes.take(q.at, q.memory, q.who.tier, f, cost, q.dry)
	case q.dry:
		c.tally, c.verdict = f.Shown, q.memory.Peek(q.at, q.who.tier.policy, f, cost)
	default:
		q.memory.TakeInto(q.at, q.who.tier.policy, f, cost, &c.tally, &c.verdict)
	}
	if !c.verdict.Admitted {
		c.shown = f.Shown
	}
	q.noteWait(&c.verdict, cost, f.Waits)
}

// takeFrom charges a tally in memory or, where nothing is to be charged, says what that
// would come to.
func (q *call) takeFrom(p *limiter.Policy, f *limiter.Candidate, cost int64) (limiter.Tally, limiter.Verdict) {
	if q.dry {
		return f.Shown, q.memory.Peek(q.at, p, f, cost)
	}
	return q.memory.Take(q.at, p, f, cost)
}

// choose is takeFrom for the tally with most left of several.
func (q *call) choose(p *limiter.Policy, list []limiter.Candidate, cost int64) (best int, tally limiter.Tally, v limiter.Verdict) {
	if !q.dry {
		best, tally, v = q.memory.Choose(q.at, p, list, cost)
		for i := range list {
			q.noteWait(&v, cost, list[i].Waits)
		}
		return best, tally, v
	}
	best, most := -1, int64(0)
	for i := range list {
		next := q.memory.Peek(q.at, p, &list[i], cost)
		left := next.Least(p.Len())
		switch {
		case best < 0 || next.Admitted && !v.Admitted:
		case next.Admitted != v.Admitted, left <= most && next.Wait >= v.Wait, next.Wait > v.Wait:
			continue
		}
		best, most, tally, v = i, left, list[i].Shown, next
	}
	return best, tally, v
}

// sharedCandidate returns the tally that all clients of the identity share.
func (q *call) sharedCandidate() (f limiter.Candidate) {
	f.Shown, f.Hasty, f.Costs = q.shown.shared, q.shadow, q.each
	if q.memory != nil {
		f.Key, f.Provider = q.who.key, q.who.id.provider()
		networks := q.who.networks[:2]
		if !q.who.wide() {
			networks = networks[2:]
		}
		f.Networks = networks
	}
	return f
}

// ownCandidates lists the own tallies that may be charged: all that are shown or,
// where a proof has opened one, that one alone.
func (q *call) ownCandidates() []limiter.Candidate {
	own := q.shown.own
	if q.shown.proof.opened {
		own = own[q.shown.proof.index : q.shown.proof.index+1]
	}
	list := make([]limiter.Candidate, len(own))
	for i := range own {
		list[i] = q.ownCandidate(&own[i].own)
		list[i].Shown, list[i].Hasty, list[i].Costs = own[i].tally, q.shadow, q.each
	}
	return list
}

// ownCandidate returns an own tally as it may be charged. An instance that has never met a tally has to
// believe that nothing was used of it. No rule makes what one client may use depend on what its neighbours
// do: all that were tried, such as a ceiling for the tallies of an address, let a neighbour lock out clients
// that have paid.
func (e *engine) ownCandidate(own *token.Own) limiter.Candidate {
	return limiter.Candidate{Key: ownKey(e.memory, own.ID), Ends: time.Unix(own.Expires, 0)}
}

// chargeBought charges an own tally or the shared one, as the mode permits. It is not
// ok, and nothing is charged, if a proof is wanted first.
//
// Own tallies come before the shared one, which is for clients that have none or have used it up:
// all clients of the address share its quota, and the answer to a client that has paid must be a
// token of the tally that it has paid for. Among own tallies the one with most left is charged, so
// that a spent token, planted or not, locks no client out.
//
// An own tally is a pass: where a limit is longer than PassTime it has a part of the quota. A
// request that costs more than a pass has is charged to the shared tally, in [Newcomers] too, for a
// client that has an own one. A refusal would lock out all clients that send such requests, for
// ever. A pass that took it all the same, or as much as such a request costs, would be the whole
// quota again, for sale every hour.
func (q *call) chargeBought(cost int64) (c charged, ok bool) {
	candidates, workFirst := q.ownCandidates(), q.workFirst()
	if len(candidates) == 0 {
		if workFirst && q.who.tier.policy.TooDear(q.priceOf(cost)) < 0 { // else work would be in vain: no tally is that large
			return c, false
		}
		q.chargeShared(cost, &c)
		return c, true
	}
	if q.who.tier.tooDear(q.priceOf(cost)) {
		q.chargeShared(cost, &c)
		return c, true
	}
	i, tally, v := q.choose(q.who.tier.pass.policy, candidates, cost)
	if q.shown.proof.opened {
		i = q.shown.proof.index
	}
	o := &q.shown.own[i]
	c = charged{own: &o.own, opened: q.shown.proof.opened, shown: o.tally, tally: tally, verdict: v}
	left := restOf(q.at, &o.own)
	capWaits(&c.verdict, left)
	if v.Admitted || q.shown.proof.opened || workFirst || q.waits() {
		return c, true
	}
	// A tally that is used up for good is no nearer way than the shared one.
	var s charged
	if q.chargeShared(cost, &s); s.verdict.Admitted || s.verdict.Wait < v.Wait || v.Wait >= left {
		return s, true
	}
	return c, true
}

// chargeProof charges the shared tally for a request that comes with a proof of its own. Without
// one it is not ok, unless a proof would not help. The first unspent proof is taken: a browser
// sends the proofs of all its pages along.
func (q *call) chargeProof(cost int64) (c charged, ok bool) {
	f := q.sharedCandidate()
	for p := &q.shown.proof; p.good; {
		f.Proof = p.spend
		c = charged{}
		q.take(&f, cost, &c)
		ok = true
		if c.verdict.Spent || c.verdict.Admitted && cost > 0 {
			p.used = append(p.used, p.id)
		}
		if !c.verdict.Spent {
			if c.verdict.Admitted {
				q.challenge.proofs.note(accepted)
			}
			return c, true
		}
		q.nextProof()
	}
	if ok {
		return c, true // all are spent
	}
	c.verdict = q.memory.Peek(q.at, q.who.tier.policy, &f, cost)
	c.shown, c.tally = f.Shown, f.Shown
	return c, !c.verdict.Admitted
}
