// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/pages"
	"github.com/tallystick/tallystick/proof/players"
	"github.com/tallystick/tallystick/proof/rows"
)

// People are honest clients before a fleet that limits each to rows.Quota.
type people struct {
	*fleet.Moved
	random *rand.Rand
	all    []*players.Honest
}

// gathered returns n people.
func gathered(f *fleet.Moved, r *rand.Rand, n int, addr func(int) string) *people {
	p := &people{Moved: f, random: r}
	for i := range n {
		// Each works as much for one proof as ours do unless they are told to.
		p.all = append(p.all, &players.Honest{Attacker: p.attacker(addr(i)), Quota: rows.Quota, Payable: rows.W << 10})
	}
	return p
}

// attacker is one client more.
func (p *people) attacker(from ...string) *players.Attacker {
	return &players.Attacker{Fleet: p.Moved, From: from, Random: p.random}
}

// any is an instance by chance.
func (p *people) any() int { return p.random.IntN(p.Instances()) }

// fared is what became of all.
func (p *people) fared() (all players.Fared) {
	for _, c := range p.all {
		all.Add(c.Fared)
	}
	return all
}

// early writes how many were refused, though the client had a tally under its limit.
func early(f players.Fared) string {
	if f.Early == 0 {
		return "0"
	}
	return fmt.Sprintf("%s, %.2g %%", pages.Figure(f.Early), 100*float64(f.Early)/float64(f.Requests))
}

type scene struct {
	name      string
	instances int
	clients   int
	each      int // requests of a client
	mode      middleware.Mode
	addr      func(client int) string
	play      func(p *people, each int)
}

func scenes() []scene {
	here := func(int) string { return fleet.V4(0) }
	return []scene{
		{"1 client, any instance", 10, 1, rows.Quota, middleware.Newcomers, here, anywhere},
		{"1 client with 6 connections", 10, 1, rows.Quota, middleware.Newcomers, here, func(p *people, each int) { p.all[0].Connections(each, p.any) }},
		{"20 behind one address", 10, 20, 12, middleware.Newcomers, here, anywhere},
		{"20 behind one address, `WhenExhausted`", 10, 20, rows.Quota, middleware.WhenExhausted, here, anywhere},
		{"200 behind one address", 10, 200, 12, middleware.Newcomers, here, anywhere},
		{"2,000 behind one address", 10, 2000, 12, middleware.Newcomers, here, anywhere},
		{"32 on one instance, until a deploy", 10, 32, 50, middleware.Newcomers, here, sticky},
		{"1 on one instance, until a deploy", 10, 1, rows.Quota, middleware.Newcomers, here, sticky},
		{"20 phones that change networks", 10, 20, 50, middleware.WhenExhausted, fleet.V4, roaming},
		{"1 client, any of 200 instances", 200, 1, rows.Quota, middleware.Newcomers, here, anywhere},
		{"20 clients, from 2 to 50 instances", 2, 20, rows.Quota, middleware.Newcomers, fleet.V4, scalingTo(50)},
	}
}

// anywhere has clients come in any order to any instance.
func anywhere(p *people, each int) {
	p.inAnyOrder(each, func(c *players.Honest) { c.Want(p.any) })
}

// inAnyOrder shuffles the requests of all clients over the window.
func (p *people) inAnyOrder(each int, next func(c *players.Honest)) {
	var order []*players.Honest
	for range each {
		order = append(order, p.all...)
	}
	p.random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for i, c := range order {
		p.To(time.Duration(i) * 59 * time.Second / time.Duration(len(order)))
		next(c)
	}
}

// sticky keeps each client on the first instance, until the instances are replaced.
func sticky(p *people, each int) {
	n := 0
	p.inAnyOrder(each, func(c *players.Honest) {
		if n++; n == each*len(p.all)/2 {
			p.Restart()
			for _, c := range p.all {
				c.Host = p.any()
			}
		}
		c.Want(func() int { return c.Host })
	})
}

// roaming has an address change with one request in ten, to one that many others have: its
// shared tally is used up.
func roaming(p *people, each int) {
	for k := range 5 {
		p.attacker(fleet.V4(1000 + k)).Drop()
	}
	p.inAnyOrder(each, func(c *players.Honest) {
		if p.random.IntN(10) == 0 {
			c.From[0] = fleet.V4(1000 + p.random.IntN(5))
		}
		c.Want(p.any)
	})
}

// scalingTo has instances start until the number is reached at the end of the window.
func scalingTo(last int) func(p *people, each int) {
	return func(p *people, each int) {
		n, all, first := 0, each*len(p.all), p.Instances()
		p.inAnyOrder(each, func(c *players.Honest) {
			n++
			p.Scale(first + (last-first)*n/all)
			c.Want(p.any)
		})
	}
}

// played lets a scene happen.
func (s *scene) played(seed rows.Seed) *people {
	at := rows.Selling(s.mode)
	at.MaxClients = max(1<<14, 8*s.clients) // a set of a smaller one is full in every thirtieth run
	p := gathered(fleet.New(s.instances, at), seed.Random(s.name), s.clients, s.addr)
	s.play(p, s.each)
	return p
}

// honestTable: what honest clients notice.
func honestTable(seed rows.Seed) pages.Made {
	t := table("honest", "honest clients", "requests", "admitted", "refused under their limit", "proofs for each", "the dearest")
	for _, s := range scenes() {
		t.Add(s.clients <= 200, func() []any {
			f := s.played(seed).fared()
			return []any{s.name, f.Requests, f.Admitted, early(f), fmt.Sprintf("%.2f", float64(f.Proofs)/float64(s.clients)), inW(f.Dearest)}
		})
	}
	return t
}

// grieved has 20 holders of tallies use half of them. Then a neighbour at their address spends its purse, uses up all
// that it has bought and all that the address has for nothing. Then the holders go on, and a newcomer comes. It returns
// what became of the holders, with the proofs that they were asked for afterwards, and what the newcomer paid, in hashes; 0 if it was
// not let in.
func grieved(seed rows.Seed, mode middleware.Mode, budget int64) (holders players.Fared, newcomer int64) {
	// Chance is the same for all budgets: the holders go to the same instances.
	f, r := fleet.New(10, rows.Selling(mode)), seed.Random(fmt.Sprint("grief", mode))
	here := func(int) string { return fleet.V4(0) }
	p := gathered(f, r, 20, here)
	seller, neighbour := p.attacker(fleet.V4(0)), p.attacker(fleet.V4(0))
	for _, c := range p.all {
		c.Token, c.Owns = seller.Buy(seller.Next()), true
	}
	half := func() {
		for range rows.Quota / 2 {
			for _, c := range p.all {
				c.Want(p.any)
			}
		}
	}
	half()
	for b := rows.Places[0].Buyer(neighbour); b.Buy(budget*rows.W) != ""; {
	}
	neighbour.Drop()
	neighbour.Use(1)
	before := p.fared().Proofs
	half()
	holders = p.fared()
	holders.Proofs -= before
	late := gathered(f, r, 1, here)
	late.all[0].Want(p.any)
	return holders, late.fared().Admitted * late.fared().Dearest
}

// griefTable: what a neighbour's work does to those that have paid.
func griefTable(seed rows.Seed) pages.Made {
	t := table("grief", "a neighbour pays", "requests of 20 holders", "admitted", "refused under their limit", "proofs asked of them", "a newcomer then pays")
	for _, budget := range []int64{0, 8, 32, 1200, 20_000} {
		t.Add(budget < 1000, func() []any {
			f, newcomer := grieved(seed, middleware.WhenExhausted, budget)
			return []any{pages.Figure(budget) + " W", f.Requests, f.Admitted, early(f), f.Proofs, inW(newcomer)}
		})
	}
	return t
}

// A presser wants an instance to be busy, so that others have to work. It comes from its addresses by turns. At the first
// of them it buys tallies, and shows them at all.
type presser struct {
	name  string
	from  func(n int) string
	buys  int   // at how many addresses
	oneIn int64 // of the threshold: the part that it sends for each of these addresses, and one request more
}

func pressers() []presser {
	return []presser{
		{"one IPv4 address", func(int) string { return fleet.V4(0) }, 1, 1},
		{"a whole IPv6 /48", func(n int) string { return fmt.Sprintf("[2001:db8:1:%x::1]:4711", n%5000) }, 1, 1},
		{"5,000 addresses of one /16", func(n int) string { return fmt.Sprintf("60.0.%d.%d:4711", n%5000>>8, n&255) }, 1, 1},
		{"15 addresses of 15 networks", func(n int) string { return fmt.Sprintf("60.%d.0.1:4711", n%15) }, 15, 12},
		{"30 addresses of 10 networks", func(n int) string { return fmt.Sprintf("60.%d.0.%d:4711", n%10, n%30) }, 30, 12},
	}
}

// pressed is in how many of 10 minutes a stranger of another network is asked for work, and what the presser pays.
func pressed(p *presser, perSecond, quota int64) (asked int, paid int64) {
	s := rows.Selling(middleware.WhenBusy)
	s.Limits, s.MaxClients, s.Challenge.BusyPerSecond = rows.PerMinute(quota).Limits, 1<<14, perSecond
	f := fleet.New(1, s)
	buyers, farms := make([]*players.Attacker, p.buys), make([][]string, p.buys)
	for i := range buyers {
		buyers[i] = &players.Attacker{Fleet: f, From: []string{p.from(i)}}
	}
	n := 0
	for second := range 10 * 60 {
		spent := make([]int, p.buys) // tallies, in this second
		for range int64(p.buys) * (perSecond/p.oneIn + 1) {
			i, from := n%p.buys, p.from(n)
			n++
			for !press(f, farms[i], &spent[i], from) && len(farms[i]) < 64 {
				farms[i] = append(farms[i], buyers[i].Buy(0))
			}
		}
		if second%60 == 59 && !f.Ask(fleet.Request{From: fmt.Sprintf("9.9.%d.1:4711", second/60)}).Admitted() {
			asked++
		}
		f.Advance(time.Second)
	}
	for _, a := range buyers {
		paid += a.Gained().Spent
	}
	return asked, paid
}

// press sends a request with the first of some tallies that is not spent, or with none.
func press(f *fleet.Moved, farm []string, spent *int, from string) bool {
	for ; *spent <= len(farm); *spent++ {
		r := fleet.Request{From: from}
		if *spent < len(farm) {
			r.Tokens = farm[*spent : *spent+1]
		}
		if f.Ask(r).Admitted() {
			return true
		}
	}
	*spent = len(farm)
	return false
}

// busyTable says which clients make an instance busy, and what holding it so costs.
func busyTable() pages.Made {
	t := table("busy", "who", "R = 5, L = 60: asked", "it pays", "R = 50, L = 60: asked", "it pays", "R = 50, L = 600: asked", "it pays")
	for i, p := range pressers() {
		t.Add(i == 0, func() []any {
			cells := []any{p.name}
			for _, at := range [][2]int64{{5, 60}, {50, 60}, {50, 600}} {
				asked, paid := pressed(&p, at[0], at[1])
				cells = append(cells, fmt.Sprintf("%d of 10", asked), inW(paid))
			}
			return cells
		})
	}
	return t
}

// inW writes hashes in prices of the first tally.
func inW(hashes int64) string { return fmt.Sprintf("%.1f W", float64(hashes)/rows.W) }
