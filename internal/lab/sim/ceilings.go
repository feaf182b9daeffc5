// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"

	"github.com/tallystick/tallystick/internal/attackers"
	"github.com/tallystick/tallystick/middleware"
)

// divided is a site whose instances admit one part of the quota each.
func divided(s site) site {
	s.ceiling = true
	return s
}

// ceilingAttacks are attackers of sites that divide their quotas. Fewer instances than two, or
// more than the quota, cannot.
func ceilingAttacks() []attack {
	parts := func(tallies int64) func(n, starts int64) int64 {
		return func(n, starts int64) int64 { return (n + starts) * (attacked / n) * tallies }
	}
	plain := divided(site{limits: perMinute(attacked)})
	return []attack{
		{12, "echoes the newest token, one instance after the other", plain, nil, inTurn, func(n, starts int64) int64 {
			return min(attacked, parts(1)(n, starts))
		}},
		{12, "sends no token", plain, nil, drop, parts(1)},
		{12, "replays its first token", plain, nil, replay, parts(1)},
		{12, "shows any old tokens", plain, nil, rollBack, parts(1)},
		{12, "buys 8 tallies, `WhenExhausted`", divided(selling(middleware.WhenExhausted)), nil, farm(1), parts(9)},
		{12, "buys 8 tallies, `Newcomers`", divided(selling(middleware.Newcomers)), nil, farm(1), parts(8)},
		{12, "sends no token, from a whole IPv6 /56", plain, whole56(), drop, parts(8)},
	}
}

// ceilingsTable: what attackers get where each instance admits one part.
func ceilingsTable(o Options) Table {
	t := Table{Name: "ceilings", Page: Page, Head: []string{"client", "N = 3", "N = 10", "N = 100", "N = 10, C = 10"}}
	for _, a := range ceilingAttacks() {
		t.Rows = append(t.Rows, Row{Quick: true, Make: func() []string {
			return []string{a.client, a.played(o, 3, 0).String(), a.played(o, 10, 0).String(), a.played(o, 100, 0).String(), a.played(o, 10, 10).String()}
		}})
	}
	return t
}

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
	s := divided(site{limits: perMinute(l)})
	s.planned = n * b.planned / 10
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
func unfairTable(o Options) Table {
	quotas := []int64{20, 100, 1000}
	t := Table{Name: "unfair", Page: Page, Head: []string{"the balancer sends", "N"}}
	for _, l := range quotas {
		t.Head = append(t.Head, fmt.Sprintf("all of L = %s", figure(l)), "half of it")
	}
	for _, b := range balancers() {
		for _, n := range []int{3, 10} {
			t.Rows = append(t.Rows, Row{Quick: true, Make: func() []string {
				cells := []string{b.name, fmt.Sprint(n)}
				for _, l := range quotas {
					for _, uses := range []int64{l, l / 2} {
						refused, requests := b.refusedUnder(o, n, l, uses)
						cells = append(cells, fmt.Sprintf("%.1f %%", 100*float64(refused)/float64(requests)))
					}
				}
				return cells
			}})
		}
	}
	return t
}
