// SPDX-License-Identifier: Apache-2.0

package client

import (
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// forever is the longest wait that a time.Duration can hold in whole seconds. It
// stands for any longer one.
const forever = math.MaxInt64 / time.Second * time.Second

// retryAfter reads a Retry-After (RFC 9110, section 10.2.3): whole seconds or a
// date. Zero means that there is none or that it says nothing; a time that has
// come already means one second, because a server that refuses does not mean "at
// once".
//
// A date is compared with the Date of the same response, if it has one: the
// server's own clock, where ours may be wrong.
func retryAfter(now time.Time, h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if value == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil || digits(value) {
		if err != nil || seconds > uint64(forever/time.Second) {
			return forever
		}
		return max(time.Duration(seconds)*time.Second, time.Second)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(at.Sub(now), time.Second)
}

// digits tells a number too large from what is no number.
func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || '9' < s[i] {
			return false
		}
	}
	return true
}

// jitter lengthens a wait a little, so that clients which were refused together
// do not come back together: by up to a tenth, at most three seconds, and never
// beyond most.
func jitter(wait, most time.Duration) time.Duration {
	spread := min(wait/10, 3*time.Second, most-wait)
	if spread <= 0 {
		return wait
	}
	return wait + rand.N(spread)
}
