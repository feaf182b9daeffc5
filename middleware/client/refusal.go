// SPDX-License-Identifier: Apache-2.0

package client

import (
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/httpfield"
	"github.com/tallystick/tallystick/pow"
)

// Bounds on what is read of a refusal.
const (
	// maxChallenges is how many lines of challenges are looked at, each as long
	// as pow.ParseHeader reads.
	maxChallenges = 4
	// maxTTL is the longest life that an issuer gives a challenge.
	maxTTL = 5 * time.Minute
)

// refusal is what a response says about a request that was not processed.
type refusal struct {
	status     int
	challenged bool          // there is a challenge, whether or not it can be read
	challenge  pow.Challenge // without text if it cannot
	wait       time.Duration // by Retry-After; zero if it says nothing
}

// readRefusal reports whether resp is a refusal, and reads it.
func readRefusal(resp *http.Response) (r refusal, ok bool) {
	h := resp.Header
	r.status = resp.StatusCode
	switch r.status {
	case http.StatusTooManyRequests, http.StatusForbidden:
		r.challenged = len(h[pow.ChallengeField]) > 0
		r.challenge = readChallenge(h)
	case http.StatusServiceUnavailable:
	default:
		return refusal{}, false
	}
	r.wait = httpfield.RetryAfter(time.Now(), h)
	switch r.status {
	case http.StatusForbidden:
		ok = r.challenged // any other is about what the client may do
	case http.StatusServiceUnavailable:
		ok = r.wait > 0 // any other is a failure
	default:
		ok = true
	}
	return r, ok
}

// readChallenge returns the first challenge that can be read.
func readChallenge(h http.Header) pow.Challenge {
	lines := h[pow.ChallengeField]
	for _, line := range lines[:min(len(lines), maxChallenges)] {
		if c, err := pow.ParseHeader(line); err == nil {
			// Parse does not check it; without a bound a challenge could hold a
			// solver for 18 hours.
			c.TTL = min(c.TTL, maxTTL)
			return c
		}
	}
	return pow.Challenge{}
}

// unknown is what remains where the server does not say.
const unknown = -1

// remaining returns the smallest r of a response's RateLimit fields, or unknown.
func remaining(h http.Header) int {
	least := unknown
	for _, l := range httpfield.RateLimits(h) {
		if least == unknown || l.Remaining < least {
			least = l.Remaining
		}
	}
	return least
}

// kindOf tells challenges apart by purpose, so that requests with the same need can pay
// together. A challenge does not name its policy, but all requests of a policy have the same
// RateLimit-Policy beside it. If a pass has another quota than the shared tally, there are
// two of them, and two may pay at a time. In quiet mode there is none, and the route must
// do. After a wrong guess a request waits for a token that does not help it.
func kindOf(h http.Header, route uint64) uint64 {
	policies := h["Ratelimit-Policy"]
	if len(policies) == 0 {
		return route
	}
	f := fnv.New64a()
	for _, p := range policies {
		_, _ = io.WriteString(f, p)
	}
	return f.Sum64()
}

// jitter lengthens a wait, so that clients that were refused together do not
// come back together: by up to a tenth, at most three seconds, and never beyond
// most.
func jitter(wait, most time.Duration) time.Duration {
	spread := min(wait/10, 3*time.Second, most-wait)
	if spread <= 0 {
		return wait
	}
	return wait + rand.N(spread)
}
