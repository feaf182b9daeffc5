// SPDX-License-Identifier: Apache-2.0

package middleware

// A Reason says why a request was admitted or not.
type Reason string

const (
	// WithinLimits: every limit had room.
	WithinLimits Reason = "within-limits"

	// OverLimit: a limit had no room. 429.
	OverLimit Reason = "over-limit"

	// CostAboveQuota: the request costs more than a quota, and can never
	// pass. 403.
	CostAboveQuota Reason = "cost-above-quota"

	// IdentityUnknown: the identity function could not tell which client is asking. 403.
	IdentityUnknown Reason = "identity-unknown"

	// IdentityUnavailable: the same, and its error wraps [ErrIdentityUnavailable]: it cannot tell
	// now. 503.
	IdentityUnavailable Reason = "identity-unavailable"

	// IdentityDenied: the identity function returned a [Denial]. 401 or 403.
	IdentityDenied Reason = "identity-denied"

	// NoToken: the policy requires a proof of work, or a token bought with one, and
	// the request shows neither. 403 with a challenge; 429 for a page.
	NoToken Reason = "no-token"

	// SoldOut: the same, and until RetryAfter the price is above 2³² hashes, the most
	// that a challenge can ask for: somebody behind the address has paid almost as much. 429.
	SoldOut Reason = "sold-out"

	// MemoryFull: the memory has no room to remember what is paid for with work, so that
	// nothing is sold and no proof accepted. 403 with a challenge, for what comes later.
	MemoryFull Reason = "memory-full"

	// The reasons for which a proof was not accepted: its time has passed, its
	// answers are wrong, no secret of this instance has signed its challenge, a clock that is
	// ahead of this one has, another client asked for the
	// challenge, it is worth less than half of what a tally costs by now, or it has
	// bought a request already.
	ProofExpired       Reason = "expired"
	ProofWrong         Reason = "wrong-solution"
	ProofSecretUnknown Reason = "secret-unknown"
	ProofClockDiffers  Reason = "clock-differs"
	ProofClientChanged Reason = "client-changed"
	ProofPriceRisen    Reason = "price-risen"
	ProofReplayed      Reason = "replayed"

	// TooManyAtOnce: as many requests of the tally are being served as [Concurrency] permits,
	// and no more may wait. 429.
	TooManyAtOnce Reason = "too-many-at-once"

	// TooEarly: the request came as TLS early data, which anybody may replay, and
	// every replay would be charged on an exact counter. 425.
	TooEarly Reason = "too-early"

	// CounterDown: the exact counter did not answer, and the policy says
	// [FailClosed]. 503.
	CounterDown Reason = "counter-down"

	// Overloaded: as many calls wait for the exact counter as may, or it is full of
	// live keys. 503.
	Overloaded Reason = "overloaded"

	// NegativeCost: Config.Cost returned a negative number. 500.
	NegativeCost Reason = "negative-cost"
)
