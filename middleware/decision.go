package middleware

import (
	"context"
	"time"

	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/storeless"
)

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

	// IdentityUnknown: the identity function could not tell who is asking. 403.
	IdentityUnknown Reason = "identity-unknown"

	// IdentityDenied: the identity function returned a [Denial]. 401 or 403.
	IdentityDenied Reason = "identity-denied"

	// NoToken: the policy wants a proof of work, or a token bought with one, and
	// the request shows neither. 403 with a challenge.
	NoToken Reason = "no-token"

	// SoldOut: the same, and no family is for sale to this address before
	// RetryAfter. 429.
	SoldOut Reason = "sold-out"

	// MemoryFull: the memory has no room, so that a proof must come with the
	// request. 403 with a challenge.
	MemoryFull Reason = "memory-full"

	// The reasons for which a proof was not accepted: its time has passed, its
	// answers are wrong or it was not issued here, another client asked for the challenge, it is worth
	// less than a family costs by now, or it has bought a request already.
	ProofExpired       Reason = "expired"
	ProofWrong         Reason = "wrong-solution"
	ProofClientChanged Reason = "client-changed"
	ProofPriceRisen    Reason = "price-risen"
	ProofReplayed      Reason = "replayed"

	// TooEarly: the request came as TLS early data, which anybody may replay, and
	// every replay would be charged on an exact counter. 425.
	TooEarly Reason = "too-early"

	// CounterDown: the exact counter did not answer, and [FailClosed] is what
	// the policy wants then. 503.
	CounterDown Reason = "counter-down"

	// Overloaded: as many calls wait for the exact counter as may, or it is full of
	// live keys. 503.
	Overloaded Reason = "overloaded"

	// NegativeCost: Config.Cost returned a negative number. 500.
	NegativeCost Reason = "negative-cost"
)

// A Decision is what the middleware did with a request, and why.
type Decision struct {
	Policy string
	Tier   string // the tier that applied; "" for Config.Limits
	Cost   int64

	// Admitted is what the limits say. Allowed is what was done: the request
	// was passed on. They differ in shadow mode alone.
	Admitted, Allowed bool

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

	// IdentityErr is the error of the identity function that could not tell who is
	// asking, or nil. The client is never told, nor is the log: it may hold what the
	// client has sent.
	IdentityErr error

	// Own says that a family of the client's own was charged, or would have
	// been, rather than the one that its address shares.
	Own bool

	// Proof is why the proof of the request was not accepted; "" if it was, or
	// if there was none. Challenge is what went out with the refusal, or nil.
	Proof     Reason
	Challenge *pow.Challenge

	// Lane says that the wait lane was charged, for a request that would have
	// been refused otherwise. Its quotas are those that Limits returns then.
	Lane bool

	// Wait says that a wait ticket goes out with the refusal, and how long until
	// the same client may send the request again without work, in whole seconds.
	// 0: none.
	Wait time.Duration

	// Saturated says that the memory was full, and only the token counted.
	Saturated bool

	// Degraded says that the exact counter did not answer, and that the decision
	// is what [Exact] says of an outage. The response says so too.
	Degraded bool

	decided   bool // the limits were asked
	policy    *storeless.Policy
	standings [storeless.MaxLimits]standing
}

// A standing is a [storeless.Standing] in a third of its size: every request
// allocates those of its decision. Counts fit 31 bits, and so do the seconds of
// the two longest windows.
type standing struct {
	remaining int32
	reset     uint32 // seconds, times two, plus one where the limit refused
}

// stand keeps how the limits stand.
func (d *Decision) stand(v *storeless.Verdict) {
	d.decided = true
	for i := range d.policy.Len() {
		s := &v.Limits[i]
		d.standings[i] = standing{int32(s.Remaining), uint32(s.Reset/time.Second) << 1}
		if s.Blocked {
			d.standings[i].reset |= 1
		}
	}
}

func (s standing) blocked() bool { return s.reset&1 != 0 }

// A LimitStatus is how one limit stands after a decision.
type LimitStatus struct {
	Limit
	Remaining int64         // cost that would still pass now
	Reset     time.Duration // until Remaining next rises, or a blocked limit admits this cost
	Blocked   bool          // the limit refused
}

// Limits returns how each limit of the policy stands. It is empty if the
// decision was made without asking them.
func (d Decision) Limits() []LimitStatus {
	if !d.decided {
		return nil
	}
	all := make([]LimitStatus, d.policy.Len())
	for i := range all {
		s := d.standings[i]
		all[i] = LimitStatus{d.policy.Limit(i), int64(s.remaining), time.Duration(s.reset>>1) * time.Second, s.blocked()}
	}
	return all
}

// FromContext returns the decision about the request with this context. There
// is none if the request was skipped, or never came through a [Middleware]. The
// innermost decision counts where several middlewares are stacked.
func FromContext(ctx context.Context) (Decision, bool) {
	x, ok := ctx.Value(exchangeKey{}).(*exchange)
	if !ok {
		return Decision{}, false
	}
	return x.decision, true
}

type exchangeKey struct{}

// An exchange is a context with a decision in it, the strings of the response's fields,
// and the writer that sees to them: one allocation for all that outlives the decision,
// and for the bytes of an address, which do not.
type exchange struct {
	context.Context
	guardAlone
	decision Decision
	who      [24]byte
	refusal  *refusal // what is said of one besides, or nil
	charge   *charge  // on an exact route, what Refund gives back
}

// Value implements [context.Context].
func (x *exchange) Value(key any) any {
	if key == (exchangeKey{}) {
		return x
	}
	return x.Context.Value(key)
}
