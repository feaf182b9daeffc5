// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/pages"
)

// A grief is what becomes of 20 holders of tallies beside a neighbour, and what a newcomer then pays, in hashes; 0
// if nobody was let in.
type grief struct {
	*people
	newcomer int64
}

// grieved has 20 holders of tallies use half of them. Then a neighbour at their address spends
// its purse, uses up all that it has bought and all that the address has for nothing. Then the holders go on, and
// a newcomer comes.
func grieved(o Options, mode middleware.Mode, budget int64) grief {
	f := newFleet(o, fmt.Sprint("grief", mode), 10, selling(mode)) // chance is the same for all budgets: the holders go to the same instances
	here := func(int) string { return v4(0) }
	p, seller := gathered(f, attacked, 20, here), f.attacker(one...)
	for _, c := range p.all {
		c.token, c.owns = seller.Buy(seller.Next()), true
	}
	half := func() {
		for range attacked / 2 {
			for _, c := range p.all {
				p.ask(c, f.any)
			}
		}
	}
	half()
	neighbour := f.attacker(one...)
	for b := places[0].buyer(neighbour); b.Buy(budget*unit) != ""; {
	}
	neighbour.Drop()
	neighbour.Use(1)
	before := p.proofs
	half()
	p.proofs -= before
	late := gathered(f, attacked, 1, here)
	late.ask(late.all[0], f.any)
	return grief{p, late.admitted * late.dearest}
}

// griefTable: what a neighbour's work does to those that have paid.
func griefTable(o Options) pages.Made {
	t := table("grief", "a neighbour pays", "requests of 20 holders", "admitted", "refused under their limit", "proofs asked of them", "a newcomer then pays")
	for _, budget := range []int64{0, 8, 32, 1200, 20_000} {
		t.Add(budget < 1000, func() []any {
			g := grieved(o, middleware.WhenExhausted, budget)
			return []any{pages.Figure(budget) + " W", g.requests, g.admitted, g.refused(), g.proofs, inW(g.newcomer)}
		})
	}
	return t
}
