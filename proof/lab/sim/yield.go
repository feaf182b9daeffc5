// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"

	"github.com/tallystick/tallystick/internal/sale"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/pages"
	"github.com/tallystick/tallystick/proof/players"
)

// A place is what an attacker holds: one address, or a network.
type place struct {
	name   string
	crowds int                // how many crowds it is expected to hide: the middleware's
	addr   func(k int) string // from which it buys its k-th tally of an instance
	free   []string           // from which it asks for what costs nothing
	quotas int64              // how many it has of these
}

// places are an address, a /56 and a /48. The attacker uses a fresh /64 for each tally, and of
// a /48 one of each /56 in turn.
var places = []place{
	{"", 1, func(int) string { return v4(0) }, one, 1},
	{", from a whole /56", 2, func(k int) string { return v6(k % 256 << 8) }, whole56, 8},
	{", from a whole /48", 8, v6, whole48, 64},
}

// nothing is what n instances admit of what costs nothing.
func (p place) nothing(n int) int64 { return int64(n) * p.quotas * attacked }

// topPrice is the highest at which anything is sold, by the default Work.
const topPrice = unit * (sale.MaxPrice / pow.DefaultWork)

// buyer has an attacker buy as cleverly as it can.
func (p place) buyer(a *players.Attacker) *players.Buyer {
	return a.Buyer(p.crowds*crowd, topPrice, p.addr)
}

// harvested spends a purse at n instances in no time, and uses all that it has bought.
func harvested(o Options, n int, p place, purse int64, clients int) players.Gain {
	s := selling(middleware.WhenExhausted)
	s.Cost, s.MaxClients = costOf, clients
	if clients == 0 && p.crowds > 1 {
		s.MaxClients = 1 << 16 // in a small memory a /48 alone has its part of what is for sale, and pays more
	}
	f := newFleet(o, fmt.Sprint("yield", n, p.name, purse), n, s)
	a := f.attacker(p.free...)
	for b := p.buyer(a); b.Buy(purse) != ""; {
	}
	a.Drop()
	a.Use(attacked) // one request that costs all of a tally is worth as many that cost 1
	got := a.Gained()
	if got.Solved != got.Bought {
		panic("sim: a proof at 8/15 of the price is not accepted")
	}
	return got
}

// mostTallies is what docs/bounds.md says of F: what n instances sell at once, for so many W,
// from a place. No tally costs less than W.
func (p place) mostTallies(n int, budget float64) int64 {
	all := float64(n * p.crowds * crowd)
	return int64(min(budget, all*math.Log2(1+15./8*budget/all)))
}

// yieldTable: requests for work.
func yieldTable(o Options) pages.Made {
	t := table("yield", "work", "N = 1", "N = 3", "N = 10", "N = 100")
	spend := func(budget int64, p place) {
		t.Add(budget < 1000, func() []any {
			cells := []any{pages.Figure(budget) + " W" + p.name}
			for _, n := range sizes {
				most := p.mostTallies(n, float64(budget)) * int64(n) * attacked
				cells = append(cells, result{harvested(o, n, p, budget*unit, 0).Admitted, p.nothing(n) + most})
			}
			return cells
		})
	}
	for _, budget := range []int64{0, 1, 8, 100, 1000} {
		spend(budget, places[0])
	}
	spend(1000, places[1])
	spend(1000, places[2])
	return t
}
