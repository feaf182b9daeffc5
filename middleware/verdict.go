// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/pow"
)

// A verdict decides what becomes of a request. It is a refusal if it has a status.
type verdict struct {
	reason      Reason
	status      int // of the refusal
	retryAfter  time.Duration
	denial      *Denial // with IdentityDenied
	identityErr error   // with IdentityUnknown and IdentityUnavailable
}

// verdictOf says what the limits' verdict means for the request.
func verdictOf(limits *limiter.Verdict) verdict {
	switch {
	case limits.Admitted:
		return verdict{reason: WithinLimits}
	case limits.Impossible:
		return verdict{reason: CostAboveQuota, status: http.StatusForbidden}
	case limits.Spent:
		return verdict{reason: ProofReplayed, status: http.StatusForbidden}
	case limits.Saturated:
		return verdict{reason: MemoryFull, status: http.StatusForbidden}
	}
	return verdict{reason: OverLimit, status: http.StatusTooManyRequests, retryAfter: limits.Wait}
}

// proofWanted is the verdict where a proof of work comes first.
func proofWanted() verdict { return verdict{reason: NoToken, status: http.StatusForbidden} }

// overloaded is the verdict where the counter has no room: load, and no outage.
func overloaded() verdict {
	return verdict{reason: Overloaded, status: http.StatusServiceUnavailable, retryAfter: jittered(time.Second)}
}

// noRoom is the verdict where the counter has no room for a new key. wait is how long by its word,
// or 0.
func noRoom(wait time.Duration) verdict {
	v := overloaded()
	if wait > 0 {
		v.retryAfter = jittered(min(wholeSeconds(wait), noRoomWait))
	}
	return v
}

// noRoomWait is the longest that a full counter sends a client away for: an operator may give it room any
// time.
const noRoomWait = time.Hour

// counterDown is the verdict where an outage refuses.
func counterDown() verdict {
	return verdict{reason: CounterDown, status: http.StatusServiceUnavailable, retryAfter: jittered(time.Second)}
}

// tooManyAtOnce is the verdict where no slot is free. When one will be is not known: the
// clients are spread over some seconds.
func tooManyAtOnce() verdict {
	return verdict{reason: TooManyAtOnce, status: http.StatusTooManyRequests, retryAfter: time.Duration(1+rand.Int64N(3)) * time.Second}
}

// An offer tells a refused client what it can do instead of waiting: solve a challenge, or come
// back when a tally is for sale.
type offer struct {
	challenge *pow.Challenge
	field     string // the same, as a response field
	soldOut   bool
	wait      time.Duration // until a tally is for sale
}

// offering returns v with what is offered. Where nothing is for sale, it says when that
// will be, if that is before the limits give way.
func (v verdict) offering(o offer) verdict {
	if !o.soldOut {
		return v
	}
	if v.retryAfter == 0 || o.wait < v.retryAfter {
		v.retryAfter = o.wait
	}
	if v.status == http.StatusForbidden { // a proof would help, and cannot be had
		v.reason, v.status = SoldOut, http.StatusTooManyRequests
	}
	return v
}

// helpedByProof reports whether a proof would help a request with this verdict.
func (v *verdict) helpedByProof(mode Mode) bool {
	switch v.reason {
	case NoToken, ProofReplayed, MemoryFull:
		return true
	case OverLimit:
		return mode != EveryRequest
	}
	return false
}

// jitter spreads the return of clients that a limit has refused.
func (v *verdict) jitter() {
	if v.status == http.StatusTooManyRequests {
		v.retryAfter = jittered(v.retryAfter)
	}
}

// jittered adds up to a tenth, and up to 30 seconds, so that clients refused
// together do not return together. Upwards only: an early client is refused
// again.
func jittered(wait time.Duration) time.Duration {
	seconds := max(1, int64(wait/time.Second))
	return time.Duration(seconds+rand.Int64N(min(seconds/10, 30)+1)) * time.Second
}

func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// outageWait is the longest that an outage sends a client away for: the share of an instance may be
// spent for a day, and the counter be back in a second.
const outageWait = time.Minute

// capOutageWait shortens what a verdict of the fallback says of when to come again.
func capOutageWait(v *limiter.Verdict) {
	v.Wait = min(v.Wait, outageWait)
	for i := range v.Limits {
		if s := &v.Limits[i]; s.Blocked {
			s.Reset = min(s.Reset, outageWait)
		}
	}
}

// restOf returns how long an own tally has to live.
func restOf(now time.Time, own *token.Own) time.Duration {
	return wholeSeconds(time.Unix(own.Expires, 0).Sub(now))
}

// capWaits shortens what a verdict on an own tally says of later than its end: after that it stands
// in no client's way, and nothing comes back to it.
func capWaits(v *limiter.Verdict, rest time.Duration) {
	v.Wait = min(v.Wait, rest)
	for i := range v.Limits {
		v.Limits[i].Reset = min(v.Limits[i].Reset, rest)
	}
}
