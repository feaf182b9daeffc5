// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"strings"

	"github.com/tallystick/tallystick/internal/shop"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/chance"
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

	spread bool // the site says that requests are spread, where there are several instances
}

// places are an address, a /56 and a /48. The attacker uses a fresh /64 for each tally, and of
// a /48 one of each /56 in turn.
var places = []place{
	{"", 1, func(int) string { return v4(0) }, one, 1, false},
	{", from a whole /56", 2, func(k int) string { return v6(k % 256 << 8) }, whole56, 8, false},
	{", from a whole /48", 8, v6, whole48, 64, false},
	{", where `Spreads` is set", 1, func(int) string { return v4(0) }, one, 1, true},
}

// crowd is how many clients each of n instances expects behind an address.
func (p place) crowd(n int) int {
	if p.spread {
		return int(chance.Spread(crowd, int64(n), 1))
	}
	return crowd
}

// nothing is what n instances admit of what costs nothing.
func (p place) nothing(n int) int64 {
	if p.spread {
		return int64(n) * chance.Spread(attacked, int64(n), 1)
	}
	return int64(n) * p.quotas * attacked
}

// topPrice is the highest at which anything is sold, by the default Work.
const topPrice = unit * (shop.MaxPrice / pow.DefaultWork)

// buyer has an attacker buy as cleverly as it can.
func (p place) buyer(a *players.Attacker) *players.Buyer {
	return a.Buyer(p.crowds*p.crowd(a.Instances()), topPrice, p.addr)
}

// harvested spends a purse at n instances in no time, and uses all that it has bought.
func harvested(o Options, n int, p place, purse int64, clients int) players.Gain {
	return unlessByChance(func() players.Gain {
		s := selling(middleware.WhenExhausted)
		s.Cost, s.MaxClients, s.Spreads = costOf, clients, p.spread && n > 1
		if clients == 0 && p.crowds > 1 {
			s.MaxClients = 1 << 16 // in a small memory a /48 alone has its part of what is for sale, and pays more
		}
		f := newFleet(o, fmt.Sprint("yield", n, p.name, purse), n, s)
		a := f.attacker(p.free...)
		for b := p.buyer(a); b.Buy(purse) != ""; {
		}
		a.Drop()
		a.Use(f.bulk())
		got := a.Gained()
		if got.Solved != got.Bought {
			panic("sim: a proof at 8/15 of the price is not accepted")
		}
		return got
	}, func(g players.Gain) bool {
		return g.Admitted > p.nothing(n)+o.bought(g.Bought, attacked, int64(n), 0, 1)
	})
}

// mostTallies is what docs/bounds.md says of F: what n instances sell at once, for so many W,
// from a place. No tally costs less than W.
func (p place) mostTallies(n int, budget float64) int64 {
	all := float64(n * p.crowds * p.crowd(n))
	return int64(min(budget, all*math.Log2(1+15./8*budget/all)))
}

// yieldTable: requests for work.
func yieldTable(o Options) pages.Made {
	t := table("yield", "work", "N = 1", "N = 3", "N = 10", "N = 100", "with `Instances` 1: N = 3", "N = 10", "N = 100") // one instance has no other
	add := func(quick bool, name string, of func(o Options, n int) players.Gain, cell func(n int, g players.Gain) any) {
		t.Add(quick, func() []any {
			cells := []any{name}
			for _, n := range sizes {
				cells = append(cells, cell(n, of(o, n)))
			}
			for _, n := range sizes[1:] {
				if strings.Contains(name, "Spreads") { // which needs several
					cells = append(cells, "-")
					continue
				}
				cells = append(cells, of(o.expecting(1), n).Admitted)
			}
			return cells
		})
	}
	spend := func(budget int64, p place) {
		add(budget < 1000, pages.Figure(budget)+" W"+p.name, func(o Options, n int) players.Gain { return harvested(o, n, p, budget*unit, 0) },
			func(n int, g players.Gain) any {
				most := o.bought(p.mostTallies(n, float64(budget)), attacked, int64(n), 0, 1)
				return result{g.Admitted, p.nothing(n) + most}
			})
	}
	for _, budget := range []int64{0, 1, 8, 100, 1000} {
		spend(budget, places[0])
	}
	spend(1000, places[1])
	spend(1000, places[2])
	spend(1000, places[3])
	return t
}
