// SPDX-License-Identifier: Apache-2.0

package main

import "math/rand/v2"

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

// met lets one kind of attacker meet the newcomers, which are fresh in each run.
func (g *siege) met(kind func() *attacker) (all crowd, spent, bought int64) {
	for run := range g.runs {
		s := g.street(run)
		if kind != nil {
			s.attacker = kind()
			s.attacker.as = g.place.attacker(s.stall)
		}
		s.run(days)
		all = all.plus(s.fared())
		if s.attacker != nil {
			spent, bought = spent+s.attacker.spent, bought+s.attacker.bought
		}
	}
	return all, spent, bought
}

func (g *siege) street(run int) *street {
	r, s := random(g.daily, run), open()
	return &street{stall: s, random: r, patience: g.patience,
		list: arrivals(r, days, g.daily, g.place.newcomer(s))}
}

// kinds are the attackers with this budget. One spends all at the start of each hour; the
// others have saved a day's budget, and buy only below what a victim can pay.
func (g *siege) kinds() (all []func() *attacker) {
	all = append(all, func() *attacker { return &attacker{hourly: g.hourly, stock: true} })
	for _, target := range targets(g.patience) {
		for _, stock := range []bool{false, true} {
			all = append(all, func() *attacker {
				return &attacker{purse: 24 * g.hourly, hourly: g.hourly, target: target, stock: stock}
			})
		}
	}
	return all
}

// fared is the worst of what an attacker with this budget can do to desktops, the
// worst of what it can do to phones, and the most tallies it can get in a day.
func (g *siege) fared() (worst crowd, daily int64) {
	if g.hourly == 0 {
		worst, _, _ = g.met(nil)
		return worst, 0
	}
	for i, kind := range g.kinds() {
		c, _, bought := g.met(kind)
		if i == 0 || c.desktops.in < worst.desktops.in {
			worst.desktops = c.desktops
		}
		if i == 0 || c.phones.in < worst.phones.in {
			worst.phones = c.phones
		}
		daily = max(daily, bought/(days*int64(g.runs)))
	}
	return worst, daily
}

// targets are the prices at which a holder buys: some that phones can just pay, and some
// that desktops can.
func targets(patience int64) (list []int64) {
	for _, rate := range []int64{phone, desktop} {
		affordable := rate * patience / second
		list = append(list, affordable/2, affordable)
	}
	return list
}

// held is what it costs an hour to hold the price at a target, and whether fewer than one
// in fifty of the victims get in then. rate is the victims'.
func (g *siege) held(rate, target int64, stock bool) (hourly int64, shut bool) {
	all, spent, _ := g.met(func() *attacker { return &attacker{purse: 1 << 60, target: target, stock: stock} })
	victims := all.desktops
	if rate == phone {
		victims = all.phones
	}
	return spent / int64(g.runs) / (days * 24), 50*victims.in < victims.came
}

// shut is what it costs an hour to shut the victims out: the cheapest of the attackers
// that hold the price at a target, from a third of what a victim can pay upwards, in steps
// of about an eighth.
func (g *siege) shut(rate int64) (least int64) {
	for _, stock := range []bool{false, true} {
		for target := rate * g.patience / second / 3; ; target += target / 8 {
			if hourly, shut := g.held(rate, target, stock); shut {
				if least == 0 || hourly < least {
					least = hourly
				}
				break
			}
		}
	}
	return least
}
