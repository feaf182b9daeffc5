// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// An attack is a client that wants as much as it can get of one aligned window.
type attack struct {
	row    int // of the table of docs/bounds.md
	client string
	site   site
	round  func(f *fleet, k *kept) int64 // what it gets of the instances as they are
	bound  func(n, starts int64) int64   // what docs/bounds.md says
}

// kept is what an attacker keeps where instances start anew.
type kept struct {
	token   string
	own     []string // tokens of tallies that it has bought
	proofs  []string
	tickets []string
}

// attacked is the limit of the attackers' tables.
const attacked = 100

// attacks are the rows of the table of bounds that a client can play alone.
func attacks(o Options) []attack {
	all := func(l int64) func(n, starts int64) int64 {
		return func(n, starts int64) int64 { return (n + starts) * l }
	}
	plain := site{limits: perMinute(attacked)}
	return []attack{
		{0, "echoes the newest token, one instance after the other", plain, echo((*fleet).turn), func(int64, int64) int64 { return attacked }},
		{0, "the same, at random", plain, echo((*fleet).any), func(int64, int64) int64 { return attacked }},
		{1, "the same, 6 requests at once", plain, sixAtOnce, func(n, _ int64) int64 { return min(6, n) * attacked }},
		{2, "sends no token", plain, drop(v4(0)), all(attacked)},
		{2, "replays its first token", plain, replay, all(attacked)},
		{2, "shows any old tokens", plain, rollBack, all(attacked)},
		{3, "buys 8 tallies, `WhenExhausted`", selling(middleware.WhenExhausted), farm(8, 1), func(n, starts int64) int64 {
			return attacked*(n+starts) + o.bought(8, attacked, n, starts, 1)
		}},
		{4, "buys 8 tallies, `Newcomers`", selling(middleware.Newcomers), farm(8, 1), func(n, starts int64) int64 { return o.bought(8, attacked, n, starts, 1) }},
		{4, "the same, in requests that cost 1 or 2", costing(), farm(8, 2), func(n, starts int64) int64 { return o.bought(8, attacked, n, starts, 2) }},
		{5, "solves 20 proofs, `EveryRequest`", selling(middleware.EveryRequest), prove(20), all(20)},
		{5, "solves 150 proofs, `EveryRequest`", selling(middleware.EveryRequest), prove(150), all(attacked)},
		{6, "sends no token, and waits", waiting(), wait, all(attacked + attacked/5)},
		{7, "sends no token, from a whole IPv6 /56", plain, drop(network(16, func(k int) int { return k << 8 })...), all(8 * attacked)},
		{7, "the same, from a whole /48", plain, drop(network(256, func(k int) int { return k&15 | k>>4<<8 })...), all(64 * attacked)},
		{11, "sends no token, on an exact route", site{limits: plain.limits, exact: true}, drop(v4(0)), func(int64, int64) int64 { return attacked }},
		{11, "the same, in an outage with `FailOpen`, and after it", site{limits: plain.limits, exact: true}, outlast, func(n, starts int64) int64 {
			return attacked + (n+starts)*max(1, attacked/n)
		}},
	}
}

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

// endless is more than anything here admits to one that asks: a limiter that is broken must
// not be asked for ever.
const endless = 1 << 12

// drain asks again and again, until it is refused.
func (i *instance) drain(a ask) (passed int64) {
	for passed < endless && i.send(a).passed() {
		passed++
	}
	return passed
}

// drainMuch is drain where a request may stand for many.
func (i *instance) drainMuch(a ask, most int64) (passed int64) {
	for a.cost = most; a.cost > 0 && passed < endless*most; {
		if t := i.send(a); t.passed() {
			passed += a.cost
			continue
		}
		one := a
		one.cost = 1
		if t := i.send(one); !t.passed() {
			return passed
		}
		passed++
		a.cost /= 2
	}
	return passed
}

// echo is an honest client, which does not stop when it is refused.
func echo(choose func(f *fleet) *instance) func(f *fleet, k *kept) int64 {
	return func(f *fleet, k *kept) (passed int64) {
		for refused := 0; refused < 3*len(f.all) && passed < endless; {
			t := choose(f).send(ask{addr: v4(0), tokens: []string{k.token}})
			if t.token != "" {
				k.token = t.token
			}
			if t.passed() {
				passed++
			} else {
				refused++
			}
		}
		return passed
	}
}

// sixAtOnce is a browser with six connections: its requests show what it had before, and it
// keeps the last answer.
func sixAtOnce(f *fleet, k *kept) (passed int64) {
	for refused := 0; refused < 3*len(f.all) && passed < endless; {
		shown := k.token
		for range 6 {
			t := f.turn().send(ask{addr: v4(0), tokens: []string{shown}})
			if t.token != "" {
				k.token = t.token
			}
			if t.passed() {
				passed++
			} else {
				refused++
			}
		}
	}
	return passed
}

// drop shows nothing, from each of its addresses.
func drop(addrs ...string) func(f *fleet, k *kept) int64 {
	return func(f *fleet, k *kept) (passed int64) {
		for _, i := range f.all {
			for _, addr := range addrs {
				passed += i.drain(ask{addr: addr})
			}
		}
		return passed
	}
}

// network is the connections of n /64s.
func network(n int, number func(k int) int) (addrs []string) {
	for k := range n {
		addrs = append(addrs, v6(number(k)))
	}
	return addrs
}

// replay gets one token, and shows that for ever.
func replay(f *fleet, k *kept) (passed int64) {
	if k.token == "" {
		t := f.all[0].send(ask{addr: v4(0)})
		k.token, passed = t.token, 1
	}
	for _, i := range f.all {
		passed += i.drain(ask{addr: v4(0), tokens: []string{k.token}})
	}
	return passed
}

// rollBack shows any two of the tokens that it was ever given, or none.
func rollBack(f *fleet, k *kept) (passed int64) {
	had := append(k.own, "")
	for refused := 0; refused < 20*len(f.all) && passed < endless*int64(len(f.all)); {
		t := f.any().send(ask{addr: v4(0), tokens: []string{had[f.r.IntN(len(had))], had[f.r.IntN(len(had))]}})
		if t.passed() {
			passed++
			had = append(had, t.token)
			refused = 0
		} else {
			refused++
		}
	}
	k.own = had
	return passed + drop(v4(0))(f, k) // of those that chance has left out
}

// farm buys n tallies, each of the instance that is next, and uses all of them everywhere, in requests
// of a cost, and then of less. It redeems each proof at every instance: if that made an instance a
// tally's home, all were.
func farm(n int, cost int64) func(f *fleet, k *kept) int64 {
	return func(f *fleet, k *kept) (passed int64) {
		for len(k.own) < n {
			c, _ := f.turn().work(v4(0))
			proof := solve(c)
			for _, i := range f.all {
				if token := i.redeem(v4(0), proof); token == "" {
					panic("sim: no tally for its price")
				} else if i == f.all[0] {
					k.own = append(k.own, token)
				}
			}
		}
		passed = drop(v4(0))(f, k)
		for _, i := range f.all {
			for _, tok := range k.own {
				for each := cost; each > 0; each-- {
					passed += each * i.drain(ask{addr: v4(0), tokens: []string{tok}, cost: each})
				}
			}
		}
		return passed
	}
}

// prove shows each of n proofs to every instance.
func prove(n int) func(f *fleet, k *kept) int64 {
	return func(f *fleet, k *kept) (passed int64) {
		for len(k.proofs) < n {
			c, _ := f.turn().work(v4(0))
			k.proofs = append(k.proofs, solve(c))
		}
		for _, i := range f.all {
			for _, proof := range k.proofs {
				passed += i.drain(ask{addr: v4(0), proof: proof})
			}
		}
		return passed
	}
}

// wait is ten browsers without a script: they drain what is there for nothing, and have
// a ticket for the waiting room each, which they show to all instances.
func wait(f *fleet, k *kept) (passed int64) {
	passed = drop(v4(0))(f, k)
	for len(k.tickets) < 10 {
		t := f.turn().send(ask{addr: v4(0), cookie: "a=b"})
		for _, c := range t.cookies {
			if value, _, _ := strings.Cut(c, ";"); strings.Contains(value, ".wait=") {
				k.tickets = append(k.tickets, value)
			}
		}
	}
	f.now = f.now.Add(10 * time.Second)
	for _, i := range f.all {
		for _, ticket := range k.tickets {
			passed += i.drain(ask{addr: v4(0), cookie: ticket})
		}
	}
	return passed
}

// outlast gets what the instances admit while the counter is down, and what the counter has
// when it is not.
func outlast(f *fleet, k *kept) (passed int64) {
	f.counter.down = true
	passed = drop(v4(0))(f, k)
	f.counter.down = false
	return passed + drop(v4(0))(f, k)
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
