package middleware

import (
	"fmt"
	"slices"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// policyField returns the RateLimit-Policy field of a policy in the spelling of f: a
// constant. For a bucket, q is what may pass at once and w the time in which it fills
// again, so that r never exceeds q.
//
// The older drafts name limits by their quota, and prohibit two of one quota. Of several
// that have the same, the one with the longest window is what holds a client back.
func policyField(f Fields, p *storeless.Policy) string {
	var b []byte
	for i := range p.Len() {
		name, q, w := published(p, i)
		switch {
		case f.has(RateLimitFields):
			b = fmt.Appendf(separated(b), "%q;q=%d;w=%d", name, q, w)
		case f.has(olderRateLimit) && !slices.ContainsFunc(others(p, i), func(o int) bool {
			_, itsQ, itsW := published(p, o)
			return itsQ == q && (itsW > w || itsW == w && o < i)
		}):
			b = fmt.Appendf(separated(b), "%d;w=%d", q, w)
		}
	}
	return string(b)
}

// published returns what RateLimit-Policy says of a limit; w is in seconds.
func published(p *storeless.Policy, i int) (name string, q, w int64) {
	l := p.Limit(i)
	q, w = atOnce(l), int64(l.Window/time.Second)
	if l.Burst > 0 {
		w = (w*l.Burst + l.Quota - 1) / l.Quota
	}
	return l.Name, q, w
}

// others returns the places of all limits but one.
func others(p *storeless.Policy, i int) (all []int) {
	for o := range p.Len() {
		if o != i {
			all = append(all, o)
		}
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
func atOnce(l Limit) int64 {
	if l.Burst > 0 {
		return l.Burst
	}
	return l.Quota
}
