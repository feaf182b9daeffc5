// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"hash/fnv"
	"io"
	"math/rand/v2"
	"time"

	"github.com/tallystick/tallystick/internal/sale"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/players"
	"github.com/tallystick/tallystick/proof/truth"
)

const (
	// W is the price of a first tally, in hashes. Puzzles are real and tiny: all prices are whole multiples of four, which
	// is what a puzzle can ask for, and a proof takes microseconds.
	W = 32

	Crowd = 64  // the default of Challenge.Crowd
	Quota = 100 // the limit of most rows: requests in each minute
)

// A Seed is where all begins that chance decides.
type Seed uint64

// Random returns chance for one row: rows do not hang together, and can be made in any order.
func (s Seed) Random(row string) *rand.Rand {
	second := fnv.New64a()
	_, _ = io.WriteString(second, row)
	return rand.New(rand.NewPCG(uint64(s), second.Sum64()))
}

// A Site is an operator's configuration.
type Site = middleware.Config

// PerMinute is a site of one limit.
func PerMinute(quota int64) Site {
	return Site{Limits: []middleware.Limit{{Quota: quota, Window: time.Minute}}}
}

// Selling is a site with a challenge of a mode. Its waiting room is shut, but for EveryRequest.
func Selling(mode middleware.Mode) Site {
	s := PerMinute(Quota)
	s.Challenge = &middleware.Challenge{Mode: mode, Work: W, Path: "/tally/", NoWaitingRoom: mode != middleware.EveryRequest}
	return s
}

// A Place is the origin of an attack: an address, or a network of IPv6.
type Place struct {
	Name   string
	Crowds int                // how many crowds it is expected to hide: the middleware's
	Quotas int64              // how many it has for nothing
	Free   []string           // the addresses that use these
	Buys   func(k int) string // from which it buys its k-th tally of an instance
}

// Places are an address, a /56 and a /48. An attacker uses a fresh /64 for each tally, and of a /48 one of each /56 in turn.
var Places = []Place{
	{"", 1, 1, []string{fleet.V4(0)}, func(int) string { return fleet.V4(0) }},
	{", from a whole /56", 2, truth.Net56, network(16, func(k int) int { return k << 8 }), func(k int) string { return fleet.V6(k % 256 << 8) }},
	{", from a whole /48", 8, truth.Net48, network(256, func(k int) int { return k&15 | k>>4<<8 }), fleet.V6},
}

func network(n int, number func(k int) int) (addrs []string) {
	for k := range n {
		addrs = append(addrs, fleet.V6(number(k)))
	}
	return addrs
}

// An Attack is a client that wants as much as it can get of one aligned window.
type Attack struct {
	Bound  int // the row of Bounds
	Client string
	site   Site
	from   []string
	play   func(*players.Attacker) // against a fleet.Moved
	admits func(i truth.Instances) int64
}

// Attacks are the rows of Bounds that a client can play alone.
func Attacks() []Attack {
	const farm = 8
	plain, one, whole56, whole48 := PerMinute(Quota), Places[0].Free, Places[1].Free, Places[2].Free
	costing, waiting, exactly := Selling(middleware.Newcomers), Selling(middleware.WhenExhausted), plain
	costing.Cost, waiting.Challenge.NoWaitingRoom, exactly.Exact = fleet.CostOf, false, &middleware.Exact{}
	once := func(truth.Instances) int64 { return Quota }
	drops := func(i truth.Instances) int64 { return i.Drops(Quota) }
	buys := func(i truth.Instances) int64 { return i.Buys(Quota, farm) }
	farms := func(a *players.Attacker) { a.Farm(farm, 1) }
	return []Attack{
		{0, "echoes the newest token, one instance after the other", plain, one, func(a *players.Attacker) { a.Echo(a.Next) }, once},
		{0, "the same, at random", plain, one, func(a *players.Attacker) { a.Echo(a.Any) }, once},
		{1, "the same, 6 requests at once", plain, one, func(a *players.Attacker) { a.AtOnce(6, a.Next) }, func(i truth.Instances) int64 { return i.AtOnce(Quota, 6) }},
		{2, "sends no token", plain, one, (*players.Attacker).Drop, drops},
		{2, "replays its first token", plain, one, (*players.Attacker).Replay, drops},
		{2, "shows any old tokens", plain, one, (*players.Attacker).RollBack, drops},
		{3, "buys 8 tallies, `WhenExhausted`", Selling(middleware.WhenExhausted), one, farms, func(i truth.Instances) int64 { return i.Adds(Quota, farm) }},
		{4, "buys 8 tallies, `Newcomers`", Selling(middleware.Newcomers), one, farms, buys},
		{4, "the same, in requests that cost 1 or 2", costing, one, func(a *players.Attacker) { a.Farm(farm, 2) }, buys},
		{5, "solves 20 proofs, `EveryRequest`", Selling(middleware.EveryRequest), one, func(a *players.Attacker) { a.Prove(20) }, func(i truth.Instances) int64 { return i.Proves(Quota, 20) }},
		{5, "solves 150 proofs, `EveryRequest`", Selling(middleware.EveryRequest), one, func(a *players.Attacker) { a.Prove(150) }, func(i truth.Instances) int64 { return i.Proves(Quota, 150) }},
		{6, "sends no token, and waits", waiting, one, func(a *players.Attacker) { // ten browsers without a script
			a.Drop()
			a.Wait(10, func() { a.Fleet.(*fleet.Moved).Advance(10 * time.Second) })
		}, func(i truth.Instances) int64 { return i.Drops(Quota) + i.Waits(Quota) }},
		{7, "sends no token, from a whole IPv6 /56", plain, whole56, (*players.Attacker).Drop, func(i truth.Instances) int64 { return i.Drops(truth.Net56 * Quota) }},
		{7, "the same, from a whole /48", plain, whole48, (*players.Attacker).Drop, func(i truth.Instances) int64 { return i.Drops(truth.Net48 * Quota) }},
		{11, "sends no token, on an exact route", exactly, one, (*players.Attacker).Drop, once},
		{11, "the same, in an outage with `FailOpen`, and after it", exactly, one, func(a *players.Attacker) {
			for _, a.Fleet.(*fleet.Moved).Down = range []bool{true, false} {
				a.Drop()
			}
		}, func(i truth.Instances) int64 { return i.Outage(Quota) }},
	}
}

// Played lets an attacker loose on the instances of a fleet. If some start within the window, all do, once. It returns
// what the attacker got, and what it may get.
func (a *Attack) Played(s Seed, i truth.Instances) (admitted, bound int64) {
	at := a.site
	if i.N >= 1000 {
		at.MaxClients = 2048 // all of them together in a gigabyte
	}
	f := fleet.New(int(i.N), at)
	client := &players.Attacker{Fleet: f, From: a.from, Random: s.Random(a.Client)}
	a.play(client)
	if i.C > 0 {
		f.Restart()
		a.play(client)
	}
	return client.Gained().Admitted, a.admits(i)
}

// Buyer has an attacker buy as cleverly as it can, up to the highest price at which anything is sold.
func (p Place) Buyer(a *players.Attacker) *players.Buyer {
	return a.Buyer(p.Crowds*Crowd, W*(sale.MaxPrice/pow.DefaultWork), p.Buys)
}
