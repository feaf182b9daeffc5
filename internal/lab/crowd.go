// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"sync/atomic"

	"github.com/tallystick/tallystick/internal/lab/instance"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/client"
)

// The honest crowd of every row: people and programs that do what the documentation asks of
// them, and no more than they may. So each refusal of one that has room is a fault.
//
// None is on an address of the attacker, where the row does not say so: all have their own.

// honestly is the name by which the instances count them.
func (s *scene) honestly() string { return s.row + "/crowd" }

// crowd has all of them come at once.
func (s *scene) crowd() {
	together(s.browser, s.office, s.mobile, s.moved, s.slowPhone, s.noScript)
}

// browser is a page that sends with six connections at once and one jar of cookies, by HTTPS,
// because the cookies are Secure. It sends as much as its address may.
func (s *scene) browser() {
	address := s.host()
	c := s.caller(s.honestly(), s.dialer(address), address, true)
	base := "https://" + s.cluster.proxy.safe.String()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.fail(err)
		return
	}
	c.client.Jar = jar
	switch s.route.Mode {
	case instance.EveryRequest:
		return // a form each time, which is how programs do it
	case instance.Newcomers: // what the element on the page does before the form is sent
		token := ""
		s.still(func() {
			proof, _ := c.solve(c.challenge(base))
			token = c.redeem(base, proof)
		})
		if token == "" {
			s.broken("a browser's proof is not accepted")
			return
		}
	}
	var left atomic.Int64
	left.Store(s.route.Quota)
	times(6, func(int) {
		for left.Add(-1) >= 0 {
			c.send(base)
		}
	})
}

// polite returns the Go client of this repository, at an address that may change.
func (s *scene) polite(where func() (netip.Addr, http.RoundTripper)) *http.Client {
	base := s.witness(moving(func() http.RoundTripper {
		_, t := where()
		return t
	}), func() string {
		address, _ := where()
		return address.String()
	}, true)
	return &http.Client{Transport: &client.Transport{Base: base, MaxWait: -1, MaxSolves: 8, MaxAttempts: 20, Workers: 1}}
}

// moving is a transport that is looked up for each request.
type moving func() http.RoundTripper

func (m moving) RoundTrip(r *http.Request) (*http.Response, error) { return m().RoundTrip(r) }

// post sends so many requests of a polite client, one after the other.
func (s *scene) post(c *http.Client, n int) {
	for range n {
		req, err := http.NewRequestWithContext(s.cluster.ctx, http.MethodPost, s.through()+"/"+s.route.Policy, nil)
		if err != nil {
			s.fail(err)
			return
		}
		req.Header.Set(instance.ClientHeader, s.honestly())
		var resp *http.Response
		s.still(func() { resp, err = c.Do(req) })
		if err != nil {
			s.fail(err)
			return
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			s.fail(err)
		}
		_ = resp.Body.Close()
	}
}

// office is 20 people behind one address. Where work buys more than the address has, each
// sends three requests; else they have its quota together.
func (s *scene) office() {
	const people = 20
	address := s.host()
	each := max(1, int(s.route.Quota/people))
	if s.route.Mode == instance.WhenExhausted || s.route.Mode == instance.Newcomers {
		each = int(min(3, s.route.Quota))
	}
	come := people
	if s.oracle.shared {
		come = int(min(people, s.route.Quota))
	}
	times(come, func(int) {
		t := s.dialer(address)
		s.post(s.polite(func() (netip.Addr, http.RoundTripper) { return address, t }), each)
	})
}

// mobile is a phone that changes networks twice.
func (s *scene) mobile() {
	if s.route.Mode == instance.EveryRequest || s.route.BindOwn {
		return // it has nothing to take along
	}
	type network struct {
		address netip.Addr
		http.RoundTripper
	}
	var at [3]network
	for i := range at {
		at[i].address = s.host()
		at[i].RoundTripper = s.dialer(at[i].address)
	}
	var now int
	c := s.polite(func() (netip.Addr, http.RoundTripper) { return at[now].address, at[now] })
	for now = range at {
		s.post(c, int(s.route.Quota)/len(at))
	}
}

// moved is somebody whose balancer keeps it at one instance, and has put it at another one since it
// bought its tally, which has a share alone there. The refusal that ends the share offers a
// challenge, and the further tally is at home: it has all of its quota.
func (s *scene) moved() {
	if s.route.Mode != instance.WhenExhausted && s.route.Mode != instance.Newcomers {
		return
	}
	address := s.host()
	c := s.caller(s.honestly(), s.dialer(address), address, true)
	here, token := s.around(1), ""
	s.still(func() {
		proof, _ := c.solve(c.challenge(s.around(0)))
		token = c.redeem(s.around(0), proof)
	})
	if token == "" {
		s.broken("the proof of a client that is to move is not accepted")
		return
	}
	var last answer
	use := func(n int64) {
		for range n {
			if last = c.send(here, middleware.TokenHeader, token); !last.admitted() {
				return
			}
			if t := last.token(); ownTally(t) != "" { // not that of its address
				token = t
			}
		}
	}
	use(s.route.Quota + 1)
	if s.oracle.shared && last.admitted() {
		use(s.route.Quota) // of its address
	}
	s.still(func() {
		last = c.send(here, middleware.TokenHeader, token) // a challenge ends by the clock
		proof, _ := c.solve(last)
		token = c.redeem(here, proof)
	})
	if token == "" {
		s.broken("a client away from the home of its tally is sold none: " + last.decision.String())
		return
	}
	use(s.route.Quota)
}

// slowPhone takes eight of the ten seconds that a challenge lives.
func (s *scene) slowPhone() {
	if s.route.Mode == "" {
		return
	}
	address := s.host()
	c := s.caller(s.honestly(), s.dialer(address), address, true)
	s.turn.Lock()
	defer s.turn.Unlock()
	proof, _ := c.solve(c.challenge(s.through()))
	s.move(8)
	if a := c.send(s.through(), middleware.ProofHeader, proof); !a.admitted() {
		s.broken(fmt.Sprintf("a slow phone's proof: %d %s", a.status, a.decision))
	}
}

// neighbours are four holders of tallies of their own behind the address of an attacker, who must
// not notice it. They buy at once, and use what they have when use is called.
func (s *scene) neighbours(address netip.Addr) (use func()) {
	var holders [4]*caller
	var tokens [len(holders)]string
	for i := range holders {
		c := s.caller(s.honestly(), s.dialer(address), address, true)
		s.still(func() {
			// The instance that it is sent to may have sold more than the one that it asked: then it asks anew.
			for tries := 0; tries < 4 && tokens[i] == ""; tries++ {
				proof, _ := c.solve(c.challenge(s.through()))
				tokens[i] = c.redeem(s.through(), proof)
			}
		})
		if tokens[i] == "" {
			s.broken("no proof of an attacker's neighbour is accepted")
		}
		holders[i] = c
	}
	return func() {
		times(len(holders), func(i int) {
			for range s.route.Quota {
				if t := holders[i].send(s.through(), middleware.TokenHeader, tokens[i]).token(); t != "" {
					tokens[i] = t
				}
			}
		})
	}
}

// broken notes a promise to honest clients that was broken.
func (s *scene) broken(what string) {
	s.oracle.mu.Lock()
	defer s.oracle.mu.Unlock()
	s.oracle.promises = append(s.oracle.promises, what)
}
