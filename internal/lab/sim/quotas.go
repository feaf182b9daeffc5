// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	"github.com/tallystick/tallystick/internal/chance"
	"github.com/tallystick/tallystick/middleware"
)

// worth is how many requests one tally admits on n instances, by a limit of l.
func worth(o Options, n int, l int64) int64 {
	return unlessByChance(func() int64 { return used(o, n, l) }, func(passed int64) bool { return passed > o.bought(1, l, int64(n), 0, 1) })
}

func used(o Options, n int, l int64) int64 {
	s := selling(middleware.Newcomers)
	s.limits, s.bulk = perMinute(l), true
	f := newFleet(o, fmt.Sprint("worth", n, l), n, s)
	a := f.attacker(v4(0))
	token := a.Buy(0)
	for i := range f.all {
		f.useUp(a, i, token)
	}
	return a.Gained().Admitted
}

// inQuotas writes what one tally admits, in quotas.
func inQuotas(o Options, n int, l int64) string {
	return fmt.Sprintf("%.1f L", float64(worth(o, n, l))/float64(l))
}

// quotasTable: by the size of the limit.
func quotasTable(o Options) Table {
	t := Table{Name: "quotas", Page: Page, Head: []string{
		"L", "q, N = 10", "requests of 1,000 clients, N = 10", "admitted", "refused under their limit", "a tally is worth, N = 10", "N = 100",
		"with `Instances` 1: refused", "worth, N = 10", "N = 100",
	}}
	for _, l := range []int64{3, 5, 20, 100, 1000} {
		t.Rows = append(t.Rows, Row{Quick: l <= 100, Make: func() []string {
			s := scene{fmt.Sprint("quotas", l), 10, 1000, int(l), middleware.Newcomers, v4, anywhere, 0}
			p, whole := s.played(o, l), s.played(o.expecting(1), l)
			return []string{
				figure(l), figure(chance.Share(l, o.expected(10), 1)), figure(p.requests), figure(p.admitted), p.refused(), inQuotas(o, 10, l), inQuotas(o, 100, l),
				whole.refused(), inQuotas(o.expecting(1), 10, l), inQuotas(o.expecting(1), 100, l),
			}
		}})
	}
	return t
}

// A plan is a site whose instances change within the window, and what its operator says.
type plan struct {
	from, to  int
	instances int64
}

// plans are the truth, a tenth of it and ten times as much, of a fleet that stays, grows and
// shrinks. A tenth of ten is 1, with which the rule is off; 2 stands for it.
func plans() (all []plan) {
	for _, p := range []plan{{10, 10, 10}, {2, 50, 50}, {50, 2, 50}} {
		for _, instances := range []int64{1, max(2, p.instances/10), p.instances, 10 * p.instances} {
			p.instances = instances
			all = append(all, p)
		}
	}
	return append(all, plan{100, 100, 100}, plan{2, 2, 50})
}

func (p *plan) name() string {
	if p.from == p.to {
		return fmt.Sprint(p.from)
	}
	return fmt.Sprintf("from %d to %d", p.from, p.to)
}

// played has 200 clients use all of their limit.
func (p *plan) played(o Options) *people {
	s := scene{fmt.Sprint("plan ", p.name()), p.from, 200, attacked, middleware.Newcomers, v4, scalingTo(p.to), 0}
	return s.played(o.expecting(p.instances), attacked)
}

// plansTable: what it costs to be wrong about the number of instances.
func plansTable(o Options) Table {
	t := Table{Name: "plans", Page: Page, Head: []string{
		"instances", "`Instances`", "q", "requests of 200 clients", "admitted", "refused under their limit", "proofs for each", "a tally is worth, of the most instances",
	}}
	for _, p := range plans() {
		t.Rows = append(t.Rows, Row{Quick: true, Make: func() []string {
			got := p.played(o)
			return []string{
				p.name(), figure(p.instances), figure(chance.Share(attacked, p.instances, 1)), figure(got.requests), figure(got.admitted), got.refused(), got.proofsEach(),
				inQuotas(o.expecting(p.instances), max(p.from, p.to), attacked),
			}
		}})
	}
	return t
}
