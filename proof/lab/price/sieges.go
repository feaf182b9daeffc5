// SPDX-License-Identifier: Apache-2.0

package price

import (
	"math/rand/v2"

	"github.com/tallystick/tallystick/internal/sale"
)

// days is how long newcomers are watched. The first is not counted.
const days = 4

// A siege is newcomers behind one address, and what an attacker behind it may spend.
type siege struct {
	place    place
	daily    int64 // newcomers
	patience int64
	hourly   int64 // hashes of the attacker; 0: there is none
	runs     int   // how often, with other newcomers
}

// random returns the numbers of one run. They depend on nothing but the newcomers, so
// that all rows of a table have the same ones.
func random(daily int64, run int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(daily), uint64(run)))
}

// met lets an attacker meet the newcomers, which are fresh in each run. Without a purse and a target there is none.
func (g *siege) met(a attacker) (all fared, spent int64) {
	for run := range g.runs {
		r, stall := random(g.daily, run), open(usual, few)
		s := &street{counters: []counter{stall}, stall: stall, random: r, patience: g.patience}
		s.list = arrivals(r, days, g.daily, func() []sale.Buyer { return g.place.comes(stall, r) })
		mine := a
		mine.place = g.place
		if a.purse > 0 || a.hourly > 0 {
			s.attacker = &mine
		}
		s.run(days)
		for kind := range rates {
			all.came[kind] += s.fared.came[kind]
			all.in[kind] += s.fared.in[kind]
		}
		spent += mine.spent
	}
	return all, spent
}

// attackers are those with this budget. One spends all at the start of each hour; the
// others have saved a day's budget, and buy only below what a victim can pay.
func (g *siege) attackers() []attacker {
	all := []attacker{{hourly: g.hourly, stock: true}}
	if g.hourly == 0 {
		return all
	}
	for _, kind := range []int{phone, desktop} {
		affordable := rates[kind] * g.patience / second
		for _, target := range []int64{affordable / 2, affordable} {
			for _, stock := range []bool{false, true} {
				all = append(all, attacker{purse: 24 * g.hourly, hourly: g.hourly, target: target, stock: stock})
			}
		}
	}
	return all
}

// fared is the worst of what an attacker with this budget can do to desktops, and the
// worst of what it can do to phones.
func (g *siege) fared() (worst fared) {
	for i, a := range g.attackers() {
		c, _ := g.met(a)
		if i == 0 {
			worst = c
		}
		for kind := range rates {
			worst.in[kind] = min(worst.in[kind], c.in[kind]) // as many come to each
		}
	}
	return worst
}

// rich has any budget, and holds the price at a target.
func rich(target int64, stock bool) attacker {
	return attacker{purse: 1 << 60, target: target, stock: stock}
}

// held is what it costs an hour to hold the price at a target, and whether fewer than one
// in fifty of the victims get in then.
func (g *siege) held(victims int, target int64, stock bool) (hourly int64, shut bool) {
	all, spent := g.met(rich(target, stock))
	return spent / int64(g.runs) / (days * 24), 50*all.in[victims] < all.came[victims]
}

// shut is what it costs an hour to shut the victims out: the cheapest of the attackers that hold the price at
// a target, from a third of what a victim can pay upwards, in steps of about an eighth.
func (g *siege) shut(victims int) (least int64) {
	for _, stock := range []bool{false, true} {
		for target := rates[victims] * g.patience / second / 3; ; target += target / 8 {
			if hourly, shut := g.held(victims, target, stock); shut {
				if least == 0 || hourly < least {
					least = hourly
				}
				break
			}
		}
	}
	return least
}
