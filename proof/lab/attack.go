// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/proof/players"
)

// Attackers that only real servers and a real proxy can have, and what the rows make of those that all fleets have.

// by has one attacker, which has one address.
func by(do func(a *players.Attacker)) func(*scene) {
	return func(s *scene) { do(s.attacker().Attacker) }
}

func balancer() int { return fleet.Balancer }

// drop shows nothing, to each and to all.
func drop(a *players.Attacker) {
	a.Drop()
	a.Drain(fleet.Request{To: fleet.Balancer})
}

// more is how often one quota is asked for, where the answers are not looked at.
func (s *scene) more() int { return int(s.route.Quota) + 3 }

// spoofed names another client with each request: to the proxy, or to the instances, which are not meant to be reached.
func spoofed(s *scene, to func(i int) int) {
	c := s.attacker()
	for i := range int(s.n()) * s.more() {
		other := fmt.Sprintf("198.51.100.%d", i%250)
		c.Ask(fleet.Request{To: to(i), Fields: []string{"X-Forwarded-For", other, "X-Real-IP", other}})
	}
}

// washedOut floods a small memory, so that what was counted of it is forgotten.
func washedOut(s *scene) {
	c, round := s.attacker(), 0
	for to := range s.House.Instances {
		for range 2 * s.more() {
			c.Ask(fleet.Request{To: to})
			round++
			for i := range 24 {
				stranger := s.client("/stranger", netip.AddrFrom4([4]byte{byte(60 + i), byte(round), s.Net[1], 1}).String())
				stranger.Named = true
				for range 2 {
					stranger.Ask(fleet.Request{To: to})
				}
			}
		}
	}
}

// acrossStarts does something before, and again after each of two instances has started anew.
func acrossStarts(s *scene, do func()) {
	do()
	for i := range 2 {
		s.Fail(s.House.Restart(i, (*house.Process).End))
		s.Rest()
		do()
	}
}

// outage uses up what the counter gives, on one instance alone, so that the others remember
// nothing of it, and then what there is without the counter.
func outage(s *scene) {
	a := s.attacker()
	a.Drain(fleet.Request{})
	s.House.Redis.Kill()
	drop(a.Attacker)
}

// cached fills a shared cache, and is refused in the middle. Later clients get neither its own
// responses, nor its refusals.
func cached(s *scene) {
	first, second := s.attacker(), s.honest()
	get := func(c *Client, i int) fleet.Answer {
		return c.Ask(fleet.Request{To: fleet.Balancer, Method: http.MethodGet, Path: fmt.Sprintf("?page=%d", i)})
	}
	for i := range int(s.n()) * s.more() {
		get(first, i)
	}
	hits := 0
	for i := range int(s.n()*s.route.Quota + 3) {
		a := get(second, i)
		if a.Header.Get("Lab-Cache") != "HIT" {
			continue
		}
		hits++
		for _, field := range []string{middleware.TokenHeader, middleware.ChallengeHeader, "Set-Cookie", "RateLimit", "Retry-After"} {
			if a.Header.Get(field) != "" {
				s.Unjust.Note("%s", "a shared cache gives another client "+field)
			}
		}
		if !a.Admitted() {
			s.Unjust.Note("%s", "a shared cache gives another client a refusal")
		}
	}
	if hits == 0 {
		s.Fail(errors.New("the cache is none"))
	}
}

// Attackers that work, or that use what others have worked for.

// buyer returns what has an attacker buy as cheaply as can be, at its address.
func (s *scene) buyer(a *Client) *players.Buyer {
	return a.Buyer(int(s.route.Crowd), 0, func(int) string { return a.From[0] })
}

// farm buys with all its work, evenly on all instances, and uses everything everywhere.
func farm(s *scene) {
	address := s.Host()
	together(s.neighbours(address), func() {
		a := s.attacker(address)
		a.Drop()
		b := s.buyer(a)
		for token := "-"; token != ""; {
			token = b.Buy(s.scale.work * leastWork * int64(a.Instances()))
			a.Show(fleet.Request{Tokens: []string{token}})
		}
	})
}

// planted has a victim show, beside its own, the spent token of the attacker: as a field that a proxy adds.
func planted(s *scene) {
	a, victim, spent := s.attacker(), s.honest(), ""
	for range s.route.Quota {
		spent = a.Ask(fleet.Request{To: fleet.Balancer, Tokens: []string{spent}}).Token()
	}
	for range s.route.Quota {
		victim.Keep(victim.Ask(fleet.Request{To: fleet.Balancer, Tokens: []string{spent, victim.Token}}).Token())
	}
}

// Clients that go on while all else happens.

// meanwhile has clients do what they do, at once: each of them once or, in a soak, again and again.
func (s *scene) meanwhile(does ...func(s *scene) func()) {
	var all []func()
	for _, of := range does {
		do := of(s)
		all = append(all, func() {
			for do(); s.on(); do() {
				s.pause(s.scale.pause)
			}
		})
	}
	together(all...)
}

// keeps is a client that always shows its newest token, to one instance after the other. It must be accepted, whatever is done to
// secrets and policies, and the client has room.
func keeps(s *scene) func() {
	c := s.honest()
	c.Strict = true
	return func() {
		for to := range 10 {
			s.still(func() { // or its token would end on the way
				if standing := s.House.Away.Now(); !c.Send(to) && s.House.Away.Stood(standing) {
					s.Unjust.Note("%s is refused", c.Name)
				}
			})
		}
	}
}

// flood sends forged tokens and proofs as fast as it can, from one address after the other. It is a load: the threats of forgery
// have tests of their own.
func flood(s *scene) func() {
	real := s.honest().Ask(fleet.Request{}).Token()
	forgeries := []string{real + ".", "." + real, real + "B", strings.Repeat(real+",", 40), strings.Repeat("A", 7000), "..", "~0.0.0.0.0.0.0.0"}
	for i := 0; i < len(real); i += 7 { // one character changed
		changed := []byte(real)
		changed[i] ^= 1
		forgeries = append(forgeries, string(changed))
	}
	c := s.attacker()
	c.Named = true
	n := 0
	return func() {
		for i, f := range forgeries {
			n++
			ask := fleet.Request{To: n, From: fmt.Sprintf("10.%d.%d.1", n>>8&15, n&255)}
			switch i % 4 {
			case 0:
				ask.Cookie = s.Cookie + "=" + f // as a browser shows it
			case 1:
				ask.Proof = f
			default:
				ask.Fields = []string{middleware.TokenHeader, f}
			}
			c.Ask(ask)
		}
	}
}
