// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/httpfield"
)

const (
	// mute is the pause for a 429 that does not say how long.
	mute = time.Second

	// believed is the longest pause that a response is believed. Services write the same
	// fields in several units: a misread one stops all calls for an hour, not a year; a
	// true one comes again with the next response.
	believed = time.Hour
)

// retryAfter returns how long a response wants to be left alone; 0: not at all.
//
// A refusal, 429 (RFC 6585) or 503 (RFC 9110), says so by Retry-After. Any response may say
// that nothing is left: by r=0 and t in a RateLimit field (draft-ietf-httpapi-ratelimit-headers),
// or by a remaining of 0 and a reset in x-ratelimit fields, which are no standard.
func retryAfter(now time.Time, resp *http.Response) time.Duration {
	var wait time.Duration
	refused := resp.StatusCode == http.StatusTooManyRequests
	if refused || resp.StatusCode == http.StatusServiceUnavailable {
		wait = httpfield.RetryAfter(now, resp.Header)
	}
	if wait == 0 { // else that is what counts: draft section 6
		wait = xRateLimit(now, resp.Header)
		for _, limit := range httpfield.RateLimits(resp.Header) {
			if limit.Remaining == 0 {
				wait = max(wait, limit.Reset)
			}
		}
	}
	if wait == 0 && refused {
		wait = mute
	}
	return min(wait, believed)
}

// The prefixes of remaining and reset, with what is counted behind them or nothing:
// X-Ratelimit-Remaining-Tokens.
const (
	xRemaining = "X-Ratelimit-Remaining"
	xReset     = "X-Ratelimit-Reset"
)

// xRateLimit returns the longest reset of what has nothing left.
func xRateLimit(now time.Time, h http.Header) (wait time.Duration) {
	for name, values := range h {
		of, ok := strings.CutPrefix(name, xRemaining)
		if ok && len(values) > 0 && strings.TrimSpace(values[0]) == "0" {
			wait = max(wait, reset(now, strings.TrimSpace(h.Get(xReset+of))))
		}
	}
	return wait
}

// reset reads a time in its usual forms: 6m0s, 20ms, 2.5 or 7 for seconds, and Unix
// seconds, which are too large for a wait.
func reset(now time.Time, s string) time.Duration {
	if d, err := time.ParseDuration(s); err == nil {
		return max(0, d)
	}
	n, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || !(n > 0):
		return 0
	case n < 1e9:
		return time.Duration(min(n, believed.Seconds()) * float64(time.Second))
	case n > 1e10: // in other units
		return 0
	}
	return max(0, time.Unix(int64(n), 0).Sub(now))
}
