// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// Attackers without work. Each sends more than it may have, so that a bound that does not
// hold is exceeded, and not only reached.

// each calls f for every instance, with its URL: round robin is for those who do not know it.
func (s *scene) each(f func(base string)) {
	for i := range s.cluster.instances {
		f(s.around(i))
	}
}

// more is how often one quota is asked for.
func (s *scene) more() int { return int(s.route.Quota) + 3 }

// echo is no attacker: it shows the newest token, and does not stop when it is refused.
func echo(s *scene) {
	c, token := s.attacker(netip.Addr{}), []string(nil)
	for range 2 * s.more() {
		if a := c.send(s.through(), token...); a.token() != "" {
			token = []string{middleware.TokenHeader, a.token()}
		}
	}
}

// parallel is the same with six requests at once, and a jar in which the last answer to come counts.
func parallel(s *scene) {
	c := s.attacker(netip.Addr{})
	var newest atomic.Pointer[string]
	times(6, func(int) {
		for range s.more() {
			var token []string
			if t := newest.Load(); t != nil {
				token = []string{middleware.TokenHeader, *t}
			}
			if t := c.send(s.through(), token...).token(); t != "" {
				newest.Store(&t)
			}
		}
	})
}

// drop shows nothing.
func drop(s *scene) { dropAt(s, s.attacker(netip.Addr{})) }

func dropAt(s *scene, c *caller) {
	s.each(func(base string) {
		for range s.more() {
			c.send(base)
		}
	})
	for range s.more() {
		c.send(s.through())
	}
}

// rollBack shows the first token that it got, for ever.
func rollBack(s *scene) {
	c := s.attacker(netip.Addr{})
	first := c.send(s.through()).token()
	s.each(func(base string) {
		for range s.more() {
			c.send(base, middleware.TokenHeader, first)
		}
	})
}

// fork shows one token to all instances at once.
func fork(s *scene) {
	c := s.attacker(netip.Addr{})
	first := c.send(s.through()).token()
	n := len(s.cluster.instances)
	times(2*n, func(i int) {
		for range s.more() {
			c.send(s.around(i), middleware.TokenHeader, first)
		}
	})
}

// methods sends whatever might not be counted. A preflight of CORS is not, and nothing can come
// of it: a handler that is mounted with a method never sees one.
func methods(s *scene) {
	c := s.attacker(netip.Addr{})
	s.each(func(base string) {
		for range s.more() {
			for _, path := range []string{"//", "/./", "/x/../"} {
				c.do(http.MethodPost, base+path+s.route.Policy)
			}
			c.do(http.MethodPost, base+"/%6d"+s.route.Policy[1:])
			for _, m := range []string{http.MethodOptions, http.MethodHead, http.MethodGet, http.MethodPut, "PURGE"} {
				c.do(m, base+"/"+s.route.Policy)
			}
		}
	})
}

// spoofedThrough names another client with each request, to the proxy.
func spoofedThrough(s *scene) {
	c := s.attacker(netip.Addr{})
	for i := range s.n() * int64(s.more()) {
		c.send(s.through(), "X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i%250))
	}
}

// spoofedAround does so to the instances, which are not meant to be reached.
func spoofedAround(s *scene) {
	c := s.attacker(netip.Addr{})
	s.each(func(base string) {
		for i := range s.more() {
			c.send(base, "X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i), "X-Real-IP", fmt.Sprintf("198.51.100.%d", i))
		}
	})
}

// network returns an attacker that has all of a network of IPv6, of which it uses so many /64s
// of as many /56s: more than may be let in.
func network(nets, each int) func(s *scene) {
	return func(s *scene) {
		for n := range nets {
			for i := range each {
				c := s.behind(netip.AddrFrom16([16]byte{0x20, 0x01, 0xd, 0xb8, 0, s.serial(), byte(n), byte(i), 15: 1}))
				for range len(s.cluster.instances) * int(s.route.Quota) {
					c.send(s.through())
				}
			}
		}
	}
}

// addresses shows nothing, from each of ten.
func addresses(s *scene) {
	for range 10 {
		drop(s)
	}
}

// washedOut floods a small memory, so that what was counted of it is forgotten.
func washedOut(s *scene) {
	c := s.attacker(netip.Addr{})
	s.each(func(base string) {
		for round := range 2 * s.more() {
			c.send(base)
			for i := range 24 {
				stranger := s.stranger(netip.AddrFrom4([4]byte{byte(60 + i), byte(round), s.serial(), 1}))
				for range 2 {
					stranger.send(base)
				}
			}
		}
	})
}

// coldStarts has instances replaced while it goes on.
func coldStarts(s *scene) {
	c := s.attacker(netip.Addr{})
	everywhere := func() {
		s.each(func(base string) {
			for range s.more() {
				c.send(base)
			}
		})
	}
	acrossStarts(s, c, everywhere)
}

// acrossStarts does something before, and again after each of two instances has started anew.
func acrossStarts(s *scene, c *caller, do func()) {
	do()
	for i := range 2 {
		if err := s.cluster.restart(i, s.site); err != nil {
			s.fail(err)
			return
		}
		s.starts.Add(1)
		c.client.CloseIdleConnections()
		do()
	}
}

// atOnce has as many requests served at once as it can.
func atOnce(s *scene) {
	c, each := s.attacker(netip.Addr{}), s.route.AtOnce+5
	n := len(s.cluster.instances)
	together(func() {
		times(n*each, func(i int) { c.send(s.around(i)) })
	}, func() {
		defer s.release()
		for {
			seen, err := s.cluster.state()
			if err != nil {
				s.fail(err)
				return
			}
			decided := int64(0)
			for _, n := range seen.Counts[c.name] {
				decided += n
			}
			if decided == int64(n*each) {
				return // each is refused, or held
			}
			select {
			case <-s.cluster.ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
}

// release lets go what the handlers hold.
func (s *scene) release() {
	for _, p := range s.cluster.instances {
		if err := p.post("/release"); err != nil {
			s.fail(err)
		}
	}
}

// boundary asks for all before the end of a window, and again after it, while the clock of one
// instance is four seconds ahead.
func boundary(s *scene) {
	c := s.attacker(netip.Addr{})
	token := []string(nil)
	again := func() {
		s.each(func(base string) {
			for range s.more() {
				c.send(base)
			}
		})
		for range 2 * s.more() {
			if t := c.send(s.through(), token...).token(); t != "" {
				token = []string{middleware.TokenHeader, t}
			}
		}
	}
	s.move(window - s.cluster.clock%window - 2)
	if err := s.cluster.set(0, s.cluster.clock+4); err != nil {
		s.fail(err)
	}
	again()
	s.move(4)
	again()
}

// clockBack drops, before and after the clocks of all instances are put back an hour.
func clockBack(s *scene) {
	c := s.attacker(netip.Addr{})
	dropAt(s, c)
	s.move(-window)
	dropAt(s, c)
	s.move(window) // for those that come after
}

// clockAndBack goes on when the clocks are put forward again. What they passed twice is a start of
// all instances.
func clockAndBack(s *scene) {
	c := s.attacker(netip.Addr{})
	for _, step := range []int64{0, -window, window} {
		s.move(step)
		dropAt(s, c)
	}
	s.starts.Add(int64(len(s.cluster.instances)))
}

// outage uses up what the counter gives, on one instance alone, so that the others remember
// nothing of it, and then what there is without the counter.
func outage(s *scene) {
	c := s.attacker(netip.Addr{})
	for range s.more() {
		c.send(s.around(0))
	}
	s.counter.stop()
	dropAt(s, c)
}

// levelOf returns how many tallies an identity can have bought for so much work on n instances,
// each of which it paid with the same part: the most that can be.
func levelOf(s *scene) int64 {
	n, crowd := float64(s.n()), float64(s.route.Crowd)
	leaked := 4 * crowd * float64(s.seen.Load()) / 3600
	return int64(math.Floor(n * (leaked + crowd*math.Log2(1+15./8*float64(s.work.Load())/(n*crowd*float64(s.route.Work))))))
}
