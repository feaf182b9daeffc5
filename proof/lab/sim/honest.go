// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/chance"
	"github.com/tallystick/tallystick/proof/pages"
	"github.com/tallystick/tallystick/proof/players"
)

// A client is honest: it echoes the newest token, works where it is asked to, and knows how
// many requests it was admitted.
type client struct {
	addr  string
	token string
	used  int64 // in the window
	own   *ownTally
	host  int // the instance that its balancer keeps it on
}

// An ownTally is what a client knows of the last tally that it has bought: its home, and how much of
// it each instance has admitted. What an instance knew is gone with it.
type ownTally struct {
	name string
	home *instance // that issued the challenge
	used map[*instance]int64
}

// payable is what a client works for one proof: as much as ours do unless they are told to.
const payable = unit << 10

// People are honest clients, and what became of them.
type people struct {
	f   *fleet
	l   int64
	q   int64 // the share of l, on an instance that is not a tally's home
	all []*client

	requests, admitted int64
	early              int64 // refused, though the client had a tally under its limit
	unjust             int64 // of these, where the instance was its home, or had admitted less than its share
	over               int64 // admitted of a tally by an instance that is not its home, above its share
	proofs, dearest    int64 // their number; the work of the dearest
}

// gathered returns so many people before a fleet that limits each to l.
func gathered(f *fleet, l int64, n int, addr func(int) string) *people {
	p := &people{f: f, l: l, q: chance.Share(l, f.site.Instances, 1)}
	for i := range n {
		p.all = append(p.all, &client{addr: addr(i)})
	}
	return p
}

// send sends one request of a client to instance i, and judges the answer. asked is who has asked for the work
// of the proof; nil for none.
func (p *people) send(c *client, i int, proof string, asked *instance) players.Answer {
	by := p.f.all[i]
	got := p.f.Ask(players.Request{To: i, From: c.addr, Tokens: []string{c.token}, Proof: proof})
	if !got.Admitted() && asked == nil && c.used < p.l && c.own != nil {
		p.early++
		if by == c.own.home || c.own.used[by] < p.q {
			p.unjust++
		}
	}
	c.token = cmp.Or(got.Token(), c.token)
	if !got.Admitted() {
		return got
	}
	name, _ := players.Claims(got.Token())
	if asked != nil && name != "" {
		c.own = &ownTally{name, asked, map[*instance]int64{}}
	}
	if c.own != nil && c.own.name == name {
		c.own.used[by]++
		if by != c.own.home && c.own.used[by] > p.q {
			p.over++
		}
	}
	return got
}

// ask sends one request, works if need be, and asks again.
func (p *people) ask(c *client, to func() int) {
	p.requests++
	i := to()
	got := p.send(c, i, "", nil)
	for tries := 0; !got.Admitted() && tries < 10; tries++ {
		work, ok := got.Challenge()
		if !ok || int64(work.Work) > payable {
			break
		}
		p.proofs++
		p.dearest = max(p.dearest, int64(work.Work))
		asked, proof := p.f.all[i], p.f.attacker().Solve(got)
		i = to()
		got = p.send(c, i, proof, asked)
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
	planned   int64 // what the operator expects; 0: the instances
}

func scenes() []scene {
	here := func(int) string { return v4(0) }
	return []scene{
		{"1 client, any instance", 10, 1, attacked, middleware.Newcomers, here, anywhere, 0},
		{"1 client with 6 connections", 10, 1, attacked, middleware.Newcomers, here, sixConnections, 0},
		{"20 behind one address", 10, 20, 12, middleware.Newcomers, here, anywhere, 0},
		{"20 behind one address, `WhenExhausted`", 10, 20, attacked, middleware.WhenExhausted, here, anywhere, 0},
		{"200 behind one address", 10, 200, 12, middleware.Newcomers, here, anywhere, 0},
		{"2,000 behind one address", 10, 2000, 12, middleware.Newcomers, here, anywhere, 0},
		{"32 on one instance, until a deploy", 10, 32, 50, middleware.Newcomers, here, sticky, 0},
		{"1 on one instance, until a deploy", 10, 1, attacked, middleware.Newcomers, here, sticky, 0},
		{"20 phones that change networks", 10, 20, 50, middleware.WhenExhausted, v4, roaming, 0},
		{"1 client, any of 200 instances", 200, 1, attacked, middleware.Newcomers, here, anywhere, 0},
		{"20 clients, from 2 to 50 instances", 2, 20, attacked, middleware.Newcomers, v4, scalingTo(50), 10},
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
	return unlessByChance(func() *people {
		at := selling(s.mode)
		at.Limits, at.Instances, at.MaxClients = perMinute(l), s.planned, max(1<<14, 8*s.clients) // a set of a smaller one is full in every thirtieth run
		p := gathered(newFleet(o, s.name, s.instances, at), l, s.clients, s.addr)
		s.play(p, s.each)
		return p
	}, func(p *people) bool { return p.over > 0 })
}

// inW writes hashes in prices of the first tally.
func inW(hashes int64) string { return fmt.Sprintf("%.1f W", float64(hashes)/unit) }

// honestTable: what honest clients notice.
func honestTable(o Options) pages.Made {
	t := table("honest", "honest clients", "requests", "admitted", "refused under their limit", "proofs for each", "the dearest",
		"with `Instances` 1: refused", "proofs for each")
	for _, s := range scenes() {
		t.Add(s.clients <= 200, func() []any {
			p, whole := s.played(o, attacked), s.played(o.expecting(1), attacked)
			return []any{s.name, p.requests, p.admitted, p.refused(), p.proofsEach(), inW(p.dearest), whole.refused(), whole.proofsEach()}
		})
	}
	return t
}
