// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"net/http"
	"strings"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/instance"
	"github.com/tallystick/tallystick/proof/players"
)

// Attackers that work, or that use what others have worked for.

// buyer returns what has an attacker buy as cheaply as can be, at its address.
func (s *scene) buyer(a *caller) *players.Buyer {
	return a.Buyer(int(s.route.Crowd), 0, func(int) string { return a.From[0] })
}

// farm buys with all its work, evenly on all instances, and uses everything everywhere.
func farm(s *scene) {
	address := s.host()
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

// farmRestarts uses all that it has bought on every instance, while instances are replaced: by such as
// remember nothing.
func farmRestarts(s *scene) {
	a := s.attacker()
	b := s.buyer(a)
	for range a.Instances() * int(s.route.Crowd) {
		b.Buy(math.MaxInt64)
	}
	acrossStarts(s, func() { a.Use(1) })
}

// imports buys from many addresses, where each is cheap, and uses all from one.
func imports(s *scene) {
	user := s.attacker()
	for range 4 {
		b := s.buyer(s.attacker())
		for range s.route.Crowd {
			user.Show(fleet.Request{Tokens: []string{b.Buy(math.MaxInt64)}})
		}
	}
}

// stolen is a thief, who shows the token that an honest client has bought, from another address. What the victim uses is
// not the thief's where tallies are bound; else it uses nothing.
func stolen(s *scene) {
	name := instance.Attacker
	if s.route.BindOwn {
		name = honestName
	}
	victim, thief := s.caller(name, true, false, s.host()), s.attacker()
	proof := victim.Solve(victim.Challenge(fleet.Balancer, ""))
	token := victim.Redeem(fleet.Balancer, "", proof)
	thief.Show(fleet.Request{Tokens: []string{token}})
	thief.Show(fleet.Request{Proof: proof})
	if !s.route.BindOwn {
		return
	}
	for range s.route.Quota {
		if t := victim.Ask(fleet.Request{To: fleet.Balancer, Tokens: []string{token}}).Token(); t != "" {
			token = t
		}
	}
}

// elsewhere is another route of the same site, which sells tallies of its own.
const elsewhere = "elsewhere"

// swapped shows what it has bought on another route.
func swapped(s *scene) {
	there := s.attacker()
	there.client.Policy = elsewhere
	here := s.attacker(there.From...)
	for i := range 3 {
		proof := there.Solve(there.Challenge(i, ""))
		token := there.Redeem(fleet.Balancer, "", proof)
		s.each(1, func(to int) { here.Redeem(to, "", proof) })
		for _, r := range []fleet.Request{{Proof: proof}, {Tokens: []string{token}}, {Cookie: s.cookie(token)}} {
			here.Show(r)
		}
	}
}

// floods asks for challenges, and answers each with one number that is not the one. To guess
// would not do: puzzles are so small here that one guess in 65536 is right.
func floods(s *scene) {
	a := s.attacker()
	s.each(10*s.more(), func(to int) {
		a.Ask(fleet.Request{To: to, Proof: wrong(a.Solve(a.Challenge(to, "")))})
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
	a := s.attacker()
	var proofs []string
	for i := range 3 {
		proofs = append(proofs, a.Solve(a.Challenge(i, "")))
	}
	s.wait(11)
	for _, proof := range proofs {
		s.each(1, func(to int) { a.Redeem(to, "", proof) })
		a.Show(fleet.Request{Proof: proof})
	}
}

// planted has victims show, beside what is theirs, the spent tokens of the attacker: cookies that
// a page of a sibling domain has set, fields that a proxy has added.
func planted(s *scene) {
	a := s.attacker()
	var spent []string // the newest token of either tally
	for _, token := range []string{"", a.Buy(fleet.Balancer)} {
		for range s.more() * a.Instances() {
			if t := a.Ask(fleet.Request{To: fleet.Balancer, Tokens: []string{token}}).Token(); t != "" {
				token = t
			}
		}
		spent = append(spent, token)
	}
	for _, by := range []func(own string) fleet.Request{
		func(own string) fleet.Request {
			return fleet.Request{Tokens: []string{spent[0], spent[1], own}}
		},
		func(own string) fleet.Request {
			return fleet.Request{Cookie: s.cookie(spent[0]) + "; " + s.cookie(spent[1]) + "; " + s.cookie(own)}
		},
		func(own string) fleet.Request {
			return fleet.Request{Tokens: []string{own}, Cookie: s.cookie(spent[0]) + "; " + s.cookie(spent[1])}
		},
	} {
		victim, own := s.honest(s.host()), ""
		for range s.route.Quota {
			r := by(own)
			r.To = fleet.Balancer
			got := victim.Ask(r)
			for _, t := range append(got.Header.Values(middleware.TokenHeader), cookies((&http.Response{Header: got.Header}).Cookies(), strings.TrimSuffix(s.cookie(""), "="))...) {
				own = t
			}
		}
	}
}
