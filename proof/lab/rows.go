// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"

	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/proof/players"
)

// A row is one attacker, on a route of its own, and what the documentation promises of it.
type row struct {
	name    string
	threats string // by their numbers in docs/threats.md
	client  string // who it is, as docs/bounds.md says
	formula string // the bound, in the letters of docs/bounds.md
	attack  func(*scene)
	bound   func(*scene) int64
	route   route // without what all have
	quota   int64 // 0: as large as the scale says
	honest  honestTime
	counter string // that decides: none, or a Redis
}

// An honestTime is when the honest clients come: beside the attacker, where what the row does
// to the instances is nothing that befalls it too.
type honestTime int

const (
	beside honestTime = iota
	before
	after
	again     // beside, and once more after
	always    // beside, again and again
	meanwhile // not at all: the row has clients of its own, and a soak plays it beside all others
)

// The bounds that several rows have.
func nL(s *scene) int64                  { return s.all().Drops(s.route.Quota) }
func own(s *scene) int64                 { return s.all().Buys(s.route.Quota, s.sold()) }
func times(k int64) func(s *scene) int64 { return func(s *scene) int64 { return k * s.route.Quota } }

// hear is a row of instances that hear each other, or are split into parts that do.
func hear(name, threats, client string, attack func(*scene), parts int64) row {
	return row{name: name, threats: threats, client: client, formula: "P·L + (N+C−P)·f", attack: attack, route: route{Parts: parts}, honest: always}
}

// rows are all of them, in the order in which they are played.
func rows() []row {
	sells := route{Work: leastWork}
	wants := route{Work: leastWork, Mode: newcomers}
	return []row{
		hear("peers-quiet", "T1", "drops, and peers hear each other", hears(once, quiet), 1),
		hear("peers-deploys", "T42", "the same, while all are replaced", hears(rounds, deploys), 1),
		hear("peers-kills", "T42", "the same, while some are killed", hears(rounds, kills), 1),
		hear("peers-dns", "T42", "the same, and DNS is cached", hears(each, dns((*house.Cluster).Surge)), 1),
		hear("peers-dns-last", "T42", "the same, each ends before another starts", hears(each, dns((*house.Cluster).Restart)), 1),
		hear("peers-list", "T42", "the same, and the list is late", hears(once, lateList), 1),
		hear("peers-stopped", "T1", "the same, while one stands still", hears(each, stopped), 2),
		hear("peers-cut", "T1", "the same, while the network is cut", hears(each, cut), 2),
		{name: "echo", threats: "T21", client: "echoes the newest token", formula: "L", attack: by(func(a *players.Attacker) { a.Echo(balancer) }), bound: times(1)},
		{name: "parallel", threats: "T4", client: "the same, 6 at once with a browser's jar", formula: "(N+C)·L", attack: by(func(a *players.Attacker) { a.AtOnce(6, balancer) }), bound: nL},
		{name: "drop", threats: "T1", client: "sends no token", formula: "(N+C)·L", attack: by(drop), bound: nL},
		{name: "roll-back", threats: "T2, T13", client: "shows its first token", formula: "(N+C)·L", attack: by((*players.Attacker).Replay), bound: nL},
		{name: "fork", threats: "T3", client: "one token, everywhere at once", formula: "(N+C)·L", attack: by((*players.Attacker).Fork), bound: nL},
		{name: "cached", threats: "T24", client: "fills a shared cache", formula: "(N+C)·L", attack: cached, bound: nL, route: sells},
		{name: "spoofed-through", threats: "T8", client: "names others to the proxy", formula: "(N+C)·L", attack: func(s *scene) { spoofed(s, func(int) int { return fleet.Balancer }) }, bound: nL},
		{name: "spoofed-around", threats: "T8", client: "the same around the proxy", formula: "(N+C)·L", attack: func(s *scene) { spoofed(s, func(i int) int { return i }) }, bound: nL},
		{name: "planted", threats: "T6, T22", client: "plants a spent token on another", formula: "L", attack: planted, bound: times(1)},
		{name: "farm", threats: "T5, T26, T27", client: "works (WhenExhausted)", formula: "(1+F)·(N+C)·L", attack: farm, route: sells,
			bound: func(s *scene) int64 { return s.all().Adds(s.route.Quota, s.sold()) }},
		{name: "farm-newcomers", threats: "T5, T26, T27", client: "works (Newcomers)", formula: "F·(N+C)·L", attack: farm, route: wants, bound: own},
		{name: "proofs", threats: "T26", client: "replays proofs (EveryRequest)", formula: "min((N+C)·L, (N+C)·S)", attack: by(func(a *players.Attacker) { a.Prove(4) }),
			route: route{Work: leastWork, Mode: everyRequest},
			bound: func(s *scene) int64 { return s.all().Proves(s.route.Quota, s.gained().Solved) }},
		{name: "waits", threats: "T35", client: "waits instead of working", formula: "(N+C)·max(1, L/5)", attack: func(s *scene) { s.attacker().Wait(4*int(s.n()), func() { s.wait(ticketTime) }) },
			route: route{Work: leastWork, Mode: newcomers, Room: true},
			bound: func(s *scene) int64 { return s.all().Waits(s.route.Quota) }},
		{name: "washed-out", threats: "T31", client: "floods a full memory", formula: "(N+C)·L", attack: washedOut, quota: 5, honest: again,
			route: route{MaxClients: 1}, bound: nL},
		{name: "cold-starts", threats: "T42", client: "drops, while instances start", formula: "(N+C)·L", attack: func(s *scene) { acrossStarts(s, s.attacker().Drop) }, honest: after, bound: nL},
		{name: "flood", threats: "T9–T11, T14", client: "floods with forgeries", formula: "served", attack: func(s *scene) { s.meanwhile(flood, flood, keeps, keeps) },
			quota: plenty, honest: meanwhile},
		{name: "exact", threats: "T1–T3", client: "on an exact route", formula: "L", attack: by(drop), counter: house.Shared, bound: times(1)},
		{name: "exact-outage", threats: "T33", client: "the same, without the counter", formula: "L + (N+C)·max(1, L/N)", attack: outage, honest: before, counter: house.Shared,
			bound: func(s *scene) int64 { return s.all().Outage(s.route.Quota) }},
	}
}

// routeOf returns what the instances serve for a row.
func (r row) routeOf(sc scale) route {
	route := r.route
	route.Quota = cmp.Or(r.quota, sc.quota)
	route.MaxClients = cmp.Or(route.MaxClients, 4096)
	route.Instances = int64(sc.instances)
	if route.Work > 0 {
		route.Crowd = sc.crowd
	}
	return route
}
