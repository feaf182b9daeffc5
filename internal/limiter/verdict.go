// SPDX-License-Identifier: Apache-2.0

package limiter

// Least returns the smallest Remaining among the first n limits, shadows aside.
func (v *Verdict) Least(n int) int64 { return v.Room(n, Price{Cost: 1}) }

// Room returns how many requests of a price, which is above 0, the first n limits leave room for, shadows aside.
func (v *Verdict) Room(n int, price Price) int64 {
	room := int64(MaxQuota)
	for i := range v.Limits[:n] {
		if s, cost := &v.Limits[i], price.Of(i); !s.Shadow && cost > 0 {
			room = min(room, s.Remaining/cost)
		}
	}
	return room
}

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
