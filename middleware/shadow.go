// SPDX-License-Identifier: Apache-2.0

package middleware

import "github.com/tallystick/tallystick/storeless"

// charged returns p with those limits alone that the request was charged on, and has the
// networks of f do the same. A shadow that would have refused it has counted nothing of it, and there
// is nothing to give back or to add to.
func (d *record) charged(p *storeless.Policy, f *storeless.Candidate) *storeless.Policy {
	isCharged := func(i int) bool { return !(p.Limit(i).Shadow && d.statusOf(i).blocked()) }
	for i := range p.Len() {
		if isCharged(i) {
			continue
		}
		for n := range f.Networks {
			f.Networks[n].Policy = f.Networks[n].Policy.Charging(isCharged)
		}
		return p.Charging(isCharged)
	}
	return p
}
