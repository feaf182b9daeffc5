// SPDX-License-Identifier: Apache-2.0

package limiter

// shadow adds to the verdict of a tally which shadows would have refused for a network.
// If one of them had been in force, none of its cells would have been charged.
func (p *Policy) shadow(v *Verdict, wide *statuses) {
	for i := range p.rules {
		if p.rules[i].limit.Shadow && wide[i].Blocked {
			v.Limits[i].Blocked = true
		}
	}
}

// narrow shows, limit by limit, the standing of a network, whose policy is p, where it leaves less
// than the tally's own. Where both stand in the way, both must give way.
func (p *Policy) narrow(now int64, t *Tally, price Price, charged bool, v *Verdict, wide *statuses) {
	for i := range p.rules {
		r, own, other, cost := &p.rules[i], &v.Limits[i], &wide[i], price.Of(i)
		r.leave(cost, charged, v.Admitted, other)
		if own.Blocked && !other.Blocked || !own.Blocked && other.Remaining > own.Remaining {
			continue // the network has room
		}
		r.reset(now, t[i], cost, other)
		if !own.Blocked && other.Remaining < own.Remaining {
			*own = *other // and blocked, if it is
		} else if own.Blocked || own.Reset > 0 {
			own.Remaining, own.Reset = min(own.Remaining, other.Remaining), max(own.Reset, other.Reset)
		}
	}
}
