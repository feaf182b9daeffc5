// SPDX-License-Identifier: Apache-2.0

package httpfield

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Forever is the longest wait that a time.Duration can hold in whole seconds. It
// stands for any longer one.
const Forever = math.MaxInt64 / time.Second * time.Second

// RetryAfter reads a Retry-After (RFC 9110, section 10.2.3): whole seconds or a
// date. Zero means that there is none or that it says nothing; a time that has
// come already means one second, because a server that refuses does not mean "at
// once".
//
// A date is compared with the Date of the same response, if it has one: the
// server's own clock, where ours may be wrong.
func RetryAfter(now time.Time, h http.Header) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After")) // HTTP/2 hands it on as it is
	if wait, ok := Seconds(value); ok {
		return max(wait, time.Second)
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

// Seconds reads digits: seconds, or Forever.
func Seconds(s string) (wait time.Duration, ok bool) {
	if !IsDigits(s) {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > uint64(Forever/time.Second) {
		return Forever, true
	}
	return time.Duration(n) * time.Second, true
}

// IsDigits tells a number, which may be too large, from what is none.
func IsDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || '9' < s[i] {
			return false
		}
	}
	return s != ""
}

// Idempotent reports whether a request of a method may be repeated even if it was processed (RFC
// 9110, section 9.2.2).
func Idempotent(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}
