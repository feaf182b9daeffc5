// SPDX-License-Identifier: Apache-2.0

package attackers

import (
	"net/http"
	"sync"
)

// Echo is an honest client that shows the newest token, and does not stop when it is refused.
func (a *Attacker) Echo(to func() int) {
	for refused, admitted := 0, int64(0); refused < 3*a.Instances() && admitted < a.endless(); {
		got := a.Ask(Request{To: to(), Tokens: []string{a.newest}})
		if t := got.Token(); t != "" {
			a.newest = t
		}
		if got.Admitted() {
			admitted++
		} else {
			refused++
		}
	}
}

// AtOnce is the same with so many connections: requests that are sent together show what it had before, and it
// keeps the last answer.
func (a *Attacker) AtOnce(connections int, to func() int) {
	var mu sync.Mutex
	for refused, admitted := 0, int64(0); refused < 3*a.Instances() && admitted < a.endless(); {
		shown := a.newest
		a.Together(connections, func(int) {
			got := a.Ask(Request{To: to(), Tokens: []string{shown}})
			mu.Lock()
			defer mu.Unlock()
			if t := got.Token(); t != "" {
				a.newest = t
			}
			if got.Admitted() {
				admitted++
			} else {
				refused++
			}
		})
	}
}

// Drop shows nothing, from each of its addresses.
func (a *Attacker) Drop() {
	a.each(func(i int) {
		for _, from := range a.From {
			a.Drain(Request{To: i, From: from})
		}
	})
}

// first is its first token, which it keeps.
func (a *Attacker) first() []string {
	if a.newest == "" {
		a.newest = a.Ask(Request{}).Token()
	}
	return []string{a.newest}
}

// Replay gets one token of the first instance, and shows that for ever.
func (a *Attacker) Replay() {
	shown := a.first()
	a.each(func(i int) { a.Drain(Request{To: i, Tokens: shown}) })
}

// Fork shows one token to all instances at once, twice to each.
func (a *Attacker) Fork() {
	shown, n := a.first(), a.Instances()
	a.Together(2*n, func(i int) { a.Drain(Request{To: i % n, Tokens: shown}) })
}

// RollBack shows any two of the tokens that it was ever given, or none.
func (a *Attacker) RollBack() {
	had := append(a.owned, "")
	for refused, admitted := 0, int64(0); refused < 20*a.Instances() && admitted < a.endless()*int64(a.Instances()); {
		got := a.Ask(Request{To: a.Any(), Tokens: []string{had[a.Random.IntN(len(had))], had[a.Random.IntN(len(had))]}})
		if got.Admitted() {
			admitted++
			had = append(had, got.Token())
			refused = 0
		} else {
			refused++
		}
	}
	a.owned = had
	a.Drop() // where chance has not led it
}

// Farm buys n tallies, each of the instance that is next, and uses them with all that it has for nothing. It
// redeems each proof at every instance: if that made an instance a tally's home, all were.
func (a *Attacker) Farm(n int, cost int64) {
	for len(a.owned) < n {
		proof := a.Solve(a.Challenge(a.Next(), ""))
		var tokens []string
		a.each(func(i int) { tokens = append(tokens, a.Redeem(i, "", proof)) })
		for _, t := range tokens {
			if t == "" {
				a.Fail(errNotSold)
				return
			}
		}
		a.own(tokens[0])
	}
	a.Drop()
	a.Use(cost)
}

// Use shows what it has bought to every instance, in requests of a cost and then of less.
func (a *Attacker) Use(cost int64) {
	a.each(func(i int) {
		for _, token := range a.owned {
			for each := cost; each > 0; each-- {
				a.Drain(Request{To: i, Tokens: []string{token}, Cost: each})
			}
		}
	})
}

// Prove shows each of n proofs to every instance.
func (a *Attacker) Prove(n int) {
	for len(a.proofs) < n {
		proof := a.Solve(a.Challenge(a.Next(), ""))
		a.proofs = append(a.proofs, proof)
	}
	a.each(func(i int) {
		for _, proof := range a.proofs {
			a.Drain(Request{To: i, Proof: proof})
		}
	})
}

// Wait gathers n tickets of the waiting room, lets their time pass, and shows each to every instance.
func (a *Attacker) Wait(n int, pass func()) {
	for tries := 0; len(a.waits) < n && tries < 2*n; tries++ {
		if t := a.Ask(Request{To: a.Next(), Method: http.MethodGet, Path: TicketPath}).Ticket(); t != "" {
			a.waits = append(a.waits, t)
		}
	}
	pass()
	a.each(func(i int) {
		for _, ticket := range a.waits {
			a.Drain(Request{To: i, Cookie: ticket})
		}
	})
}
