package middleware

import (
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// Check and charge of one tally, all its limits and networks together, are one atomic
// step in memory. Which tally is charged is decided here.

// chargeShared charges the tally that everybody of the identity shares. It is the way of
// most requests, and so does without take: that would copy the result once more.
func (e *engine) chargeShared(now time.Time, who *subject, shown *credentials, cost int64) (c charged) {
	f := e.sharedCandidate(who, shown)
	c.shown = f.Shown
	c.tally, c.verdict = e.memory.Take(now, who.tier.policy, &f, cost)
	return c
}

// take charges the shared tally as it is given.
func (e *engine) take(now time.Time, who *subject, f storeless.Candidate, cost int64) (c charged) {
	c.shown = f.Shown
	c.tally, c.verdict = e.memory.Take(now, who.tier.policy, &f, cost)
	return c
}

// sharedCandidate returns the tally that everybody of the identity is in.
func (e *engine) sharedCandidate(who *subject, shown *credentials) storeless.Candidate {
	f := storeless.Candidate{Shown: shown.shared}
	if e.memory != nil {
		f.Key, f.Provider = e.memory.Key(who.bytes), who.id.provider()
		if who.networks[0].Policy != nil {
			f.Networks = who.networks[:]
		}
	}
	return f
}

// ownCandidates lists the own tallies that may be charged: all that are shown or,
// where a proof has opened one, that one alone.
func (e *engine) ownCandidates(shown *credentials) []storeless.Candidate {
	own := shown.own
	if shown.proof.opened {
		own = own[shown.proof.index : shown.proof.index+1]
	}
	list := make([]storeless.Candidate, len(own))
	for i := range own {
		list[i] = storeless.Candidate{Key: e.ownKey(own[i].own.ID), Shown: own[i].tally}
	}
	return list
}

// chargeBought charges an own tally or the shared one, as the mode permits. It is not
// ok, and nothing is charged, if a proof is wanted first.
//
// Own tallies come before the shared one, which is for those who have none or
// have used it up: its quota is everybody's, and the answer to a client that has paid
// must be a token of what it has paid for. Among own tallies the one with most left
// is charged, so that a spent token, planted or not, locks nobody out.
func (e *engine) chargeBought(now time.Time, who *subject, shown *credentials, cost int64) (c charged, ok bool) {
	candidates := e.ownCandidates(shown)
	if len(candidates) == 0 {
		if e.challenge.mode == Newcomers {
			return c, false
		}
		return e.take(now, who, e.sharedCandidate(who, shown), cost), true
	}
	i, tally, v := e.memory.Choose(now, who.tier.policy, candidates, cost)
	if shown.proof.opened {
		i = shown.proof.index
	}
	o := &shown.own[i]
	c = charged{own: &o.own, opened: shown.proof.opened, shown: o.tally, tally: tally, verdict: v}
	if v.Admitted || shown.proof.opened || e.challenge.mode == Newcomers {
		return c, true
	}
	if s := e.take(now, who, e.sharedCandidate(who, shown), cost); s.verdict.Admitted || s.verdict.Wait < v.Wait {
		return s, true
	}
	return c, true
}

// chargeProof charges the shared tally for a request that comes with a proof of
// its own. Without one it is not ok, unless a proof would not help.
func (e *engine) chargeProof(now time.Time, who *subject, shown *credentials, cost int64) (c charged, ok bool) {
	f := e.sharedCandidate(who, shown)
	if shown.proof.good {
		f.Proof = shown.proof.spend
		return e.take(now, who, f, cost), true
	}
	c.verdict = e.memory.Peek(now, who.tier.policy, &f, cost)
	c.shown, c.tally = f.Shown, f.Shown
	return c, !c.verdict.Admitted
}
