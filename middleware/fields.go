// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
)

// Fields says by which response fields clients are told how the limits stand: values
// joined by |, and no other field is sent. One of the two kinds of RateLimit fields and one
// unit of X-RateLimit may go together. Both tell of the same decision;
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

	// XRateLimitInSeconds are X-RateLimit-Limit, -Remaining and -Reset of the tightest
	// limit, with a Reset in seconds from now.
	XRateLimitInSeconds

	// XRateLimitInUnixTime are the same, with a Reset in seconds since the epoch. No
	// standard has ever said which of the two it is.
	XRateLimitInUnixTime

	allFields Fields = 1<<iota - 1
)

const (
	kindsOfRateLimit = RateLimitFields | RateLimitDraft7
	unitsOfX         = XRateLimitInSeconds | XRateLimitInUnixTime
)

// has reports whether f has one of these.
func (f Fields) has(these Fields) bool { return f&these != 0 }

// sound reports whether f chooses no two spellings of one thing.
func (f Fields) sound() bool {
	for _, one := range [...]Fields{kindsOfRateLimit, unitsOfX} {
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
		{kindsOfRateLimit, []string{"RateLimit", "RateLimit-Policy"}},
		{unitsOfX, []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}},
	} {
		if f.has(group.of) {
			names = append(names, group.names...)
		}
	}
	return names
}

// policyField returns the RateLimit-Policy field of a policy in the spelling of f: a
// constant. For a bucket, q is what may pass at once and w the time in which it fills
// again, so that r never exceeds q. Shadows are left out.
func policyField(f Fields, p *limiter.Policy) string {
	all := published(p)
	var b []byte
	for i, l := range all {
		switch {
		case f.has(RateLimitFields):
			b = fmt.Appendf(separated(b), "%q;q=%d;w=%d", l.name, l.q, l.w)
		case f.has(RateLimitDraft7) && !slices.ContainsFunc(all[:i], l.sameFor) && !slices.ContainsFunc(all[i+1:], l.lessThan):
			b = fmt.Appendf(separated(b), "%d;w=%d", l.q, l.w)
		}
	}
	return string(b)
}

// A publishedLimit is what RateLimit-Policy says of a limit; w is in seconds.
type publishedLimit struct {
	name string
	q, w int64
}

// The older drafts name limits by their quota, and prohibit two of one quota: of several
// that have the same, the first with the longest window is told of, which is what holds a
// client back.
func (l publishedLimit) sameFor(earlier publishedLimit) bool {
	return earlier.q == l.q && earlier.w >= l.w
}

func (l publishedLimit) lessThan(later publishedLimit) bool { return later.q == l.q && later.w > l.w }

func published(p *limiter.Policy) (all []publishedLimit) {
	for i := range p.Len() {
		l := p.Limit(i)
		if l.Shadow {
			continue
		}
		w := int64(l.Window / time.Second)
		if l.Burst > 0 {
			w = (w*l.Burst + l.Quota - 1) / l.Quota
		}
		all = append(all, publishedLimit{l.Name, atOnce(l), w})
	}
	return all
}

func separated(b []byte) []byte {
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	return b
}

// atOnce returns the most that may pass at once: what Remaining starts from.
func atOnce(l limiter.Limit) int64 {
	if l.Burst > 0 {
		return l.Burst
	}
	return l.Quota
}

// appendRateLimit appends the RateLimit field: a List of Strings with the
// parameters r and t (RFC 9651; the draft is named in the package documentation). A
// limit that nothing was used of has no t, since nothing is going to change. On
// a refusal only the limits that refused have one: Retry-After should not lie
// before any t, and the others may rise long after it. A limit that is not known is left out. b is empty.
func appendRateLimit(b []byte, names []string, v *limiter.Verdict) []byte {
	for i, name := range names {
		if name == "" || v.Limits[i].Remaining == unknown {
			continue
		}
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `";r=`...)
		b = strconv.AppendInt(b, v.Limits[i].Remaining, 10)
		if s := &v.Limits[i]; s.Reset > 0 && (s.Blocked || v.Wait == 0) {
			b = append(b, ";t="...)
			b = strconv.AppendInt(b, int64(s.Reset/time.Second), 10)
		}
	}
	return b
}
