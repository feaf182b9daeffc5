// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"fmt"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/storeless"
)

// A Decision tells what the middleware did with a request, and why.
type Decision struct {
	Policy string
	Tier   string // the tier that applied; "" for Config.Limits
	Cost   int64

	// Identity is the client that was asking. It is zero if the client was unknown, or denied. It
	// prints without its address or name: logs want the [Decision.Pseudonym].
	Identity Identity

	// Admitted is what the limits say. Allowed is what was done: the request
	// was passed on. They differ in shadow mode alone.
	Admitted, Allowed bool

	// Own says that a tally of the client's own was charged, or would have
	// been, rather than the one that its address shares.
	Own bool

	// FromWaitingRoom says that the waiting room was charged, for a request that would have
	// been refused otherwise. Its quotas are those that Limits returns then.
	FromWaitingRoom bool

	// Saturated says that the memory had no room to remember that the proof of the request
	// is spent, and that it was refused for that.
	Saturated bool

	// Degraded says that the exact counter did not answer, and that the decision
	// is what [Exact] says of an outage. The response says so too.
	Degraded bool

	// Call says in one word, fit for metrics, what came of asking the exact counter:
	//
	//	""         it was not needed
	//	answered   it has decided
	//	busy       it had no place or no time for this call
	//	full       it had no room for a new key
	//	contended  it lost every race, see Exact.Contended
	//	skipped    it does not answer, and was not asked
	//	failed     this call failed, or its answer was too late
	//	down       the same, in an outage
	//
	// Where a slot of [Concurrency] was asked for too, it is about the call that came last. CallTook is
	// how long the request has waited for it, for its slot too, in whole microseconds.
	Call     string
	CallTook time.Duration

	decided bool // the limits were asked

	Reason Reason
	Status int // of the refusal, also of one that shadow mode withheld; 0 if admitted

	// RetryAfter is how long until the same request would pass, as sent: in
	// whole seconds, with jitter. 0 if it passed or never will.
	RetryAfter time.Duration

	// Tokens is how many of the tokens shown were accepted. TokenErr is why the
	// last one was not, an error of package token, or nil; the client is never
	// told.
	Tokens   int
	TokenErr error

	// IdentityErr is the error of an identity function that could not tell the client, or nil. It
	// goes neither to the client nor, unless it wraps [ErrIdentityUnavailable], to the log: it may
	// hold what the client has sent.
	IdentityErr error

	// Proof is why the proof of the request was not accepted; "" if it was, or if there was none:
	//
	//	expired         its time has passed
	//	wrong-solution  its answers are wrong
	//	secret-unknown  no secret of this instance has signed its challenge
	//	clock-differs   its challenge is of a clock that is ahead of this one
	//	client-changed  another client asked for its challenge
	//	price-risen     a tally costs more by now than 15/8 of it
	//	replayed        it has bought a request already, see [ProofReplayed]
	//
	// Offered is the challenge that went out with the refusal, or nil.
	Proof   Reason
	Offered *pow.Challenge

	// RoomWait says that a wait ticket goes out with the refusal, and how long until
	// the same client may send the request again without work, in whole seconds.
	// 0: none.
	RoomWait time.Duration

	// Inherited is the count, in cost, with which a full memory had a new client begin. It is about
	// the limit where that is the largest part of the quota. 0: none.
	Inherited int64

	tier       *tier         // nil where the Identity is zero
	pseudonyms *pseudonymKey // nil in the zero Decision
	request    *http.Request
	each       *limiter.Costs
	statuses   [storeless.MaxLimits]packedStatus
}

// unknown is the Remaining of a limit that a remembered refusal does not name.
const unknown = -1

// A packedStatus is a [limiter.LimitStatus] in a third of its size. Counts fit 31 bits, and
// so do the seconds of the two longest windows.
type packedStatus struct {
	remaining int32
	reset     uint32 // seconds, times two, plus one where the limit refused
}

func (s packedStatus) blocked() bool { return s.reset&1 != 0 }

// A LimitStatus is how one limit stands after a decision.
type LimitStatus struct {
	Limit
	Remaining int64         // cost that would still pass now
	Reset     time.Duration // until Remaining next rises, or a blocked limit admits this cost
	Blocked   bool          // the limit refused; a Shadow would have
	Unit      string        // that the limit counts, see [Config].Units; "": Cost
	Cost      int64         // of the request, in that unit
}

// Limits returns how each limit of the policy stands, shadows too. It is empty if the decision was made
// without the limits. If an exact counter has refused within the last ten seconds, it has only the limit
// that refused for longest.
func (d Decision) Limits() []LimitStatus {
	if !d.decided {
		return nil
	}
	all := make([]LimitStatus, 0, d.tier.policy.Len())
	for i := range cap(all) {
		if s := d.statuses[i]; s.remaining != unknown {
			all = append(all, LimitStatus{d.tier.limit(i), int64(s.remaining), time.Duration(s.reset>>1) * time.Second, s.blocked(), d.tier.unit(i), limiter.Price{Cost: d.Cost, Each: d.each}.Of(i)})
		}
	}
	return all
}

// Request returns the HTTP request that was decided about. It is not ok, and the request nil, for a
// decision outside of HTTP, by [Middleware.Decide].
func (d Decision) Request() (r *http.Request, ok bool) { return d.request, d.request != nil }

// Format writes the policy and the reason for every verb. The request that a Decision may hold
// has addresses, cookies and credentials in it, and some verbs of package fmt follow pointers.
func (d Decision) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "middleware.Decision(%s %s)", d.Policy, d.Reason)
}

// Pseudonym returns 16 letters and digits that stand for the Identity in logs: the same for all
// requests that share its quota, on every instance, after a restart, whatever the tier, and in
// every policy that has the same secret. It is "" if the client was unknown.
//
// It is a keyed hash under the first of Config.Secrets. It says nothing without one of them. A
// holder of one can try all IPv4 addresses, so by law it is still personal data. It changes once in
// a rotation of secrets, when the new one is moved to the front. After that, read an old log with a
// Middleware that has the old secret first, and a dry run of [Middleware.Decide].
//
// It is computed when it is asked for, which takes about a microsecond.
func (d Decision) Pseudonym() string {
	if d.Identity.IsZero() || d.pseudonyms == nil {
		return ""
	}
	return d.pseudonyms.of(d.Identity.append(nil))
}

// A Reason says why a request was admitted or not. Decision.Proof is a Reason too, with words listed
// there; only ProofReplayed is a reason of a decision.
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

	// SoldOut: the same, and until RetryAfter the price is above 2³² hashes, the most that a
	// challenge can ask for: a client behind the address has paid almost as much. 429.
	SoldOut Reason = "sold-out"

	// MemoryFull: the memory has no room to remember what is paid for with work, so that
	// nothing is sold and no proof accepted. 403 with a challenge, for what comes later.
	MemoryFull Reason = "memory-full"

	// ProofReplayed: in EveryRequest, the proof has bought a request already. 403 with a challenge.
	ProofReplayed Reason = "replayed"

	// The other reasons for which a proof was not accepted, see Decision.Proof.
	proofExpired       Reason = "expired"
	proofWrong         Reason = "wrong-solution"
	proofSecretUnknown Reason = "secret-unknown"
	proofClockDiffers  Reason = "clock-differs"
	proofClientChanged Reason = "client-changed"
	proofPriceRisen    Reason = "price-risen"

	// TooManyAtOnce: as many requests of the tally are being served as [Concurrency] permits. 429.
	TooManyAtOnce Reason = "too-many-at-once"

	// TooEarly: the request came as TLS early data, which an attacker may replay, and every replay
	// would be charged on an exact counter. 425.
	TooEarly Reason = "too-early"

	// CounterDown: the exact counter did not answer, and the policy says
	// [FailClosed]. 503.
	CounterDown Reason = "counter-down"

	// Overloaded: as many calls wait for the exact counter as may, or it is full of
	// live keys; or [Config.Peers] have not answered in time. 503.
	Overloaded Reason = "overloaded"

	// NegativeCost: Config.Cost returned a negative number. 500.
	NegativeCost Reason = "negative-cost"
)
