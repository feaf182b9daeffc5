package middleware

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// policyField returns the RateLimit-Policy field of a policy: a constant. For a
// bucket, q is what may pass at once and w the time in which it fills again, so
// that r never exceeds q.
func policyField(p *storeless.Policy) string {
	var b []byte
	for i := range p.Len() {
		l := p.Limit(i)
		q, w := atOnce(l), int64(l.Window/time.Second)
		if l.Burst > 0 {
			w = (w*l.Burst + l.Quota - 1) / l.Quota
		}
		if i > 0 {
			b = append(b, ", "...)
		}
		b = fmt.Appendf(b, "%q;q=%d;w=%d", l.Name, q, w)
	}
	return string(b)
}

// atOnce returns the most that may pass at once: what Remaining starts from.
func atOnce(l Limit) int64 {
	if l.Burst > 0 {
		return l.Burst
	}
	return l.Quota
}

// appendRateLimit appends the RateLimit field: a List of Strings with the
// parameters r and t (draft-ietf-httpapi-ratelimit-headers-10, RFC 9651). A
// limit that nothing was used of has no t, since nothing is going to change. On
// a refusal only the limits that refused have one: Retry-After should not lie
// before any t, and the others may rise long after it.
func appendRateLimit(b []byte, names []string, v *storeless.Verdict) []byte {
	for i, name := range names {
		if i > 0 {
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

// tightest returns the limit that leaves least, and of those the one that does
// so for longest.
func tightest(v *storeless.Verdict, n int) int {
	best := 0
	for i := 1; i < n; i++ {
		a, b := &v.Limits[i], &v.Limits[best]
		if a.Remaining < b.Remaining || a.Remaining == b.Remaining && a.Reset > b.Reset {
			best = i
		}
	}
	return best
}
