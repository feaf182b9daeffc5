// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	"github.com/tallystick/tallystick/proof/pages"
)

// A balancer says which instance serves a client's next request.
type balancer struct {
	name    string
	planned int // how many instances the operator expects, in tenths of those there are
	pick    func(f *fleet, client, request int) int
}

func balancers() []balancer {
	anywhere := func(f *fleet, _, _ int) int { return f.any() }
	return []balancer{
		{"one after the other, for each client", 10, func(f *fleet, client, request int) int { return (client + request) % len(f.all) }},
		{"any, by chance", 10, anywhere},
		{"half of all to one, the others by chance", 10, func(f *fleet, _, _ int) int {
			if f.r.IntN(2) == 0 {
				return 0
			}
			return 1 + f.r.IntN(len(f.all)-1)
		}},
		{"each client to one", 10, func(f *fleet, client, _ int) int { return client % len(f.all) }},
		{"any, by chance; `Instances` is twice as many", 20, anywhere},
	}
}

// refusedUnder plays honest clients that echo the newest token and use so much of their limit,
// and returns how many of their requests are refused.
func (b balancer) refusedUnder(o Options, n int, l, uses int64) (refused, requests int64) {
	s := site{Limits: perMinute(l), Instances: int64(n * b.planned / 10)}
	s.UnfairCeiling = true
	p := gathered(newFleet(o, fmt.Sprint(b.name, n, l, uses), n, s), l, max(8, 4000/int(l)), v4)
	for i, c := range p.all {
		for request := range int(uses) {
			p.ask(c, func() int { return b.pick(p.f, i, request) })
		}
	}
	return p.requests - p.admitted, p.requests
}

// unfairTable: what honest clients under their limit pay for that.
func unfairTable(o Options) pages.Made {
	t := table("unfair", "the balancer sends", "N", "all of L = 20", "half of it", "all of L = 100", "half of it", "all of L = 1,000", "half of it")
	for _, b := range balancers() {
		for _, n := range []int{3, 10} {
			t.Add(true, func() []any {
				cells := []any{b.name, n}
				for _, l := range []int64{20, 100, 1000} {
					for _, uses := range []int64{l, l / 2} {
						refused, requests := b.refusedUnder(o, n, l, uses)
						cells = append(cells, fmt.Sprintf("%.1f %%", 100*float64(refused)/float64(requests)))
					}
				}
				return cells
			})
		}
	}
	return t
}
