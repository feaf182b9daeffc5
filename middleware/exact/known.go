// SPDX-License-Identifier: Apache-2.0

package exact

import (
	"slices"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// raise has a working copy count no less than its caller knows ([Call.Known]). Both count charges that were made, and the
// larger is the nearer to the truth.
func (s *working) raise(known []Used) {
	p := s.policy
	var tally limiter.Tally
	for i := range known {
		k := &known[i]
		n := slices.Index(p.ids[:len(p.limits)], k.ID)
		if n < 0 {
			continue
		}
		is := limiter.State{At: k.At, Cur: min(k.Cur, storeless.MaxQuota), Prev: min(k.Prev, storeless.MaxQuota)}
		switch {
		case logged(p.limits[n].Algorithm):
			s.logs[n].raise(&p.limits[n], s.now, is)
			continue
		case p.interval[n] > 0: // no more than all of it is owed, whatever clock has written the mark
			is = limiter.State{At: min(is.At, s.moment+p.empties[n])}
		}
		tally[n] = is
	}
	s.tally = p.tokens.Merge(s.now, s.tally, tally)
	for i := range p.limits {
		if logged(p.limits[i].Algorithm) {
			s.tally[i] = limiter.State{}
		}
	}
}
