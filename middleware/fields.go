// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/exact"
)

// Fields says by which response fields clients are told how the limits stand: values
// joined by |, and no other field is sent. Both tell of the same decision;
// docs/wire.md shows each. All limiters of one stack should have the same.
type Fields uint8

const (
	// RateLimitFields are RateLimit and RateLimit-Policy, of all limits, as in the draft
	// that the package documentation names.
	RateLimitFields Fields = 1 << iota

	// XRateLimitInSeconds are X-RateLimit-Limit, -Remaining and -Reset of the tightest
	// limit, with a Reset in seconds from now.
	XRateLimitInSeconds

	allFields Fields = 1<<iota - 1
)

// has reports whether f has one of these.
func (f Fields) has(these Fields) bool { return f&these != 0 }

// names returns the response fields that f sends, in the spelling of the documentation.
func (f Fields) names() (names []string) {
	if f.has(RateLimitFields) {
		names = append(names, "RateLimit", "RateLimit-Policy")
	}
	if f.has(XRateLimitInSeconds) {
		names = append(names, "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
	}
	return names
}

// policyField returns the RateLimit-Policy field of a policy, a constant: "" where f has no such field. For a bucket, q is what
// may pass at once and w the time in which it fills again, so that r never exceeds q. Windows of the calendar, which a
// counter has, have no w: they differ in length. Shadows are left out.
func policyField(f Fields, p *limiter.Policy, units []string, x *exact.Policy) string {
	if !f.has(RateLimitFields) {
		return ""
	}
	var b []byte
	for i := range p.Len() {
		l := p.Limit(i)
		if l.Shadow {
			continue
		}
		w := int64(l.Window / time.Second)
		if l.Burst > 0 {
			w = (w*l.Burst + l.Quota - 1) / l.Quota
		}
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		b = fmt.Appendf(b, "%q;q=%d", l.Name, atOnce(l))
		if x == nil || x.Limit(i).Calendar == "" {
			b = fmt.Appendf(b, ";w=%d", w)
		}
		if units != nil && units[i] != "" {
			b = fmt.Appendf(b, ";qu=%q", units[i])
		}
	}
	return string(b)
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
		b = append(append(b, name...), ";r="...)
		b = strconv.AppendInt(b, v.Limits[i].Remaining, 10)
		if s := &v.Limits[i]; s.Reset > 0 && (s.Blocked || v.Wait == 0) {
			b = append(b, ";t="...)
			b = strconv.AppendInt(b, int64(s.Reset/time.Second), 10)
		}
	}
	return b
}
