// SPDX-License-Identifier: Apache-2.0

package storeless

// shadow adds to the verdict of a tally which shadows would have refused for a network.
// If one of them had been in force, none of its cells would have been charged.
func (p *Policy) shadow(v, wide *Verdict) {
	for i := range p.rules {
		if p.rules[i].limit.Shadow && wide.Limits[i].Blocked {
			v.Limits[i].Blocked = true
		}
	}
}
