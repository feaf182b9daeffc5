package middleware

import "sync/atomic"

// Stats are counts of a [Middleware] since it was made.
type Stats struct {
	_ [0]func() // fields may be added

	// Saturations is how often the memory had no room: for the count of an admitted
	// request, for a sale, or for a request that was refused because it had to be
	// remembered.
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
