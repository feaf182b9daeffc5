// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"encoding/binary"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/load"
	"github.com/tallystick/tallystick/middleware/internal/slots"
)

// Check and charge of one tally, all its limits and networks together, are one atomic
// step in memory. Which tally is charged is decided here.

// chargeShared charges the tally that everybody of the identity shares.
func (e *engine) chargeShared(now time.Time, who *subject, shown *credentials, cost int64, c *charged) {
	f := e.sharedCandidate(who, shown)
	e.take(now, who, &f, cost, c)
}

// take charges the shared tally as it is given, and fills in c.
func (e *engine) take(now time.Time, who *subject, f *limiter.Candidate, cost int64, c *charged) {
	switch {
	case e.outcomes != nil:
		c.tally, c.verdict, c.pending = e.outcomes.take(now, e.memory, who.tier, f, cost, who.dry)
	case who.dry:
		c.tally, c.verdict = f.Shown, e.memory.Peek(now, who.tier.policy, f, cost)
	default: // and not by takeFrom, which would copy the result once more
		c.tally, c.verdict = e.memory.Take(now, who.tier.policy, f, cost)
	}
	if !c.verdict.Admitted {
		c.shown = f.Shown
	}
}

// takeFrom charges a tally in memory or, where nothing is to be charged, says what that
// would come to.
func (e *engine) takeFrom(now time.Time, p *limiter.Policy, who *subject, f *limiter.Candidate, cost int64) (limiter.Tally, limiter.Verdict) {
	if who.dry {
		return f.Shown, e.memory.Peek(now, p, f, cost)
	}
	return e.memory.Take(now, p, f, cost)
}

// signsLess reports whether tokens say what was shown and is charged, and not what the memory knows beside it: the next
// owner of a key believes them, and nobody may be refused there for what another has used.
func (e *engine) signsLess() bool {
	return e.exact != nil && e.exact.changesOwners && e.memory.Lends()
}

// chargedAt returns the time for which token and memory count what a counter has charged since began. Where owners change
// that is the owner's: by another clock the charge could lie in another window, and who is told of it would count it in
// both. It is believed while it is no further than clocks may differ from when the counter can have charged.
func (x *exactCounter) chargedAt(began, otherwise time.Time, r *exact.Receipt) time.Time {
	if x.changesOwners && !r.At.Before(began.Add(-x.skew)) && !r.At.After(x.now().Add(x.skew)) {
		return r.At
	}
	return otherwise
}

// sharedCandidate returns the tally that everybody of the identity is in.
func (e *engine) sharedCandidate(who *subject, shown *credentials) (f limiter.Candidate) {
	f.Shown = shown.shared
	if e.memory != nil {
		f.Key, f.Provider = who.key, who.id.provider()
		networks := who.networks[:2]
		if !who.wide() {
			networks = networks[2:]
		}
		f.Networks = networks
	}
	return f
}

// ownCandidates lists the own tallies that may be charged: all that are shown or,
// where a proof has opened one, that one alone.
func (e *engine) ownCandidates(shown *credentials) []limiter.Candidate {
	own := shown.own
	if shown.proof.opened {
		own = own[shown.proof.index : shown.proof.index+1]
	}
	list := make([]limiter.Candidate, len(own))
	for i := range own {
		list[i] = e.ownCandidate(&own[i].own)
		list[i].Shown = own[i].tally
	}
	return list
}

// ownCandidate returns an own tally as it may be charged. An instance that has never met a tally has to believe
// that nothing was used of it. No rule makes what one client may use depend on what its neighbours do: all that
// were tried, such as a ceiling for the tallies of an address, let a neighbour lock those out who have paid.
func (e *engine) ownCandidate(own *token.Own) limiter.Candidate {
	return limiter.Candidate{Key: ownKey(e.memory, own.ID), Ends: time.Unix(own.Expires, 0)}
}

// chargeBought charges an own tally or the shared one, as the mode permits. It is not
// ok, and nothing is charged, if a proof is wanted first.
//
// Own tallies come before the shared one, which is for those who have none or
// have used it up: its quota is everybody's, and the answer to a client that has paid
// must be a token of what it has paid for. Among own tallies the one with most left
// is charged, so that a spent token, planted or not, locks nobody out.
//
// An own tally is a pass: where a limit is longer than PassTime it has a part of the
// quota. A request that costs more than a pass has is charged to the shared tally, in
// [Newcomers] too, for a client that has an own one. To refuse it would lock out
// all who send such requests, for ever; and a pass that took it all the same, or as much as
// such a request costs, would be the whole quota again, for sale every hour.
func (e *engine) chargeBought(now time.Time, who *subject, shown *credentials, cost int64) (c charged, ok bool) {
	candidates, workFirst := e.ownCandidates(shown), e.challenge.workFirst(now, who)
	if len(candidates) == 0 {
		if workFirst && cost <= who.tier.most() { // else work would be in vain: no tally has so much
			return c, false
		}
		e.chargeShared(now, who, shown, cost, &c)
		return c, true
	}
	if who.tier.tooDear(cost) {
		e.chargeShared(now, who, shown, cost, &c)
		return c, true
	}
	i, tally, v := e.memory.Choose(now, who.tier.pass.policy, candidates, cost)
	if shown.proof.opened {
		i = shown.proof.index
	}
	o := &shown.own[i]
	c = charged{own: &o.own, opened: shown.proof.opened, shown: o.tally, tally: tally, verdict: v}
	left := restOf(now, &o.own)
	capWaits(&c.verdict, left)
	if v.Admitted || shown.proof.opened || workFirst {
		return c, true
	}
	// What is used up for good is no nearer way than the shared tally.
	var s charged
	if e.chargeShared(now, who, shown, cost, &s); s.verdict.Admitted || s.verdict.Wait < v.Wait || v.Wait >= left {
		return s, true
	}
	return c, true
}

// chargeProof charges the shared tally for a request that comes with a proof of
// its own. Without one it is not ok, unless a proof would not help. Of several proofs
// the first that is not spent is: a browser sends those of all its pages along.
func (e *engine) chargeProof(now time.Time, who *subject, shown *credentials, cost int64) (c charged, ok bool) {
	f := e.sharedCandidate(who, shown)
	for p := &shown.proof; p.good; {
		f.Proof = p.spend
		e.take(now, who, &f, cost, &c)
		ok = true
		if c.verdict.Spent || c.verdict.Admitted && cost > 0 {
			p.used = append(p.used, p.id)
		}
		if !c.verdict.Spent {
			if c.verdict.Admitted {
				e.challenge.proofs.note(accepted)
			}
			return c, true
		}
		e.challenge.nextProof(now, who, shown)
	}
	if ok {
		return c, true // all are spent
	}
	c.verdict = e.memory.Peek(now, who.tier.policy, &f, cost)
	c.shown, c.tally = f.Shown, f.Shown
	return c, !c.verdict.Admitted
}

// In WhenBusy a token of the shared tally is of no use while the instance is busy. To
// honour it would exempt those who have made it busy, of all clients: they were admitted, so
// each of their addresses has one. What it has counted stays, in it and in memory.

// workFirst reports whether a client that has no tally of its own proves work first. For a
// request this is decided once, when it is charged. Whether it may stand in line before that,
// and what the endpoint tells a page, are guesses: in between the answer may change.
func (c *challenger) workFirst(now time.Time, who *subject) bool {
	return c.mode == Newcomers || c.mode == WhenBusy && c.load.BusyFor(now, c.busyAt, c.loadOf(who, nil).Network)
}

// noteLoad counts a request that was admitted. What was refused is none of the load: else a
// flood of what costs its sender nothing would keep the instance busy. What costs 0 is
// not either: anybody may send any number.
func (c *challenger) noteLoad(now time.Time, q *question, dc *decisionContext, who *subject, charge *charged) {
	if c.mode != WhenBusy || !charge.verdict.Admitted || who.dry || dc.decision.Cost == 0 {
		return
	}
	from := c.loadOf(who, charge.own)
	c.load.Admit(now, c.busyAt, from)
	if c.busyAt.AtOnce == 0 || q.r == nil {
		return
	}
	end := c.load.Begin(c.busyAt, from)
	if end == nil {
		return
	}
	if a := dc.decision.withExtras(); a.permit == nil {
		a.permit = slots.NewPermit(end)
	} else {
		a.permit.Also(end)
	}
}

// loadOf says of whom a request is a part of the load: no client may make an instance busy, by
// what it has bought neither. One client is an IPv4 address or, as they are to be had for nothing, an IPv6
// /48. Its network is the IPv4 /16 or IPv6 /29: see surgeNetwork. What nobody has any number of is
// its own network: keys, users, and the addresses of a network of one's own.
func (c *challenger) loadOf(who *subject, own *token.Own) (from load.Source) {
	id := who.id
	if own != nil {
		from.Tally = c.load.Hash(own.ID[:])
	}
	if id.kind != kindAddress {
		whole := *id // one key in many things is one client
		whole.text = whole.text[:whole.named]
		var room [1 + longestInFull]byte
		from.Client = c.load.Hash(whole.append(room[:0]))
		from.Network = from.Client
		return from
	}
	addr := id.firstAddr()
	alone := near(addr) || nat64Local.Contains(addr)
	if !alone {
		addr = masked(addr, 48)
	}
	b := addr.As16()
	from.Client = c.load.Hash(b[:])
	from.Network = from.Client
	if !alone {
		var network [8]byte
		binary.BigEndian.PutUint64(network[:], id.provider())
		from.Network = c.load.Hash(network[:])
	}
	return from
}
