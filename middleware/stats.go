// SPDX-License-Identifier: Apache-2.0

package middleware

import "sync/atomic"

// Stats are counts of a [Middleware] since it was made, and how full its memory is.
type Stats struct {
	_ [0]func() // fields may be added

	Policy string

	// Fill is the share of the memory's cells that are in use, from 0 to 1, of the limit
	// that has the most: an estimate from a sample, good to some hundredths, which takes
	// about a tenth of a millisecond for each limit.
	Fill float64

	// Inherited is how many requests came from clients that the memory did not know and
	// had no cell for, and began with a count that was not theirs. InheritedQuotas is the
	// sum of what they began with, each as a part of its quota from 0 to 1: where one
	// grows by n and the other by q, newcomers began with q/n of their quotas.
	Inherited       uint64
	InheritedQuotas float64

	// Saturations is how often a sale, or a request with a proof, was refused because there
	// was no room to remember what was paid.
	Saturations uint64

	// Challenges is how many challenges were issued, with refusals and at the endpoint, and
	// Work the sum of what they asked for, in expected hashes: the mean price is w/n where
	// one grows by n and the other by w. A client may ask for as many as it likes.
	Challenges, Work uint64

	// Proofs are the proofs of work that were accepted, and those that were not.
	Proofs ProofStats

	// Tokens are the tokens of this policy that were shown.
	Tokens TokenStats

	// KeyIDs are the ids of Config.Secrets for this policy, in their order: the kid of tokens. They are public. Where
	// one instance has another first than some other knows, clients lose with each change of instance what they have counted or bought.
	KeyIDs []string

	// Busy says that this instance is busy, and asks newcomers for work; false but in
	// [WhenBusy].
	Busy bool

	// Counter is how the exact counter is; nil without Config.Exact.
	Counter *CounterStats
}

// ProofStats count proofs.
type ProofStats struct {
	_ [0]func() // fields may be added

	// Accepted are the proofs that have bought something, a tally or a request. One that is
	// shown again for the same tally is counted once.
	Accepted uint64

	// The requests of which a proof was not accepted, by the Reason of Decision.Proof.
	Expired, Wrong, PriceRisen, Replayed uint64

	// SecretUnknown are the proofs of challenges that no secret of this instance has signed, and ClockDiffers those
	// of challenges that an instance has issued later than now. No client can raise ClockDiffers.
	SecretUnknown, ClockDiffers uint64

	// ClientChanged are honest clients, nearly always, whose identity changes between the
	// challenge and the proof: the server gives them work, and does not believe it. A few
	// are phones that change networks. Where it is a noticeable part of all proofs, a
	// carrier has its customers behind a pool of addresses, and they may never get in:
	// identify clients by something else than their address, as by [ValidatedKey].
	ClientChanged uint64
}

// TokenStats count the tokens that were shown, with requests and at the endpoints: each once, by the
// first of these that holds.
type TokenStats struct {
	_ [0]func() // fields may be added

	// ClockDiffers are those whose windows begin later than now by more than the skew that is allowed: what they say of
	// these windows is as if absent. No client can raise it. It counts bought tallies too that live
	// for longer than any that is sold here: by such a clock, or under another PriceMemory.
	ClockDiffers uint64

	// Accepted are those that were merged with what the memory holds.
	Accepted uint64

	// SecretUnknown are those that no secret of this instance has signed, as far as can be seen. Anybody can write one.
	SecretUnknown uint64

	// Expired and Forged are told by their names. ClientChanged are those of another client, and bought ones where
	// nothing is sold.
	Expired, Forged, ClientChanged uint64
}

// CounterStats are how the exact counter of a policy is, as this instance sees it. They
// belong to the configuration, and begin anew with Reconfigure.
type CounterStats struct {
	_ [0]func() // fields may be added

	// Down says that the counter, or a node of it, does not answer, and that Exact.Outage
	// decides. Of a node that nobody has asked for a minute nothing is known.
	Down bool

	// Refusing says that the counter answers, and in most of the last ten seconds in which it
	// was asked most requests were refused as [Overloaded]: no burst, which passes, but a
	// table that is throttled, a disk that is full, a database that somebody has locked.
	Refusing bool

	// Utilization is the share of the places of Exact.InFlight that are taken, by calls that are
	// out or in line, from 0 to 1: of the node where it is largest. Requests are refused as
	// [Overloaded] when it is 1, those of addresses at three quarters.
	Utilization float64

	// LateRefunds is how many charges were to be given back and did not come back any more:
	// see [exact.ErrLateRefund].
	LateRefunds uint64
}

// proofCounts count proofs, and the challenges for them. They belong to a Middleware,
// whatever its configuration.
type proofCounts struct {
	issued, work, accepted                              atomic.Uint64
	expired, wrong, clientChanged, priceRisen, replayed atomic.Uint64
	secretUnknown, clockDiffers                         atomic.Uint64
}

// issue counts a challenge that asks for so much work.
func (c *proofCounts) issue(work int64) {
	c.issued.Add(1)
	c.work.Add(uint64(work))
}

// note counts one request, of which reason is Decision.Proof.
func (c *proofCounts) note(reason Reason) {
	switch reason {
	case ProofExpired:
		c.expired.Add(1)
	case ProofWrong:
		c.wrong.Add(1)
	case ProofSecretUnknown:
		c.secretUnknown.Add(1)
	case ProofClockDiffers:
		c.clockDiffers.Add(1)
	case ProofClientChanged:
		c.clientChanged.Add(1)
	case ProofPriceRisen:
		c.priceRisen.Add(1)
	case ProofReplayed:
		c.replayed.Add(1)
	}
}

// stats returns what was noted.
func (c *proofCounts) stats() ProofStats {
	return ProofStats{
		Accepted: c.accepted.Load(),
		Expired:  c.expired.Load(), Wrong: c.wrong.Load(), ClientChanged: c.clientChanged.Load(),
		PriceRisen: c.priceRisen.Load(), Replayed: c.replayed.Load(),
		SecretUnknown: c.secretUnknown.Load(), ClockDiffers: c.clockDiffers.Load(),
	}
}

// tokenCounts count tokens. They belong to a Middleware, as proofCounts do.
type tokenCounts struct {
	accepted, clockDiffers, secretUnknown, expired, forged, clientChanged atomic.Uint64
}

// note counts one token.
func (c *tokenCounts) note(fault tokenFault, ahead bool) {
	switch {
	case ahead || fault == tokenLate:
		c.clockDiffers.Add(1)
	case fault == tokenSound:
		c.accepted.Add(1)
	case fault == tokenSecret:
		c.secretUnknown.Add(1)
	case fault == tokenExpired:
		c.expired.Add(1)
	case fault == tokenForged:
		c.forged.Add(1)
	case fault == tokenHolder:
		c.clientChanged.Add(1)
	}
}

// stats returns what was noted.
func (c *tokenCounts) stats() TokenStats {
	return TokenStats{
		Accepted: c.accepted.Load(), ClockDiffers: c.clockDiffers.Load(), SecretUnknown: c.secretUnknown.Load(),
		Expired: c.expired.Load(), Forged: c.forged.Load(), ClientChanged: c.clientChanged.Load(),
	}
}
