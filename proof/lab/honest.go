// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/cookiejar"
	"sync/atomic"

	"github.com/tallystick/tallystick/proof/fleet"
)

// The honest clients of every row: people and programs that do what the documentation asks of
// them, and no more than they may. So each refusal of one that has room is a fault.
//
// None is on an address of the attacker, where the row does not say so: all have their own.

// honestly has all of them come at once.
func (s *scene) honestly() {
	together(s.browser, s.office, s.mobile, s.moved, s.slowPhone, s.noScript)
}

// sells reports whether work buys more than the address has.
func (s *scene) sells() bool { return s.route.Work > 0 && s.route.Mode != everyRequest }

// buy buys a tally by the challenge of one instance at another one, or says what was broken.
func (s *scene) buy(c *Client, seller, redeemer int, buyer string) (bought bool) {
	s.still(func() {
		// The instance that it is sent to may have sold more than the one that it asked: then it asks anew.
		for tries := 0; tries < 4 && !bought; tries++ {
			bought = c.Purchase(seller, redeemer)
		}
	})
	if !bought {
		s.Unjust.Note("no proof is accepted of %s", buyer)
	}
	return bought
}

// browser is a page that sends with six connections at once and one jar of cookies, by HTTPS,
// because the cookies are Secure. It sends as much as its address may.
func (s *scene) browser() {
	if s.route.Mode == everyRequest {
		return // a form each time, which is how programs do it
	}
	c := s.honest()
	c.Safe = true
	c.Jar, _ = cookiejar.New(nil)                                  // it never fails without options
	if s.route.Mode == newcomers && !s.buy(c, 0, 0, "a browser") { // what the element on the page does before the form is sent
		return
	}
	var left atomic.Int64
	left.Store(s.route.Quota)
	c.Together(6, func(int) {
		for left.Add(-1) >= 0 {
			c.Ask(fleet.Request{})
		}
	})
}

// polite returns the Go client of this repository at an address, and a function that sends its requests, one after the other.
func (s *scene) polite(address string) (c *Client, post func(n int)) {
	c = s.honest(address)
	polite := c.Polite()
	return c, func(n int) {
		for range n {
			s.still(func() { c.Post(polite) })
		}
	}
}

// office is 20 people behind one address. Where work buys more than the address has, each
// sends three requests; else they have its quota together.
func (s *scene) office() {
	const people = 20
	address := s.Host()
	each, come := max(1, int(s.route.Quota/people)), people
	if s.sells() {
		each = int(min(3, s.route.Quota))
	}
	if s.route.Mode != newcomers {
		come = int(min(people, s.route.Quota))
	}
	var all []func()
	for range come {
		_, post := s.polite(address)
		all = append(all, func() { post(each) })
	}
	together(all...)
}

// mobile is a phone that changes networks twice.
func (s *scene) mobile() {
	if s.route.Mode == everyRequest {
		return // it has nothing to take along
	}
	c, post := s.polite(s.Host())
	for range 3 {
		post(int(s.route.Quota) / 3)
		c.From[0] = s.Host()
	}
}

// moved is a client whose balancer has put it at another instance than the one that has sold it a tally: that one
// admits all of it too.
func (s *scene) moved() {
	if !s.sells() {
		return
	}
	c := s.honest()
	if s.buy(c, 0, 0, "a client that is to move") {
		s.uses(c, 1)
	}
}

// uses sends as many requests as a tally may, and shows its newest token.
func (s *scene) uses(c *Client, to int) {
	for range s.route.Quota {
		c.Send(to)
	}
}

// slowPhone takes eight of the ten seconds that a challenge lives.
func (s *scene) slowPhone() {
	if s.route.Work == 0 {
		return
	}
	c := s.honest()
	s.turn.Lock()
	defer s.turn.Unlock()
	proof := c.Solve(c.Challenge(fleet.Balancer, ""))
	s.Fail(s.House.Advance(8))
	if a := c.Ask(fleet.Request{To: fleet.Balancer, Proof: proof}); !a.Admitted() {
		s.Unjust.Note("a slow phone's proof: %s", Told(a))
	}
}

// neighbours are four holders of tallies of their own behind the address of an attacker. They must
// not notice it. They buy at once, and use what they have when use is called.
func (s *scene) neighbours(address string) (use func()) {
	var all []func()
	for range 4 {
		c := s.honest(address)
		s.buy(c, fleet.Balancer, fleet.Balancer, "an attacker's neighbour")
		all = append(all, func() { s.uses(c, fleet.Balancer) })
	}
	return func() { together(all...) }
}

// ticketTime is after the first wait of a ticket.
const ticketTime = 6

// noScript is a person whose browser runs none: it is refused a page, waits, and presses the button again.
func (s *scene) noScript() {
	if !s.route.Room {
		return
	}
	c := s.honest()
	ticket := c.Ask(fleet.Request{To: fleet.Balancer, Method: http.MethodGet, Path: fleet.TicketPath}).Ticket()
	s.wait(ticketTime)
	if a := c.Ask(fleet.Request{To: fleet.Balancer, Cookie: ticket}); !a.Admitted() {
		s.Unjust.Note("a person without a script is not let in with the ticket %s: %s", ticket, Told(a))
	}
}
