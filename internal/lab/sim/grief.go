// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"net/http"

	"github.com/tallystick/tallystick/internal/attackers"
	"github.com/tallystick/tallystick/middleware"
)

type grief struct {
	holders  *people
	newcomer int64 // hashes; 0: nobody was let in
}

// grieved has 20 holders of tallies use half of them. Then a neighbour at their address spends
// its purse, uses up all that it has bought and all that the address has for nothing, and shows
// every proof and token of its own everywhere. Then the holders go on, and a newcomer comes.
func grieved(o Options, mode middleware.Mode, budget int64) grief {
	return unlessByChance(func() grief { return grievedOnce(o, mode, budget) }, func(g grief) bool { return g.holders.over > 0 })
}

func grievedOnce(o Options, mode middleware.Mode, budget int64) grief {
	s := selling(mode)
	p := gathered(newFleet(o, fmt.Sprint("grief", mode), 10, s), attacked)
	f := p.f // chance is the same for all budgets: the holders go to the same instances
	holders := f.attacker(v4(0))
	for range 20 {
		i, c := holders.Next(), &client{addr: v4(0)}
		holders.Buy(i)
		p.keep(c, attackers.Answer{Status: http.StatusOK, Header: http.Header{middleware.TokenHeader: {holders.Owned()[len(p.all)]}}}, f.all[i], f.all[i])
		clear(c.own.used) // nothing was used yet
		p.all = append(p.all, c)
	}
	half := func() {
		for range attacked / 2 {
			for _, c := range p.all {
				p.ask(c, f.any)
			}
		}
	}
	half()
	a := f.attacker(v4(0))
	b := places()[0].buyer(a)
	for b.Buy(budget*unit) != "" {
	}
	a.Drop()
	a.Use(1)
	before := p.proofs
	half()
	p.proofs -= before
	late := gathered(f, attacked)
	late.all = []*client{{addr: v4(0)}}
	late.ask(late.all[0], f.any)
	g := grief{holders: p}
	if late.admitted > 0 {
		g.newcomer = late.dearest
	}
	return g
}

// asked writes what a newcomer pays.
func (g *grief) asked() string { return fmt.Sprintf("%.1f W", float64(g.newcomer)/unit) }

// griefTable: what a neighbour's work does to those that have paid.
func griefTable(o Options) Table {
	t := Table{Name: "grief", Page: Page, Head: []string{
		"a neighbour pays", "requests of 20 holders", "admitted", "refused under their limit", "proofs asked of them", "a newcomer then pays",
		"with `Instances` 1: refused", "proofs", "a newcomer",
	}}
	for _, budget := range []int64{0, 8, 32, 1200, 20_000} {
		t.Rows = append(t.Rows, Row{Quick: budget < 1000, Make: func() []string {
			g, whole := grieved(o, middleware.WhenExhausted, budget), grieved(o.expecting(1), middleware.WhenExhausted, budget)
			p := g.holders
			return []string{
				figure(budget) + " W", figure(p.requests), figure(p.admitted), p.refused(), figure(p.proofs), g.asked(),
				whole.holders.refused(), figure(whole.holders.proofs), whole.asked(),
			}
		}})
	}
	return t
}
