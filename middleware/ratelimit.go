// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"fmt"
	"slices"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// policyField returns the RateLimit-Policy field of a policy in the spelling of f: a
// constant. For a bucket, q is what may pass at once and w the time in which it fills
// again, so that r never exceeds q. Shadows are left out.
func policyField(f Fields, p *storeless.Policy) string {
	all := published(p)
	var b []byte
	for i, l := range all {
		switch {
		case f.has(RateLimitFields):
			b = fmt.Appendf(separated(b), "%q;q=%d;w=%d", l.name, l.q, l.w)
		case f.has(olderRateLimit) && !slices.ContainsFunc(all[:i], l.sameFor) && !slices.ContainsFunc(all[i+1:], l.lessThan):
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

func published(p *storeless.Policy) (all []publishedLimit) {
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
func atOnce(l Limit) int64 {
	if l.Burst > 0 {
		return l.Burst
	}
	return l.Quota
}
