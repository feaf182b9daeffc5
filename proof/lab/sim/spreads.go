// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/tallystick/tallystick/proof/chance"
	"github.com/tallystick/tallystick/proof/pages"
)

// A spreading is what happens to requests on their way to a site that says Spreads: clumps of so many come to
// one instance, by chance, and so many instances run, of those that were to be.
type spreading struct {
	l, instances int64
	clump        int
	running      int
}

// windows are as many as show what one request in 2,000 is, by the size of the limit.
func (s *spreading) windows() int { return int(min(2000, 100_000/s.l)) }

// played has a client that echoes use all of its quota in each of many windows, and returns how many requests were
// refused, and in how many windows one was.
func (s *spreading) played(o Options) (refused, windows int64) {
	at := site{Limits: perMinute(s.l), Instances: s.instances, Spreads: true}
	p := gathered(newFleet(o, fmt.Sprint("spreads", *s), s.running, at), s.l, 1, v4)
	to := 0
	for range s.windows() {
		p.f.now = p.f.now.Add(2 * time.Minute) // the limit slides: the window before has passed
		before := p.admitted
		for request := range int(s.l) {
			if request%s.clump == 0 {
				to = p.f.any()
			}
			p.ask(p.all[0], func() int { return to })
		}
		if p.admitted < before+s.l {
			windows++
		}
	}
	return p.requests - p.admitted, windows
}

// share writes a part of all, in percent.
func share(part int64, all int) string {
	return fmt.Sprintf("%.2g %%", 100*float64(part)/float64(all))
}

// spreadsTable: what each instance's share gives the owner, and what honest clients pay for it.
func spreadsTable(o Options) pages.Made {
	t := table("spreads", "L", "N", "q", "who drops gets", "requests refused", "windows with a refusal", "clumps of 2", "of 5", "of 10", "half of N run")
	for _, l := range []int64{5, 20, 100, 1000} {
		for _, n := range []int64{3, 10, 30} {
			t.Add(l == 20 && n == 10, func() []any {
				q := chance.Spread(l, n, 1)
				cells := []any{l, n, q, fmt.Sprintf("%.1f L", float64(n*q)/float64(l))}
				for _, s := range []spreading{
					{l, n, 1, int(n)}, {l, n, 2, int(n)}, {l, n, 5, int(n)}, {l, n, 10, int(n)}, {l, n, 1, int(n+1) / 2},
				} {
					refused, windows := s.played(o)
					cells = append(cells, share(refused, s.windows()*int(l)))
					if len(cells) == 5 {
						cells = append(cells, share(windows, s.windows()))
					}
				}
				return cells
			})
		}
	}
	return t
}
