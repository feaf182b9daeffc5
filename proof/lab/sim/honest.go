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

// gathered returns so many people.
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

// scalingTo has instances start until there are so many at the end of the window.
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
