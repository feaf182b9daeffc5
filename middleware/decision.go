// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"fmt"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/storeless"
)

// A Decision is what the middleware did with a request, and why.
type Decision struct {
	Policy string
	Tier   string // the tier that applied; "" for Config.Limits
	Cost   int64

	// Identity is who was asking. It is zero if that could not be told, or was denied. It
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

	// Call is what came of asking the exact counter; zero where it was not needed. Where a
	// slot was asked for first, and was had, it is about the second call.
	Call CounterCall

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

	// IdentityErr is the error of the identity function that could not tell who is
	// asking, or nil. It goes neither to the client nor, unless it wraps
	// [ErrIdentityUnavailable], to the log: it may hold what the client has sent.
	IdentityErr error

	// Proof is why the proof of the request was not accepted; "" if it was, or
	// if there was none. Offered is the challenge that went out with the refusal, or nil.
	Proof   Reason
	Offered *pow.Challenge

	// RoomWait says that a wait ticket goes out with the refusal, and how long until
	// the same client may send the request again without work, in whole seconds.
	// 0: none.
	RoomWait time.Duration

	// Inherited is what a client began with that the full memory did not know: the cost
	// that it was counted for before its first request, of the limit of which that is
	// the largest part. 0: nothing.
	Inherited int64

	tier       *tier         // nil where the Identity is zero
	pseudonyms *pseudonymKey // nil in the zero Decision
	request    *http.Request
	took       time.Duration // the call to the counter
	statuses   [storeless.MaxLimits]packedStatus
}

// A packedStatus is a [storeless.LimitStatus] in a third of its size. Counts fit 31 bits, and
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
}

// Limits returns how each limit of the policy stands, those that are a Shadow too. It is
// empty if the decision was made without asking them.
func (d Decision) Limits() []LimitStatus {
	if !d.decided {
		return nil
	}
	all := make([]LimitStatus, d.tier.policy.Len())
	for i := range all {
		s := d.statuses[i]
		all[i] = LimitStatus{d.tier.policy.Limit(i), int64(s.remaining), time.Duration(s.reset>>1) * time.Second, s.blocked()}
	}
	return all
}

// Request returns the HTTP request that was decided about. It is not ok, and the request nil, for a
// decision outside of HTTP: by [Middleware.Decide], Check or Peek.
func (d Decision) Request() (r *http.Request, ok bool) { return d.request, d.request != nil }

// Format writes the policy and the reason for every verb. The request that a Decision may hold
// has addresses, cookies and credentials in it, and some verbs of package fmt follow pointers.
func (d Decision) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "middleware.Decision(%s %s)", d.Policy, d.Reason)
}

// Pseudonym returns 16 letters and digits that stand for the Identity in logs: the same for
// all requests that share its quota, on every instance, after a restart, whatever the tier,
// and in every policy that has the same secret. "" if it could not be told who was asking.
//
// It is a keyed hash under the first of Config.Secrets. To whom has none of them it says nothing.
// A holder of one can try all IPv4 addresses: for the law it is personal data still. It changes
// once in a rotation of secrets, when the new one is moved to the front. Then an old
// log is read with a Middleware that has the old secret first, and [Middleware.Peek].
//
// It is computed when it is asked for, which takes about a microsecond.
func (d Decision) Pseudonym() string {
	if d.Identity.IsZero() || d.pseudonyms == nil {
		return ""
	}
	return d.pseudonyms.of(d.Identity.append(nil))
}

// CallTook returns how long the request has waited for the exact counter, in line and for the
// answer, in whole microseconds; with [Concurrency] for its slot too. 0 if Call is [CallNone].
func (d Decision) CallTook() time.Duration {
	if d.Call == CallNone {
		return 0
	}
	return d.took
}
