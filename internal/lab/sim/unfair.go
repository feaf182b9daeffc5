// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"

	"github.com/tallystick/tallystick/internal/attackers"
	"github.com/tallystick/tallystick/internal/printed"
)

// A balancer says which instance serves a client's next request.
type balancer struct {
	name    string
	planned int // how many instances the operator expects, in tenths of those there are
	pick    func(f *fleet, client, request int) int
}

func balancers() []balancer {
	return []balancer{
		{"one after the other, for each client", 10, func(f *fleet, client, request int) int { return (client + request) % len(f.all) }},
		{"any, by chance", 10, func(f *fleet, _, _ int) int { return f.any() }},
		{"half of all to one, the others by chance", 10, func(f *fleet, _, _ int) int {
			if f.r.IntN(2) == 0 {
				return 0
			}
			return 1 + f.r.IntN(len(f.all)-1)
		}},
		{"each client to one", 10, func(f *fleet, client, _ int) int { return client % len(f.all) }},
		{"any, by chance; `Instances` is twice as many", 20, func(f *fleet, _, _ int) int { return f.any() }},
	}
}

// refusedUnder plays honest clients that echo the newest token and use so much of their limit,
// and returns how many of their requests are refused.
func (b balancer) refusedUnder(o Options, n int, l, uses int64) (refused, requests int64) {
	s := site{Limits: perMinute(l), UnfairCeiling: true, Instances: int64(n * b.planned / 10)}
	f := newFleet(o, fmt.Sprint(b.name, n, l, uses), n, s)
	for client := range max(8, 4000/int(l)) {
		token := ""
		for request := range uses {
			t := f.Ask(attackers.Request{To: b.pick(f, client, int(request)), From: v4(client), Tokens: []string{token}})
			requests++
			if !t.Admitted() {
				refused++
			}
			token = cmp.Or(t.Token(), token)
		}
	}
	return refused, requests
}

// unfairTable: what honest clients under their limit pay for that.
func unfairTable(o Options) printed.Made {
	quotas := []int64{20, 100, 1000}
	t := table("unfair", []string{"the balancer sends", "N"})
	for _, l := range quotas {
		t.Head = append(t.Head, fmt.Sprintf("all of L = %s", printed.Figure(l)), "half of it")
	}
	for _, b := range balancers() {
		for _, n := range []int{3, 10} {
			t.Add(true, func() []string {
				cells := []string{b.name, fmt.Sprint(n)}
				for _, l := range quotas {
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
