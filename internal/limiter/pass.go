// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"time"
)

// PassLife returns how long a pass for memory lives: two of the longest windows of p that
// are no longer than memory, and an hour at least. Shadows do not count.
func (p *Policy) PassLife(memory time.Duration) time.Duration {
	life := time.Hour
	for i := range p.rules {
		if w := p.rules[i].limit.Window; w <= memory && !p.rules[i].limit.Shadow {
			life = max(life, 2*w)
		}
	}
	return life
}

// Pass returns what a tally that is bought may use in its life, [Policy.PassLife], where
// sales are remembered for memory. It is a policy of the shape of p.
//
// Tallies are sold anew in each memory. With a whole quota in each of them, a day's quota
// would be for sale every hour. So a limit whose window is longer than memory has only the
// part of its quota that falls on memory, rounded up. It has at least the largest quota or
// burst of the limits whose windows are not longer, so that the pass can use those to the
// full, at least 1, and never more than its whole quota. That is for all of the tally's life:
// it does not come back at a boundary of the window. A client that needs more buys the next
// pass.
//
// The other limits are p's. A [Memory] counts passes in cells of their own. Pass panics if memory is below a second.
func (p *Policy) Pass(memory time.Duration) *Policy {
	if memory < time.Second {
		panic(fmt.Sprintf("limiter: no pass for %s", memory))
	}
	least := int64(1)
	for i := range p.rules {
		if r := &p.rules[i]; r.limit.Window <= memory && !r.limit.Shadow {
			least = max(least, r.limit.Quota, r.capacity)
		}
	}
	pass := p.clone()
	pass.life = p.PassLife(memory).Microseconds()
	for i := range pass.rules {
		r := &pass.rules[i]
		if r.limit.Window <= memory {
			continue
		}
		quota := min(r.limit.Quota, max(least, mulDivUp(r.limit.Quota, memory.Microseconds(), r.window)))
		if r.interval > 0 {
			whole := r.owes
			*r = r.passBucket(quota, pass.life)
			// It may have been sold with a whole quota, or another part. So the mark of a clock that is
			// wrong by less than a window is believed, and the pass is lost: see docs/bounds.md.
			r.owe(max(r.owes, whole, r.window))
			continue
		}
		l := r.limit
		l.Quota = quota
		*r = compile(l)
		r.life = pass.life
	}
	return pass
}

// passBucket returns the rule of a bucket's pass. A bucket leaks, so burst and rate are
// chosen together: no more than quota passes within life, the burst counted. The burst
// is as large as it can be while the bucket is empty again within a window (else a cell of
// a dead tally would stay for many); what is left of the quota leaks, no faster than
// before. So a meter, whose burst is 1, keeps nearly its rate.
func (r *rule) passBucket(quota, life int64) rule {
	// The largest burst b with b + ⌊life·b/window⌋ ≤ quota.
	burst := ((quota+1)*r.seconds - 1) / (r.seconds + life/1_000_000)
	burst = max(1, min(burst, r.limit.Burst))
	// The smallest interval that fits into life at most quota − burst times.
	interval := max(r.interval, life/(quota-burst+1)+1)
	l := r.limit
	l.Quota, l.Burst = max(1, r.window/interval), burst
	pass := compile(l)
	if pass.interval < interval { // longer than the window: no quota says that
		pass.interval, pass.empties = interval, burst*interval
		pass.owe(pass.empties)
	}
	return pass
}
