// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/pages"
)

// An attack is a client that wants as much as it can get of one aligned window.
type attack struct {
	row    int // of the table of docs/bounds.md
	client string
	site   site
	from   []string
	play   func(*attacker)
	bound  func(n, starts int64) int64 // what docs/bounds.md says
}

// one is the connection of those that have one address, and whole56 and whole48 are those of an attacker that
// holds a network of IPv6.
var (
	one     = []string{v4(0)}
	whole56 = network(16, func(k int) int { return k << 8 })
	whole48 = network(256, func(k int) int { return k&15 | k>>4<<8 })
)

// network is the connections of n /64s.
func network(n int, number func(k int) int) (addrs []string) {
	for k := range n {
		addrs = append(addrs, v6(number(k)))
	}
	return addrs
}

var plain = site{Limits: perMinute(attacked)}

// attacks are the rows of the table of bounds that a client can play alone.
func attacks() []attack {
	once := func(int64, int64) int64 { return attacked }
	all := func(l int64) func(n, starts int64) int64 {
		return func(n, starts int64) int64 { return (n + starts) * l }
	}
	bought := all(8 * attacked)
	costing, waiting, exactly := selling(middleware.Newcomers), selling(middleware.WhenExhausted), plain
	costing.Cost, waiting.Challenge.NoWaitingRoom, exactly.Exact = costOf, false, &middleware.Exact{}
	return []attack{
		{0, "echoes the newest token, one instance after the other", plain, one, echo, once},
		{0, "the same, at random", plain, one, func(a *attacker) { a.Echo(a.Any) }, once},
		{1, "the same, 6 requests at once", plain, one, func(a *attacker) { a.AtOnce(6, a.Next) }, func(n, _ int64) int64 { return min(6, n) * attacked }},
		{2, "sends no token", plain, one, (*attacker).Drop, all(attacked)},
		{2, "replays its first token", plain, one, (*attacker).Replay, all(attacked)},
		{2, "shows any old tokens", plain, one, (*attacker).RollBack, all(attacked)},
		{3, "buys 8 tallies, `WhenExhausted`", selling(middleware.WhenExhausted), one, farm, func(n, starts int64) int64 { return all(attacked)(n, starts) + bought(n, starts) }},
		{4, "buys 8 tallies, `Newcomers`", selling(middleware.Newcomers), one, farm, bought},
		{4, "the same, in requests that cost 1 or 2", costing, one, func(a *attacker) { a.Farm(8, 2) }, bought},
		{5, "solves 20 proofs, `EveryRequest`", selling(middleware.EveryRequest), one, func(a *attacker) { a.Prove(20) }, all(20)},
		{5, "solves 150 proofs, `EveryRequest`", selling(middleware.EveryRequest), one, func(a *attacker) { a.Prove(150) }, all(attacked)},
		{6, "sends no token, and waits", waiting, one, wait, all(attacked + attacked/5)},
		{7, "sends no token, from a whole IPv6 /56", plain, whole56, (*attacker).Drop, all(8 * attacked)},
		{7, "the same, from a whole /48", plain, whole48, (*attacker).Drop, all(64 * attacked)},
		{11, "sends no token, on an exact route", exactly, one, (*attacker).Drop, once},
		{11, "the same, in an outage with `FailOpen`, and after it", exactly, one, outlast, func(n, starts int64) int64 {
			return attacked + (n+starts)*max(1, attacked/n)
		}},
	}
}

func echo(a *attacker) { a.Echo(a.Next) }
func farm(a *attacker) { a.Farm(8, 1) }

// wait is ten browsers without a script: they drain what is there for nothing, and wait.
func wait(a *attacker) {
	f := a.Fleet.(*moved)
	a.Drop()
	a.Wait(10, func() { f.now = f.now.Add(10 * time.Second) })
}

// outlast gets what the instances admit while the counter is down, and what the counter has when it is not.
func outlast(a *attacker) {
	for _, down := range []bool{true, false} {
		a.Fleet.(*moved).down = down
		a.Drop()
	}
}

// played lets an attacker loose on n instances. If some start within the window, all do, once.
func (a *attack) played(o Options, n, starts int) result {
	at := a.site
	if n >= 1000 {
		at.MaxClients = 2048 // all of them together in a gigabyte
	}
	f := newFleet(o, a.client, n, at)
	client := f.attacker(a.from...)
	a.play(client)
	if starts > 0 {
		f.restart()
		a.play(client)
	}
	return result{client.Gained().Admitted, a.bound(int64(n), int64(starts))}
}

type result struct{ admitted, bound int64 }

func (r result) String() string {
	return pages.Figure(r.admitted) + " of " + pages.Figure(r.bound)
}

// sizes are the numbers of instances of the attackers' tables.
var sizes = []int{1, 3, 10, 100}

// attackTable: what each attacker gets of so many instances, and where all of ten start anew, beside the bound.
func attackTable(o Options, name string, attacks []attack, sizes []int, anew bool) pages.Made {
	t := table(name, "client")
	for _, n := range sizes {
		t.Head = append(t.Head, "N = "+pages.Figure(int64(n)))
	}
	if anew {
		t.Head = append(t.Head, "N = 10, C = 10")
	}
	for _, a := range attacks {
		t.Add(anew, func() []any {
			cells := []any{a.client}
			for _, n := range sizes {
				cells = append(cells, a.played(o, n, 0))
			}
			if anew {
				cells = append(cells, a.played(o, 10, 10))
			}
			return cells
		})
	}
	return t
}
