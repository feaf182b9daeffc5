// SPDX-License-Identifier: Apache-2.0

package main

// A raid is what an attacker that is alone in a place buys in a time.
type raid struct {
	place place
	purse int64 // hashes
	lasts int64
}

// A lot is some tallies that were bought at one moment.
type lot struct{ now, tallies int64 }

// step is how often it looks.
func (g *raid) step() int64 { return g.lasts / 2880 }

// bought plays one plan: hold the price at target, and spend all the rest at burst.
func (g *raid) bought(target, burst int64, stock bool) (list []lot) {
	s := open()
	a := &attacker{purse: g.purse, target: target, stock: stock, as: g.place.attacker(s)}
	for now := int64(0); now < g.lasts; now += g.step() {
		before := a.bought
		a.look(s, now)
		if now == burst {
			a.target = 0
			a.look(s, now)
			a.target = target
		}
		if n := a.bought - before; n > 0 {
			list = append(list, lot{now, n})
		}
	}
	return list
}

// plans plays every plan there is, and returns what each of them buys.
func (g *raid) plans() (all [][]lot) {
	// A tally that lives for an hour is worth less if it is bought later.
	bursts := []int64{0, max(0, g.lasts-hour), g.lasts - g.step()}
	for _, stock := range []bool{false, true} {
		for target := int64(work); target <= work<<12; target *= 2 {
			for _, burst := range bursts {
				all = append(all, g.bought(target, burst, stock))
			}
		}
	}
	return all
}

// best is the most requests that a plan is worth, and the tallies of that plan.
func (u *use) best(plans [][]lot, until int64) (requests, tallies int64) {
	for _, plan := range plans {
		n, bought := int64(0), int64(0)
		for _, l := range plan {
			n += l.tallies * u.admitted(l.now, until)
			bought += l.tallies
		}
		if n > requests {
			requests, tallies = n, bought
		}
	}
	return requests, tallies
}

// most is the most tallies that a plan buys.
func most(plans [][]lot) (tallies int64) {
	for _, plan := range plans {
		n := int64(0)
		for _, l := range plan {
			n += l.tallies
		}
		tallies = max(tallies, n)
	}
	return tallies
}
