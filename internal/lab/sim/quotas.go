// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	"github.com/tallystick/tallystick/middleware"
)

// worth is how many requests one tally admits on n instances, by a limit of l.
func worth(o Options, n int, l int64) (passed int64) {
	s := selling(middleware.Newcomers)
	s.limits, s.bulk = perMinute(l), true
	f := newFleet(o, fmt.Sprint("worth", n, l), n, s)
	token := f.all[0].bought(v4(0))
	for _, i := range f.all {
		passed += i.drainMuch(ask{addr: v4(0), tokens: []string{token}}, l)
	}
	return passed
}

// quotasTable: by the size of the limit.
func quotasTable(o Options) Table {
	t := Table{Name: "quotas", Page: Page, Head: []string{"L", "requests of 200 clients, 10 instances", "admitted", "refused under their limit", "a tally is worth, N = 10", "N = 100"}}
	for _, l := range []int64{3, 5, 20, 100, 1000} {
		t.Rows = append(t.Rows, Row{Quick: l <= 100, Make: func() []string {
			s := scene{fmt.Sprint("quotas", l), 10, 200, int(l), middleware.Newcomers, v4, anywhere, 0}
			p := s.played(o, l)
			cells := []string{figure(l), figure(p.requests), figure(p.admitted), figure(p.early)}
			for _, n := range []int{10, 100} {
				cells = append(cells, fmt.Sprintf("%.1f L", float64(worth(o, n, l))/float64(l)))
			}
			return cells
		}})
	}
	return t
}
