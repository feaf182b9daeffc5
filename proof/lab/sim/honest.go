// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/pages"
)

// A client is honest: it echoes the newest token, works where it is asked to, and knows how
// many requests it was admitted.
type client struct {
	addr  string
	token string
	used  int64 // in the window
	owns  bool  // it has bought a tally
	host  int   // the instance that its balancer keeps it on
}

// payable is what a client works for one proof: as much as ours do unless they are told to.
const payable = unit << 10

// People are honest clients, and what became of them.
type people struct {
	f   *moved
	l   int64
	all []*client

	requests, admitted int64
	early              int64 // refused, though the client had a tally under its limit
	proofs, dearest    int64 // their number; the work of the dearest
}

// gathered returns so many people before a fleet that limits each to l.
func gathered(f *moved, l int64, n int, addr func(int) string) *people {
	p := &people{f: f, l: l}
	for i := range n {
		p.all = append(p.all, &client{addr: addr(i)})
	}
	return p
}

// send sends one request of a client to instance i, and judges the answer.
func (p *people) send(c *client, i int, proof string) fleet.Answer {
	got := p.f.Ask(fleet.Request{To: i, From: c.addr, Tokens: []string{c.token}, Proof: proof})
	if !got.Admitted() && proof == "" && c.used < p.l && c.owns {
		p.early++
	}
	c.token = cmp.Or(got.Token(), c.token)
	if name, _ := fleet.Claims(got.Token()); got.Admitted() && name != "" {
		c.owns = true
	}
	return got
}

// ask sends one request, works if need be, and asks again.
func (p *people) ask(c *client, to func() int) {
	p.requests++
	got := p.send(c, to(), "")
	for tries := 0; !got.Admitted() && tries < 10; tries++ {
		work, ok := got.Challenge()
		if !ok || int64(work.Work) > payable {
			break
		}
		p.proofs++
		p.dearest = max(p.dearest, int64(work.Work))
		got = p.send(c, to(), p.f.attacker().Solve(got))
	}
	if got.Admitted() {
		p.admitted++
		c.used++
	}
}

// refused writes how many were refused, though the client had a tally under its limit.
func (p *people) refused() string {
	if p.early == 0 {
		return "0"
	}
	return fmt.Sprintf("%s, %.2g %%", pages.Figure(p.early), 100*float64(p.early)/float64(p.requests))
}

func (p *people) proofsEach() string {
	return fmt.Sprintf("%.2f", float64(p.proofs)/float64(len(p.all)))
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
	here := func(int) string { return v4(0) }
	return []scene{
		{"1 client, any instance", 10, 1, attacked, middleware.Newcomers, here, anywhere},
		{"1 client with 6 connections", 10, 1, attacked, middleware.Newcomers, here, sixConnections},
		{"20 behind one address", 10, 20, 12, middleware.Newcomers, here, anywhere},
		{"20 behind one address, `WhenExhausted`", 10, 20, attacked, middleware.WhenExhausted, here, anywhere},
		{"200 behind one address", 10, 200, 12, middleware.Newcomers, here, anywhere},
		{"2,000 behind one address", 10, 2000, 12, middleware.Newcomers, here, anywhere},
		{"32 on one instance, until a deploy", 10, 32, 50, middleware.Newcomers, here, sticky},
		{"1 on one instance, until a deploy", 10, 1, attacked, middleware.Newcomers, here, sticky},
		{"20 phones that change networks", 10, 20, 50, middleware.WhenExhausted, v4, roaming},
		{"1 client, any of 200 instances", 200, 1, attacked, middleware.Newcomers, here, anywhere},
		{"20 clients, from 2 to 50 instances", 2, 20, attacked, middleware.Newcomers, v4, scalingTo(50)},
	}
}

// anywhere has clients come in any order to any instance.
func anywhere(p *people, each int) {
	p.inAnyOrder(each, func(c *client) { p.ask(c, p.f.any) })
}

// inAnyOrder shuffles the requests of all clients over the window.
func (p *people) inAnyOrder(each int, next func(c *client)) {
	var order []*client
	for range each {
		order = append(order, p.all...)
	}
	p.f.r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for i, c := range order {
		p.f.now = p.f.began.Add(time.Duration(i) * 59 * time.Second / time.Duration(len(order)))
		next(c)
	}
}

// sixConnections has six requests show the same token, after the first.
func sixConnections(p *people, each int) {
	c := p.all[0]
	p.ask(c, p.f.any)
	for sent := 1; sent < each; {
		shown, last := c.token, c.token
		for range min(6, each-sent) {
			c.token = shown
			p.ask(c, p.f.any)
			last = c.token
			sent++
		}
		c.token = last
	}
}

// sticky keeps each client on the first instance, until the instances are replaced.
func sticky(p *people, each int) {
	n := 0
	p.inAnyOrder(each, func(c *client) {
		if n++; n == each*len(p.all)/2 {
			p.f.restart()
			for _, c := range p.all {
				c.host = p.f.any()
			}
		}
		p.ask(c, func() int { return c.host })
	})
}

// roaming has an address change with one request in ten, to one that many others have: its
// shared tally is used up.
func roaming(p *people, each int) {
	for k := range 5 {
		p.f.attacker(v4(1000 + k)).Drop()
	}
	p.inAnyOrder(each, func(c *client) {
		if p.f.r.IntN(10) == 0 {
			c.addr = v4(1000 + p.f.r.IntN(5))
		}
		p.ask(c, p.f.any)
	})
}

// scalingTo has instances start, or stop, until there are so many at the end of the window.
func scalingTo(last int) func(p *people, each int) {
	return func(p *people, each int) {
		n, all, first := 0, each*len(p.all), len(p.f.all)
		p.inAnyOrder(each, func(c *client) {
			for n++; len(p.f.all) < first+(last-first)*n/all; {
				p.f.all = append(p.f.all, p.f.start())
			}
			p.f.all = p.f.all[:min(len(p.f.all), max(last, first+(last-first)*n/all))]
			p.ask(c, p.f.any)
		})
	}
}

// played lets a scene happen.
func (s *scene) played(o Options, l int64) *people {
	at := selling(s.mode)
	at.Limits, at.MaxClients = perMinute(l), max(1<<14, 8*s.clients) // a set of a smaller one is full in every thirtieth run
	p := gathered(newFleet(o, s.name, s.instances, at), l, s.clients, s.addr)
	s.play(p, s.each)
	return p
}

// inW writes hashes in prices of the first tally.
func inW(hashes int64) string { return fmt.Sprintf("%.1f W", float64(hashes)/unit) }

// honestTable: what honest clients notice.
func honestTable(o Options) pages.Made {
	t := table("honest", "honest clients", "requests", "admitted", "refused under their limit", "proofs for each", "the dearest")
	for _, s := range scenes() {
		t.Add(s.clients <= 200, func() []any {
			p := s.played(o, attacked)
			return []any{s.name, p.requests, p.admitted, p.refused(), p.proofsEach(), inW(p.dearest)}
		})
	}
	return t
}
