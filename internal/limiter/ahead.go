// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"math"
	"time"
)

// latestAhead is the last µs that Ahead reports: the distance to a later one overflows time.Duration.
const latestAhead = math.MaxInt64 / 1000

// Ahead returns a lower bound of how far the clock that counted t is ahead of now, if that is more
// than the allowed skew: a window of t begins that much later. 0 where no window shows it. The
// mark of a bucket shows nothing: it is ahead by what is owed, perhaps under a larger burst than p knows of.
func (p *Policy) Ahead(now time.Time, t *Tally) time.Duration {
	us, most := micros(now), int64(0)
	for i := range p.rules {
		if r, s := &p.rules[i], t[i]; r.interval == 0 && r.ahead(us, s) {
			most = max(most, min(s.At, latestAhead/r.window)*r.window-us)
		}
	}
	return time.Duration(most) * time.Microsecond
}
