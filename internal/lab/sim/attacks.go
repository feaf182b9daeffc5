// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"time"

	"github.com/tallystick/tallystick/internal/attackers"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// An attack is a client that wants as much as it can get of one aligned window.
type attack struct {
	row    int // of the table of docs/bounds.md
	client string
	site   site
	from   []string // nil: one address
	play   func(f *fleet, a *attackers.Attacker)
	bound  func(n, starts int64) int64 // what docs/bounds.md says
}

// attacked is the limit of the attackers' tables.
const attacked = 100

// attacks are the rows of the table of bounds that a client can play alone.
func attacks(o Options) []attack {
	all := func(l int64) func(n, starts int64) int64 {
		return func(n, starts int64) int64 { return (n + starts) * l }
	}
	plain, exactly := site{limits: perMinute(attacked)}, site{limits: perMinute(attacked), exact: true}
	bought := func(cost int64) func(n, starts int64) int64 {
		return func(n, starts int64) int64 { return o.bought(8, attacked, n, starts, cost) }
	}
	return []attack{
		{0, "echoes the newest token, one instance after the other", plain, nil, inTurn, func(int64, int64) int64 { return attacked }},
		{0, "the same, at random", plain, nil, func(_ *fleet, a *attackers.Attacker) { a.Echo(a.Any) }, func(int64, int64) int64 { return attacked }},
		{1, "the same, 6 requests at once", plain, nil, func(_ *fleet, a *attackers.Attacker) { a.AtOnce(6, a.Next) }, func(n, _ int64) int64 { return min(6, n) * attacked }},
		{2, "sends no token", plain, nil, drop, all(attacked)},
		{2, "replays its first token", plain, nil, replay, all(attacked)},
		{2, "shows any old tokens", plain, nil, rollBack, all(attacked)},
		{3, "buys 8 tallies, `WhenExhausted`", selling(middleware.WhenExhausted), nil, farm(1), func(n, starts int64) int64 { return all(attacked)(n, starts) + bought(1)(n, starts) }},
		{4, "buys 8 tallies, `Newcomers`", selling(middleware.Newcomers), nil, farm(1), bought(1)},
		{4, "the same, in requests that cost 1 or 2", costing(), nil, farm(2), bought(2)},
		{5, "solves 20 proofs, `EveryRequest`", selling(middleware.EveryRequest), nil, prove(20), all(20)},
		{5, "solves 150 proofs, `EveryRequest`", selling(middleware.EveryRequest), nil, prove(150), all(attacked)},
		{6, "sends no token, and waits", waiting(), nil, wait, all(attacked + attacked/5)},
		{7, "sends no token, from a whole IPv6 /56", plain, whole56(), drop, all(8 * attacked)},
		{7, "the same, from a whole /48", plain, whole48(), drop, all(64 * attacked)},
		{11, "sends no token, on an exact route", exactly, nil, drop, func(int64, int64) int64 { return attacked }},
		{11, "the same, in an outage with `FailOpen`, and after it", exactly, nil, outlast, func(n, starts int64) int64 {
			return attacked + (n+starts)*max(1, attacked/n)
		}},
	}
}

func inTurn(_ *fleet, a *attackers.Attacker)   { a.Echo(a.Next) }
func drop(_ *fleet, a *attackers.Attacker)     { a.Drop() }
func replay(_ *fleet, a *attackers.Attacker)   { a.Replay() }
func rollBack(_ *fleet, a *attackers.Attacker) { a.RollBack() }
func farm(cost int64) func(*fleet, *attackers.Attacker) {
	return func(_ *fleet, a *attackers.Attacker) { a.Farm(8, cost) }
}
func prove(n int) func(*fleet, *attackers.Attacker) {
	return func(_ *fleet, a *attackers.Attacker) { a.Prove(n) }
}

// wait is ten browsers without a script: they drain what is there for nothing, and wait.
func wait(f *fleet, a *attackers.Attacker) {
	a.Drop()
	a.Wait(10, func() { f.now = f.now.Add(10 * time.Second) })
}

// whole56 and whole48 are the connections of an attacker that holds a network.
func whole56() []string { return network(16, func(k int) int { return k << 8 }) }
func whole48() []string { return network(256, func(k int) int { return k&15 | k>>4<<8 }) }

func selling(mode middleware.Mode) site {
	return site{limits: perMinute(attacked), sells: true, mode: mode}
}

func costing() site {
	s := selling(middleware.Newcomers)
	s.bulk = true
	return s
}

func waiting() site {
	s := selling(middleware.WhenExhausted)
	s.room = true
	return s
}

// network is the connections of n /64s.
func network(n int, number func(k int) int) (addrs []string) {
	for k := range n {
		addrs = append(addrs, v6(number(k)))
	}
	return addrs
}

// outlast gets what the instances admit while the counter is down, and what the counter has when it is not.
func outlast(f *fleet, a *attackers.Attacker) {
	f.counter.down = true
	a.Drop()
	f.counter.down = false
	a.Drop()
}

// An outage is a counter that may be out of order.
type outage struct {
	exact.Counter
	down bool
}

var errDown = errors.New("sim: the counter is down")

func (o *outage) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if o.down {
		return exact.Verdict{}, errDown
	}
	return o.Counter.Take(ctx, call)
}
