// SPDX-License-Identifier: Apache-2.0

package limiter

import "github.com/tallystick/tallystick/storeless"

// shadow adds to the verdict of a tally which shadows would have refused for a network.
// If one of them had been in force, none of its cells would have been charged.
func (p *Policy) shadow(v, wide *storeless.Verdict) {
	for i := range p.rules {
		if p.rules[i].limit.Shadow && wide.Limits[i].Blocked {
			v.Limits[i].Blocked = true
		}
	}
}

// restrict adds the verdict of a network to that of a tally.
func restrict(v, wide *storeless.Verdict) {
	v.Admitted = v.Admitted && wide.Admitted
	v.Impossible = v.Impossible || wide.Impossible
	v.Wait = max(v.Wait, wide.Wait)
	if v.Impossible {
		v.Wait = 0
	}
}

// narrow shows, limit by limit, the standing of a network where it leaves less
// than the tally's own. Where both stand in the way, both must give way.
func narrow(v, wide *storeless.Verdict, n int) {
	for i := range n {
		own, other := &v.Limits[i], wide.Limits[i]
		switch {
		case own.Blocked && other.Blocked:
			own.Remaining = min(own.Remaining, other.Remaining)
			own.Reset = max(own.Reset, other.Reset)
		case own.Blocked:
			// The network has room.
		case other.Remaining < own.Remaining: // and blocked, if it is
			*own = other
		case other.Remaining == own.Remaining && own.Reset > 0:
			own.Reset = max(own.Reset, other.Reset)
		}
	}
}
