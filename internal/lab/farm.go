// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/tallystick/tallystick/internal/lab/instance"
	"github.com/tallystick/tallystick/middleware"
)

// Attackers that work, or that use what others have worked for.

// farm buys with all its work, evenly on all instances, and uses everything everywhere. It
// buys as cheaply as can be: it gathers challenges at one price, and solves them until
// the price has risen by more than 7/8 and they are good no more.
func farm(s *scene) {
	address := s.host()
	neighbours := s.neighbours(address)
	together(neighbours, func() { farmAt(s, address) })
}

func farmAt(s *scene, address netip.Addr) {
	c := s.attacker(address)
	admitted := int64(0)
	use := func(token ...string) {
		s.each(func(base string) {
			for range s.more() {
				if c.send(base, token...).admitted() {
					admitted++
				}
			}
		})
		s.curve = append(s.curve, point{float64(s.work.Load()) / float64(s.route.Work), float64(admitted)})
	}
	use()
	for spent := int64(0); spent < s.scale.work*s.route.Work; {
		before := s.work.Load()
		s.each(func(base string) {
			c.stock(base, func(token string) { use(middleware.TokenHeader, token) })
		})
		if s.work.Load() == before {
			return // nothing is for sale, or the lab is stopped
		}
		spent += (s.work.Load() - before) / int64(len(s.cluster.instances))
	}
}

// stock gathers as many challenges of an instance as are good together, and buys with them until one
// is not. use gets the first token of each tally.
func (c *caller) stock(base string, use func(token string)) {
	gathered := make([]answer, c.scene.route.Crowd*7/8+1)
	for i := range gathered {
		gathered[i] = c.challenge(base)
	}
	for _, a := range gathered {
		proof, _ := c.solve(a)
		if proof == "" {
			return
		}
		token := c.redeem(base, proof)
		if token == "" {
			return
		}
		use(token)
	}
}

// farmRestarts uses all that it has bought on every instance, while instances are replaced: by such as
// remember nothing, and are the home of no tally that was sold before.
func farmRestarts(s *scene) {
	c := s.attacker(netip.Addr{})
	var tokens []string
	s.each(func(base string) {
		c.stock(base, func(token string) { tokens = append(tokens, token) })
	})
	use := func() {
		s.each(func(base string) {
			for _, token := range tokens {
				for range s.more() {
					c.send(base, middleware.TokenHeader, token)
				}
			}
		})
	}
	acrossStarts(s, c, use)
}

// imports buys from many addresses, where each is cheap, and uses all from one.
func imports(s *scene) {
	user := s.attacker(netip.Addr{})
	for i := range 4 {
		s.attacker(netip.Addr{}).stock(s.around(i), func(token string) {
			s.each(func(base string) {
				for range s.more() {
					user.send(base, middleware.TokenHeader, token)
				}
			})
		})
	}
}

// proofs solves some challenges, and shows each to all instances again and again.
func proofs(s *scene) {
	c := s.attacker(netip.Addr{})
	for i := range 4 {
		proof, _ := c.solve(c.challenge(s.around(i)))
		s.each(func(base string) {
			for range s.more() {
				c.send(base, middleware.ProofHeader, proof)
			}
		})
	}
}

// stolen is a thief, who shows the token that an honest client has bought, from another address.
func stolen(s *scene) {
	address := s.host()
	victim := s.caller(s.row+instance.Attacker, s.dialer(address), address, true)
	proof, _ := victim.solve(victim.challenge(s.through()))
	token := victim.redeem(s.through(), proof)
	s.bought.Add(1)
	thief := s.attacker(netip.Addr{})
	s.each(func(base string) {
		for range s.more() {
			thief.send(base, middleware.TokenHeader, token)
			thief.send(base, middleware.ProofHeader, proof)
		}
	})
}

// stolenBound is the same where tallies are bound. What the victim uses is not the thief's.
func stolenBound(s *scene) {
	address := s.host()
	victim := s.caller(s.honestly(), s.dialer(address), address, true)
	proof, _ := victim.solve(victim.challenge(s.through()))
	token := victim.redeem(s.through(), proof)
	thief := s.attacker(netip.Addr{})
	s.each(func(base string) {
		for range s.more() {
			thief.send(base, middleware.TokenHeader, token)
			thief.send(base, middleware.ProofHeader, proof)
		}
	})
	for range s.route.Quota {
		if t := victim.send(s.through(), middleware.TokenHeader, token).token(); t != "" {
			token = t
		}
	}
}

// elsewhere is another route of the same site, which sells tallies of its own.
var elsewhere = instance.Route{Policy: "elsewhere", Quota: 1000, Window: window, Mode: instance.WhenExhausted, Work: leastWork, Crowd: 8}

// swapped shows what it has bought on another route.
func swapped(s *scene) {
	there := s.attacker(netip.Addr{})
	there.policy = elsewhere.Policy
	here := s.attacker(there.address)
	for i := range 3 {
		proof, _ := there.solve(there.challenge(s.around(i)))
		token := there.redeem(s.through(), proof)
		s.each(func(base string) {
			here.send(base, middleware.ProofHeader, proof)
			here.redeem(base, proof)
			for range s.more() {
				here.send(base, middleware.TokenHeader, token)
				here.send(base, "Cookie", "__Host-tallystick-"+s.route.Policy+"="+token)
			}
		})
	}
}

// floods asks for challenges, and answers each with one number that is not the one. To guess
// would not do: puzzles are so small here that one guess in 65536 is right.
func floods(s *scene) {
	c := s.attacker(netip.Addr{})
	s.each(func(base string) {
		for range 10 * s.more() {
			a := c.challenge(base)
			proof, _ := c.solve(a)
			c.send(base, middleware.ProofHeader, wrong(proof))
		}
	})
}

// wrong changes the last answer of a proof.
func wrong(proof string) string {
	last := strings.LastIndexByte(proof, '.') + 1
	if proof[last:] == "0" {
		return proof[:last] + "1"
	}
	return proof[:last] + "0"
}

// expired shows proofs whose time has passed.
func expired(s *scene) {
	c := s.attacker(netip.Addr{})
	var proofs []string
	for i := range 3 {
		proof, _ := c.solve(c.challenge(s.around(i)))
		proofs = append(proofs, proof)
	}
	s.wait(11)
	s.each(func(base string) {
		for _, proof := range proofs {
			c.send(base, middleware.ProofHeader, proof)
			c.redeem(base, proof)
		}
	})
}

// planted has victims show, beside what is theirs, the spent tokens of the attacker: cookies that
// a page of a sibling domain has set, fields that a proxy has added.
func planted(s *scene) {
	a := s.attacker(netip.Addr{})
	var spent []string // the newest token of either tally
	proof, _ := a.solve(a.challenge(s.through()))
	for _, token := range []string{"", a.redeem(s.through(), proof)} {
		for range s.more() * len(s.cluster.instances) {
			fields := []string{middleware.TokenHeader, token}
			if token == "" {
				fields = nil
			}
			if t := a.send(s.through(), fields...).token(); t != "" {
				token = t
			}
		}
		spent = append(spent, token)
	}
	cookie := "__Host-tallystick-" + s.route.Policy + "="
	for _, by := range []func(own string) []string{
		func(own string) []string {
			return []string{middleware.TokenHeader, spent[0], middleware.TokenHeader, spent[1], middleware.TokenHeader, own}
		},
		func(own string) []string {
			return []string{"Cookie", strings.Join([]string{cookie + spent[0], cookie + spent[1], cookie + own}, "; ")}
		},
		func(own string) []string {
			return []string{middleware.TokenHeader, own, "Cookie", cookie + spent[0] + "; " + cookie + spent[1]}
		},
	} {
		address, own := s.host(), ""
		victim := s.caller(s.honestly(), s.dialer(address), address, true)
		for range s.route.Quota {
			got := victim.send(s.through(), by(own)...)
			for _, t := range append(got.header.Values(middleware.TokenHeader), cookies((&http.Response{Header: got.header}).Cookies(), strings.TrimSuffix(cookie, "="))...) {
				own = t
			}
		}
	}
}
