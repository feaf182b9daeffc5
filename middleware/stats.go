package middleware

import "sync/atomic"

// Stats are counts of a [Middleware] since it was made, and how full its memory is.
type Stats struct {
	_ [0]func() // fields may be added

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

	// Proofs are the proofs of work that were not accepted, by reason.
	Proofs ProofStats
}

// ProofStats count the requests of which a proof was not accepted, by the Reason of
// Decision.Proof.
type ProofStats struct {
	_ [0]func() // fields may be added

	Expired, Wrong, PriceRisen, Replayed uint64

	// ClientChanged are honest clients, nearly always, whose identity changes between the
	// challenge and the proof: the server gives them work, and does not believe it. A few
	// are phones that change networks. Where it is a noticeable part of all proofs, a
	// carrier has its customers behind a pool of addresses, and they may never get in:
	// identify clients by something else than their address, as by [ValidatedKey].
	ClientChanged uint64
}

// proofCounts count the proofs that were not accepted. They belong to a Middleware,
// whatever its configuration.
type proofCounts struct{ expired, wrong, clientChanged, priceRisen, replayed atomic.Uint64 }

// note counts one request, of which reason is Decision.Proof.
func (c *proofCounts) note(reason Reason) {
	switch reason {
	case ProofExpired:
		c.expired.Add(1)
	case ProofWrong:
		c.wrong.Add(1)
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
		Expired: c.expired.Load(), Wrong: c.wrong.Load(), ClientChanged: c.clientChanged.Load(),
		PriceRisen: c.priceRisen.Load(), Replayed: c.replayed.Load(),
	}
}
