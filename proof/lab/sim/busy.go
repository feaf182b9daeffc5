// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/pages"
)

// A presser wants an instance to be busy, so that others have to work. It comes from its addresses by turns. At the first
// of them it buys tallies, and shows them at all.
type presser struct {
	name  string
	from  func(n int) string
	buys  int   // at so many addresses
	oneIn int64 // of the threshold: so much it sends for each of these addresses, and one request more
}

func pressers() []presser {
	return []presser{
		{"one IPv4 address", func(int) string { return v4(0) }, 1, 1},
		{"a whole IPv6 /48", func(n int) string { return fmt.Sprintf("[2001:db8:1:%x::1]:4711", n%5000) }, 1, 1},
		{"5,000 addresses of one /16", func(n int) string { return fmt.Sprintf("60.0.%d.%d:4711", n%5000>>8, n&255) }, 1, 1},
		{"15 addresses of 15 networks", func(n int) string { return fmt.Sprintf("60.%d.0.1:4711", n%15) }, 15, 12},
		{"30 addresses of 10 networks", func(n int) string { return fmt.Sprintf("60.%d.0.%d:4711", n%10, n%30) }, 30, 12},
	}
}

// pressed is in how many of 10 minutes a stranger of another network is asked for work, and what the presser pays.
func pressed(o Options, p *presser, perSecond, quota int64) (asked int, paid int64) {
	s := selling(middleware.WhenBusy)
	s.Limits, s.MaxClients, s.Challenge.BusyPerSecond = perMinute(quota), 1<<14, perSecond
	f := newFleet(o, "busy "+p.name, 1, s)
	all := make([]*attacker, p.buys)
	farms := make([][]string, p.buys)
	for i := range all {
		all[i] = f.attacker(p.from(i))
	}
	n := 0
	for second := range 10 * 60 {
		spent := make([]int, p.buys) // tallies, in this second
		for range int64(p.buys) * (perSecond/p.oneIn + 1) {
			i, from := n%p.buys, p.from(n)
			n++
			for !f.press(farms[i], &spent[i], from) && len(farms[i]) < 64 {
				farms[i] = append(farms[i], all[i].Buy(0))
			}
		}
		if second%60 == 59 && !f.Ask(fleet.Request{From: fmt.Sprintf("9.9.%d.1:4711", second/60)}).Admitted() {
			asked++
		}
		f.now = f.now.Add(time.Second)
	}
	for _, a := range all {
		paid += a.Gained().Spent
	}
	return asked, paid
}

// press sends a request with the first of some tallies that is not spent, or with none.
func (f *moved) press(farm []string, spent *int, from string) bool {
	for ; *spent <= len(farm); *spent++ {
		r := fleet.Request{From: from}
		if *spent < len(farm) {
			r.Tokens = farm[*spent : *spent+1]
		}
		if f.Ask(r).Admitted() {
			return true
		}
	}
	*spent = len(farm)
	return false
}

// busyTable: who makes an instance busy, and what holding it so costs.
func busyTable(o Options) pages.Made {
	t := table("busy", "who", "R = 5, L = 60: asked", "it pays", "R = 50, L = 60: asked", "it pays", "R = 50, L = 600: asked", "it pays")
	for i, p := range pressers() {
		t.Add(i == 0, func() []any {
			cells := []any{p.name}
			for _, at := range [][2]int64{{5, 60}, {50, 60}, {50, 600}} {
				asked, paid := pressed(o, &p, at[0], at[1])
				cells = append(cells, fmt.Sprintf("%d of 10", asked), inW(paid))
			}
			return cells
		})
	}
	return t
}
