// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/pages"
	"github.com/tallystick/tallystick/proof/players"
	"github.com/tallystick/tallystick/proof/rows"
	"github.com/tallystick/tallystick/proof/truth"
)

// attackTable: what each attacker gets of one and more instances, and where all of ten start anew, beside the bound.
func attackTable(s rows.Seed, name string, sizes []int64, anew bool) pages.Made {
	t := table(name, "client")
	var all []truth.Instances
	for _, n := range sizes {
		t.Head, all = append(t.Head, "N = "+pages.Figure(n)), append(all, truth.Instances{N: n})
	}
	if anew {
		t.Head, all = append(t.Head, "N = 10, C = 10"), append(all, truth.Instances{N: 10, C: 10})
	}
	for _, a := range rows.Attacks() {
		t.Add(anew, func() []any {
			cells := []any{a.Client}
			for _, i := range all {
				cells = append(cells, of(a.Played(s, i)))
			}
			return cells
		})
	}
	return t
}

// harvested spends a purse at n instances in no time, and uses all that it has bought.
func harvested(s rows.Seed, n int64, p rows.Place, purse int64) players.Gain {
	site := rows.Selling(middleware.WhenExhausted)
	site.Cost = fleet.CostOf
	if p.Crowds > 1 {
		site.MaxClients = 1 << 16 // in a small memory a /48 alone has its part of what is for sale, and pays more
	}
	a := &players.Attacker{Fleet: fleet.New(int(n), site), From: p.Free, Random: s.Random(fmt.Sprint("yield", n, p.Name, purse))}
	for b := p.Buyer(a); b.Buy(purse) != ""; {
	}
	a.Drop()
	a.Use(rows.Quota) // one request that costs all of a tally is worth as many that cost 1
	got := a.Gained()
	if got.Solved != got.Bought {
		panic("sim: a proof at 8/15 of the price is not accepted")
	}
	return got
}

// most is what docs/bounds.md says of F, and what n instances then admit, for a number of hashes from a place. No challenge
// asks for less than W.
func most(n int64, p rows.Place, hashes int64) (tallies, admitted int64) {
	tariff := truth.Tariff{Work: rows.W, Crowd: n * int64(p.Crowds) * rows.Crowd}
	tallies = min(hashes/rows.W, tariff.Most(hashes, 0))
	i := truth.Instances{N: n}
	return tallies, i.Drops(p.Quotas*rows.Quota) + i.Buys(rows.Quota, tallies)
}

// yieldTable: requests for work.
func yieldTable(s rows.Seed) pages.Made {
	t := table("yield", "work", "N = 1", "N = 3", "N = 10", "N = 100")
	spend := func(budget int64, p rows.Place) {
		t.Add(budget < 1000, func() []any {
			cells := []any{pages.Figure(budget) + " W" + p.Name}
			for _, n := range sizes {
				_, bound := most(n, p, budget*rows.W)
				cells = append(cells, of(harvested(s, n, p, budget*rows.W).Admitted, bound))
			}
			return cells
		})
	}
	for _, budget := range []int64{0, 1, 8, 100, 1000} {
		spend(budget, rows.Places[0])
	}
	spend(1000, rows.Places[1])
	spend(1000, rows.Places[2])
	return t
}

// table is one of the page of this package.
func table(name string, head ...string) pages.Made {
	return pages.Made{Name: name, Page: "proof/lab/README.md", By: "make bounds", Head: head}
}

// of writes what was admitted, and the bound.
func of(admitted, bound int64) string { return pages.Figure(admitted) + " of " + pages.Figure(bound) }

// sizes are the numbers of instances of the attackers' tables.
var sizes = []int64{1, 3, 10, 100}
