// SPDX-License-Identifier: Apache-2.0

package middleware

import "math/bits"

// Fields says by which response fields clients are told how the limits stand: values
// joined by |, and no other field is sent. One of the three kinds of RateLimit fields, one
// unit of X-RateLimit and one of X-Quota may go together. All tell of the same decision;
// docs/wire.md shows each. All limiters of one stack should have the same.
type Fields uint8

const (
	// RateLimitFields are RateLimit and RateLimit-Policy, of all limits, as in the draft
	// that the package documentation names.
	RateLimitFields Fields = 1 << iota

	// RateLimitDraft7 are the fields of the same names in
	// draft-ietf-httpapi-ratelimit-headers-07, of the tightest limit: limit=, remaining=,
	// reset=.
	RateLimitDraft7

	// RateLimitDraft6 are RateLimit-Limit, -Remaining and -Reset of the tightest limit, and
	// RateLimit-Policy, as in draft-ietf-httpapi-ratelimit-headers-06 and the ones before.
	RateLimitDraft6

	// XRateLimitInSeconds are X-RateLimit-Limit, -Remaining and -Reset of the tightest
	// limit, with a Reset in seconds from now.
	XRateLimitInSeconds

	// XRateLimitInUnixTime are the same, with a Reset in seconds since the epoch. No
	// standard has ever said which of the two it is.
	XRateLimitInUnixTime

	// XQuotaInSeconds are X-Quota-Limit, -Used and -Reset of the limit with the longest
	// window, with a Reset in seconds from now.
	XQuotaInSeconds

	// XQuotaInUnixTime are the same, with a Reset in seconds since the epoch.
	XQuotaInUnixTime

	allFields Fields = 1<<iota - 1
)

const (
	kindsOfRateLimit = RateLimitFields | RateLimitDraft7 | RateLimitDraft6
	olderRateLimit   = RateLimitDraft7 | RateLimitDraft6
	unitsOfX         = XRateLimitInSeconds | XRateLimitInUnixTime
	unitsOfXQuota    = XQuotaInSeconds | XQuotaInUnixTime
)

// has reports whether f has one of these.
func (f Fields) has(these Fields) bool { return f&these != 0 }

// sound reports whether f chooses no two spellings of one thing.
func (f Fields) sound() bool {
	for _, one := range [...]Fields{kindsOfRateLimit, unitsOfX, unitsOfXQuota} {
		if bits.OnesCount8(uint8(f&one)) > 1 {
			return false
		}
	}
	return f&^allFields == 0
}

// names returns the response fields that f sends, in the spelling of the documentation.
func (f Fields) names() (names []string) {
	for _, group := range [...]struct {
		of    Fields
		names []string
	}{
		{RateLimitFields | RateLimitDraft7, []string{"RateLimit", "RateLimit-Policy"}},
		{RateLimitDraft6, []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit-Policy"}},
		{unitsOfX, []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}},
		{unitsOfXQuota, []string{"X-Quota-Limit", "X-Quota-Used", "X-Quota-Reset"}},
	} {
		if f.has(group.of) {
			names = append(names, group.names...)
		}
	}
	return names
}
