// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/internal/plan"
	"github.com/tallystick/tallystick/storeless"
)

// raise has a working copy count no less than its caller knows ([exact.Call.Known]). Both count charges that were made, and the
// larger is the nearer to the truth.
func (s *working) raise(known []exact.Used) {
	p := s.policy
	var tally limiter.Tally
	for i := range known {
		k := &known[i]
		n := slices.Index(p.IDs[:len(p.Limits)], k.ID)
		if n < 0 {
			continue
		}
		is := limiter.State{At: k.At, Cur: min(k.Cur, storeless.MaxQuota), Prev: min(k.Prev, storeless.MaxQuota)}
		switch {
		case plan.Logged(p.Limits[n].Algorithm):
			s.logs[n].raise(&p.Limits[n], s.now, is)
			continue
		case p.Interval[n] > 0: // no more than all of it is owed, whatever clock has written the mark
			is = limiter.State{At: min(is.At, s.moment+p.Empties[n])}
		}
		tally[n] = is
	}
	s.tally = p.Tokens.Merge(s.now, s.tally, tally)
	for i := range p.Limits {
		if plan.Logged(p.Limits[i].Algorithm) {
			s.tally[i] = limiter.State{}
		}
	}
}
