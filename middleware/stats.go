// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"slices"
	"sync/atomic"
	"time"
)

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

	// HighestWork is the most that a challenge has asked for in this minute or the one before; 2³²
	// where nothing was for sale at any price that a challenge can ask for. It tells of one address that
	// buys very much, which the mean hides: see "price-high" in docs/checks.md.
	HighestWork uint64

	// Proofs are how many proofs have bought something, "accepted", each once for a tally, and how
	// many requests had one that was not accepted, by the Reason of Decision.Proof. No client can
	// raise "clock-differs". docs/clients.md says which clients raise "client-changed", and what it
	// means where they are many.
	Proofs map[string]uint64

	// Tokens are how many tokens of this policy were shown, with requests and at the endpoints,
	// each by the first of these that holds: "clock-differs", by more than the skew that is
	// allowed, which no client can raise; "accepted"; "secret-unknown", which any client can write;
	// "expired"; "forged"; and "client-changed", tokens of another client, and bought ones where
	// nothing is sold.
	Tokens map[string]uint64

	// KeyIDs are the ids of Config.Secrets for this policy, in their order: the kid of tokens. They are public. If the
	// first secret of one instance is unknown to another, a client that moves between them loses its counts, and the
	// tallies that it has bought.
	KeyIDs []string

	// TokenLife is for how long a token that is signed now may be worth something: two of the
	// longest windows; of the buckets of Limits and Tiers three, and twice what the slowest takes
	// to empty, for what is settled above its burst; and where a [Challenge] sells tallies an hour
	// at least, and the longest life of any that this middleware has sold. A secret that signs no
	// more should stay in Config.Secrets for this time.
	TokenLife time.Duration

	// Busy says that this instance is busy, and asks newcomers for work; false but in
	// [WhenBusy].
	Busy bool

	// Counter is how the exact counter is; nil without Config.Exact.
	Counter *CounterStats
}

// CounterStats are how the exact counter of a policy is, as this instance sees it. They
// belong to the configuration, and begin anew with Reconfigure.
type CounterStats struct {
	_ [0]func() // fields may be added

	// Down says that the counter, or a node of it, does not answer, and that Exact.Outage decides.
	// Nothing is known of a node that was not asked for a minute.
	Down bool

	// Refusing says that the counter answers, and in most of the last ten seconds in which it was
	// asked most requests were refused as [Overloaded]: no burst, which passes, but a table that is
	// throttled, a disk that is full, a database that is locked.
	Refusing bool

	// Utilization is the share of the places of Exact.InFlight that are taken, by calls that are
	// out or in line, from 0 to 1: of the node where it is largest. Requests are refused as
	// [Overloaded] when it is 1, and requests of addresses at three quarters.
	Utilization float64

	// LateRefunds is how many charges were to be given back and did not come back any more:
	// see [exact.ErrLateRefund].
	LateRefunds uint64
}

// accepted is the word for what was believed, beside the reasons for what was not.
const accepted Reason = "accepted"

// proofResults are what becomes of proofs.
var proofResults = [...]Reason{accepted, proofExpired, proofWrong, proofSecretUnknown, proofClockDiffers, proofClientChanged, proofPriceRisen, ProofReplayed}

// proofCounts count proofs, and the challenges for them. They belong to a Middleware,
// whatever its configuration.
type proofCounts struct {
	issued, work atomic.Uint64
	highest      peak
	results      [len(proofResults)]atomic.Uint64
}

// issue counts a challenge and the work that it asks for.
func (c *proofCounts) issue(now time.Time, work int64) {
	c.issued.Add(1)
	c.work.Add(uint64(work))
	c.highest.note(now, work)
}

// A peak is the highest of what was noted, up to 2³², in this minute or the one before. Each of
// two words has a minute and its highest.
type peak [2]atomic.Uint64

const peakBits = 33

func (p *peak) note(now time.Time, n int64) {
	minute := uint64(now.Unix() / 60)
	word, next := &p[minute%2], minute<<peakBits|uint64(n)
	for {
		was := word.Load()
		if was>>peakBits == next>>peakBits && was >= next || word.CompareAndSwap(was, next) {
			return
		}
	}
}

func (p *peak) highest(now time.Time) (n uint64) {
	minute := uint64(now.Unix() / 60)
	for i := range uint64(2) {
		at, word := minute-i, p[(minute-i)%2].Load()
		if word>>peakBits == at<<peakBits>>peakBits {
			n = max(n, word&(1<<peakBits-1))
		}
	}
	return n
}

// note counts one proof, or one request, by its reason, which is Decision.Proof.
func (c *proofCounts) note(reason Reason) {
	if i := slices.Index(proofResults[:], reason); i >= 0 {
		c.results[i].Add(1)
	}
}

// stats returns what was noted.
func (c *proofCounts) stats() map[string]uint64 {
	all := make(map[string]uint64, len(proofResults))
	for i, result := range proofResults {
		all[string(result)] = c.results[i].Load()
	}
	return all
}

// tokenCounts count tokens, by what is wrong with each. They belong to a Middleware, as proofCounts do.
type tokenCounts [len(tokenErrs)]atomic.Uint64

// note counts one token. If a token is ahead of this clock, the clock is wrong.
func (c *tokenCounts) note(fault tokenFault, ahead bool) {
	if ahead {
		fault = tokenLate
	}
	c[fault].Add(1)
}

// stats returns what was noted of the policy's own.
func (c *tokenCounts) stats() map[string]uint64 {
	return map[string]uint64{
		string(accepted): c[tokenSound].Load(), string(proofClockDiffers): c[tokenLate].Load(), string(proofSecretUnknown): c[tokenSecret].Load(),
		string(proofExpired): c[tokenExpired].Load(), "forged": c[tokenForged].Load(), string(proofClientChanged): c[tokenHolder].Load(),
	}
}
