// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"

	"github.com/tallystick/tallystick/internal/attackers"
	"github.com/tallystick/tallystick/internal/chance"
	"github.com/tallystick/tallystick/internal/shop"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
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
func places() []place {
	a56 := func(k int) string { return v6(k % 256 << 8) }
	return []place{
		{"", 1, func(int) string { return v4(0) }, []string{v4(0)}, 1},
		{", from a whole /56", 2, a56, whole56(), 8},
		{", from a whole /48", 8, v6, whole48(), 64},
	}
}

// topPrice is the highest at which anything is sold, by the default Work.
const topPrice = unit * (shop.MaxPrice / pow.DefaultWork)

// buyer has an attacker buy as cleverly as it can.
func (p place) buyer(a *attackers.Attacker) *attackers.Buyer {
	return a.Buyer(p.crowds*crowd, topPrice, p.addr)
}

type harvest struct {
	requests, tallies int64
	spent             int64 // hashes
}

// harvested spends a purse at n instances in no time, and uses all that it has bought.
func harvested(o Options, n int, p place, purse int64, clients int) harvest {
	return unlessByChance(func() harvest { return reaped(o, n, p, purse, clients) }, func(h harvest) bool {
		return h.requests > int64(n)*p.quotas*attacked+o.bought(h.tallies, attacked, int64(n), 0, 1)
	})
}

func reaped(o Options, n int, p place, purse int64, clients int) harvest {
	s := selling(middleware.WhenExhausted)
	s.bulk, s.clients = true, clients
	if clients == 0 && p.crowds > 1 {
		s.clients = 1 << 16 // in a small memory a /48 alone has its part of what is for sale, and pays more
	}
	f := newFleet(o, fmt.Sprint("yield", n, p.name, purse), n, s)
	a := f.attacker(p.free...)
	b := p.buyer(a)
	for b.Buy(purse) != "" {
	}
	for i := range f.all {
		for _, addr := range p.free {
			a.DrainMuch(attackers.Request{To: i, From: addr}, attacked)
		}
		for _, token := range a.Owned() {
			f.useUp(a, i, token)
		}
	}
	got := a.Gained()
	if got.Solved != got.Bought {
		panic("sim: a proof at 8/15 of the price is not accepted")
	}
	return harvest{got.Admitted, got.Bought, got.Spent}
}

// mostTallies is what docs/bounds.md says of F: what n instances sell at once, for so many W,
// to so many crowds. No tally costs less than W.
func mostTallies(n, crowds int, budget float64) int64 {
	all := float64(n * crowds * crowd)
	return int64(min(budget, all*math.Log2(1+15./8*budget/all)))
}

// bought is what docs/bounds.md says that so many tallies of a limit of l admit on n instances,
// if some start within the window: l on the one that issued the challenge, and a share on
// each other process, of requests of each class of costs up to one.
func (o *Options) bought(tallies, l, n, starts, cost int64) int64 {
	return tallies * (l + (n+starts-1)*chance.Shares(l, o.expected(int(n)), cost))
}

// useUp has an instance admit all that it does of a tally of its token. One request that costs much has another
// share than many that cost as much together, so where shares are they are sent one by one.
func (f *fleet) useUp(a *attackers.Attacker, i int, token string) {
	r := attackers.Request{To: i, Tokens: []string{token}}
	if f.instances() > 1 {
		a.Drain(r)
	} else {
		a.DrainMuch(r, f.limits[0].Quota)
	}
}

// fit is how many tallies n instances sell at once for so many W, from a crowd of each on: the
// first crowd costs W each, the next what the first one has made of the price, up to twice as much, and so on.
func fit(n int, budget float64) float64 {
	const doubled = 1.5 * crowd * (1 + 1./(3*crowd)) // W: a crowd while the price goes from 1 to 2, 12.5
	return float64(n*crowd) * (1 + math.Log2(1+(budget/float64(n)-crowd)/doubled))
}

// budgets are in W.
var budgets = []int64{0, 1, 8, 100, 1000}

// yieldTable: requests for work.
func yieldTable(o Options) Table {
	t := Table{Name: "yield", Page: Page, Head: []string{"work"}}
	for _, n := range sizes {
		t.Head = append(t.Head, fmt.Sprintf("N = %d", n))
	}
	whole, title := o.expecting(1), "with `Instances` 1: "
	for _, n := range sizes[1:] { // one instance has no other
		t.Head = append(t.Head, fmt.Sprintf("%sN = %d", title, n))
		title = ""
	}
	add := func(p place, budget int64) {
		t.Rows = append(t.Rows, Row{Quick: budget < 1000, Make: func() []string {
			cells := []string{figure(budget) + " W" + p.name}
			for _, n := range sizes {
				h := harvested(o, n, p, budget*unit, 0)
				most := o.bought(mostTallies(n, p.crowds, float64(budget)), attacked, int64(n), 0, 1)
				cells = append(cells, result{h.requests, int64(n)*p.quotas*attacked + most}.String())
			}
			for _, n := range sizes[1:] {
				cells = append(cells, figure(harvested(whole, n, p, budget*unit, 0).requests))
			}
			return cells
		}})
	}
	for _, budget := range budgets {
		add(places()[0], budget)
	}
	for _, p := range places()[1:] {
		add(p, 1000)
	}
	t.Rows = append(t.Rows, Row{Make: func() []string {
		cells := []string{"all that is sold to an address"}
		all := func(o Options, n int) harvest {
			clients := 0
			if n > 10 {
				clients = 3 << 14 // of 11,300 tallies no set is full
			}
			return harvested(o, n, places()[0], 1<<62, clients)
		}
		for _, n := range sizes {
			h := all(o, n)
			cells = append(cells, fmt.Sprintf("%s for %s W", figure(h.requests), figure(h.spent/unit)))
		}
		for _, n := range sizes[1:] {
			cells = append(cells, figure(all(whole, n).requests))
		}
		return cells
	}})
	return t
}
