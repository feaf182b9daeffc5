// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"sync/atomic"

	"github.com/tallystick/tallystick/middleware/client"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/instance"
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

// use sends so many requests, and shows the newest token of its own. It ends where it is refused, and returns the last answer.
func (c *caller) use(to int, n int64, token *string) (last fleet.Answer) {
	for range n {
		if last = c.Ask(fleet.Request{To: to, Tokens: []string{*token}}); !last.Admitted() {
			return last
		}
		if own, _ := fleet.Claims(last.Token()); own != "" { // not that of its address
			*token = last.Token()
		}
	}
	return last
}

// buy buys a tally with the challenge of one instance at another one, or says what was broken.
func (s *scene) buy(c *caller, seller, redeemer int, who string) (token string) {
	s.still(func() {
		// The instance that it is sent to may have sold more than the one that it asked: then it asks anew.
		for tries := 0; tries < 4 && token == ""; tries++ {
			token = c.Redeem(redeemer, "", c.Solve(c.Challenge(seller, "")))
		}
	})
	if token == "" {
		s.broken("no proof is accepted of " + who)
	}
	return token
}

// browser is a page that sends with six connections at once and one jar of cookies, by HTTPS,
// because the cookies are Secure. It sends as much as its address may.
func (s *scene) browser() {
	if s.route.Work > 0 && s.route.Mode == everyRequest {
		return // a form each time, which is how programs do it
	}
	c := s.honest(s.host())
	c.client.At = func(int) string { return "https://" + s.cluster.Proxy.Safe.String() }
	c.client.Via(c.From[0]).Jar, _ = cookiejar.New(nil) // it never fails without options
	if s.route.Mode == newcomers {                      // what the element on the page does before the form is sent
		if s.buy(c, 0, 0, "a browser") == "" {
			return
		}
	}
	var left atomic.Int64
	left.Store(s.route.Quota)
	c.Together(6, func(int) {
		for left.Add(-1) >= 0 {
			c.Ask(fleet.Request{})
		}
	})
}

// A place is where a client is on the network, which may change.
type place struct {
	http.RoundTripper
	address string
}

func (s *scene) place() *place {
	address := s.host()
	return &place{s.dialer(address), address}
}

// polite returns the Go client of this repository.
func (s *scene) polite(at *place) *http.Client {
	base := s.witness(at, func() string { return at.address }, true)
	return &http.Client{Transport: &client.Transport{Base: base, MaxWait: -1, MaxSolves: 8, MaxAttempts: 20, Workers: 1}}
}

// post sends so many requests of a polite client, one after the other.
func (s *scene) post(c *http.Client, n int) {
	for range n {
		req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, s.at(fleet.Balancer)+"/"+s.row, nil)
		if err != nil {
			s.fail(err)
			return
		}
		req.Header.Set(instance.ClientHeader, s.row+honestName)
		var resp *http.Response
		s.still(func() { resp, err = c.Do(req) })
		if err != nil {
			s.fail(err)
			return
		}
		_, err = io.Copy(io.Discard, resp.Body)
		s.fail(err)
		_ = resp.Body.Close()
	}
}

// office is 20 people behind one address. Where work buys more than the address has, each
// sends three requests; else they have its quota together.
func (s *scene) office() {
	const people = 20
	address := s.host()
	each := max(1, int(s.route.Quota/people))
	if s.sells() {
		each = int(min(3, s.route.Quota))
	}
	come := people
	if s.oracle.shared {
		come = int(min(people, s.route.Quota))
	}
	var all []func()
	for range come {
		at := &place{s.dialer(address), address}
		all = append(all, func() { s.post(s.polite(at), each) })
	}
	together(all...)
}

// mobile is a phone that changes networks twice.
func (s *scene) mobile() {
	if s.route.Mode == everyRequest || s.route.BindOwn {
		return // it has nothing to take along
	}
	at := new(place)
	c := s.polite(at)
	for range 3 {
		*at = *s.place()
		s.post(c, int(s.route.Quota)/3)
	}
}

// moved is somebody whose balancer has put it at another instance than the one that has sold it a tally: that one
// admits all of it too.
func (s *scene) moved() {
	if !s.sells() {
		return
	}
	c := s.honest(s.host())
	if token := s.buy(c, 0, 0, "a client that is to move"); token != "" {
		c.use(1, s.route.Quota, &token)
	}
}

// slowPhone takes eight of the ten seconds that a challenge lives.
func (s *scene) slowPhone() {
	if s.route.Work == 0 {
		return
	}
	c := s.honest(s.host())
	s.turn.Lock()
	defer s.turn.Unlock()
	proof := c.Solve(c.Challenge(fleet.Balancer, ""))
	s.move(8)
	if a := c.Ask(fleet.Request{To: fleet.Balancer, Proof: proof}); !a.Admitted() {
		s.broken("a slow phone's proof: " + instance.Told(a))
	}
}

// neighbours are four holders of tallies of their own behind the address of an attacker, who must
// not notice it. They buy at once, and use what they have when use is called.
func (s *scene) neighbours(address string) (use func()) {
	var all []func()
	for range 4 {
		c := s.honest(address)
		token := s.buy(c, fleet.Balancer, fleet.Balancer, "an attacker's neighbour")
		all = append(all, func() {
			for range s.route.Quota {
				if t := c.Ask(fleet.Request{To: fleet.Balancer, Tokens: []string{token}}).Token(); t != "" {
					token = t
				}
			}
		})
	}
	return func() { together(all...) }
}

// ticketTime is after the first wait of a ticket.
const ticketTime = 6

// noScript is somebody whose browser runs none: it is refused a page, waits, and presses the
// button again.
func (s *scene) noScript() {
	if !s.route.Room {
		return
	}
	c := s.honest(s.host())
	ticket := c.Ask(fleet.Request{To: fleet.Balancer, Method: http.MethodGet, Path: fleet.TicketPath}).Ticket()
	s.wait(ticketTime)
	if a := c.Ask(fleet.Request{To: fleet.Balancer, Cookie: ticket}); !a.Admitted() {
		s.broken("somebody without a script is not let in with the ticket " + ticket + ": " + instance.Told(a))
	}
}

// broken notes a promise to honest clients that was broken.
func (s *scene) broken(what string) {
	s.oracle.mu.Lock()
	defer s.oracle.mu.Unlock()
	s.oracle.promises = append(s.oracle.promises, what)
}
