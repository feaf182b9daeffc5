package middleware

import (
	"fmt"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// policyField returns the RateLimit-Policy field of a policy: a constant. For a
// bucket, q is what may pass at once and w the time in which it fills again, so
// that r never exceeds q. Shadows are left out.
func policyField(p *storeless.Policy) string {
	var b []byte
	for i := range p.Len() {
		l := p.Limit(i)
		if l.Shadow {
			continue
		}
		q, w := atOnce(l), int64(l.Window/time.Second)
		if l.Burst > 0 {
			w = (w*l.Burst + l.Quota - 1) / l.Quota
		}
		if len(b) > 0 {
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
