// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	"github.com/tallystick/tallystick/internal/attackers"
	"github.com/tallystick/tallystick/internal/printed"
	"github.com/tallystick/tallystick/middleware"
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
	return unlessByChance(func() grief {
		p := gathered(newFleet(o, fmt.Sprint("grief", mode), 10, selling(mode)), attacked)
		f := p.f // chance is the same for all budgets: the holders go to the same instances
		buying := f.attacker(one...)
		for range 20 {
			i := buying.Next()
			token := buying.Buy(i)
			name, _ := attackers.Claims(token)
			p.all = append(p.all, &client{addr: v4(0), token: token, own: &ownTally{name, f.all[i], map[*instance]int64{}}})
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
		late := gathered(f, attacked)
		late.ask(&client{addr: v4(0)}, f.any)
		return grief{p, late.admitted * late.dearest}
	}, func(g grief) bool { return g.over > 0 })
}

// asked writes what a newcomer pays.
func (g *grief) asked() string { return fmt.Sprintf("%.1f W", float64(g.newcomer)/unit) }

// griefTable: what a neighbour's work does to those that have paid.
func griefTable(o Options) printed.Made {
	t := table("grief", []string{
		"a neighbour pays", "requests of 20 holders", "admitted", "refused under their limit", "proofs asked of them", "a newcomer then pays",
		"with `Instances` 1: refused", "proofs", "a newcomer",
	})
	for _, budget := range []int64{0, 8, 32, 1200, 20_000} {
		t.Add(budget < 1000, func() []string {
			g, whole := grieved(o, middleware.WhenExhausted, budget), grieved(o.expecting(1), middleware.WhenExhausted, budget)
			return []string{
				printed.Figure(budget) + " W", printed.Figure(g.requests), printed.Figure(g.admitted), g.refused(), printed.Figure(g.proofs), g.asked(),
				whole.refused(), printed.Figure(whole.proofs), whole.asked(),
			}
		})
	}
	return t
}
