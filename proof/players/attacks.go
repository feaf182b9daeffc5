// SPDX-License-Identifier: Apache-2.0

package players

import (
	"cmp"
	"net/http"
	"sync"

	"github.com/tallystick/tallystick/proof/fleet"
)

// Echo is an honest client that shows the newest token, and does not stop when it is refused.
func (a *Attacker) Echo(to func() int) { a.AtOnce(1, to) }

// AtOnce is the same with several connections: requests that are sent together show what it had before, and it
// keeps the last answer.
func (a *Attacker) AtOnce(connections int, to func() int) {
	var mu sync.Mutex
	for refused, admitted := 0, int64(0); refused < 3*a.Instances() && admitted < a.endless(); {
		shown := a.newest
		a.Together(connections, func(int) {
			got := a.Ask(fleet.Request{To: to(), Tokens: []string{shown}})
			mu.Lock()
			defer mu.Unlock()
			a.newest = cmp.Or(got.Token(), a.newest)
			if got.Admitted() {
				admitted++
			} else {
				refused++
			}
		})
	}
}

// Show drains every instance in turn with each request.
func (a *Attacker) Show(all ...fleet.Request) {
	for i := range a.Instances() {
		for _, r := range all {
			r.To = i
			a.Drain(r)
		}
	}
}

// each makes a request of each of what is shown.
func each(shown []string, with func(one string) fleet.Request) (all []fleet.Request) {
	for _, one := range shown {
		all = append(all, with(one))
	}
	return all
}

// Drop shows nothing, from each of its addresses.
func (a *Attacker) Drop() {
	a.Show(each(a.From, func(from string) fleet.Request { return fleet.Request{From: from} })...)
}

// first is its first token, which it keeps.
func (a *Attacker) first() fleet.Request {
	if a.newest == "" {
		a.newest = a.Ask(fleet.Request{}).Token()
	}
	return fleet.Request{Tokens: []string{a.newest}}
}

// Replay gets one token of the first instance, and shows that for ever.
func (a *Attacker) Replay() { a.Show(a.first()) }

// Everywhere drains all instances at once with a request, each a number of times.
func (a *Attacker) Everywhere(times int, r fleet.Request) {
	n := a.Instances()
	a.Together(times*n, func(i int) {
		mine := r
		mine.To = i % n
		a.Drain(mine)
	})
}

// Fork shows one token to all instances at once, twice to each.
func (a *Attacker) Fork() { a.Everywhere(2, a.first()) }

// RollBack shows any two of the tokens that it was ever given, or none.
func (a *Attacker) RollBack() {
	had := append(a.owned, "")
	for refused, admitted := 0, int64(0); refused < 20*a.Instances() && admitted < a.endless()*int64(a.Instances()); {
		got := a.Ask(fleet.Request{To: a.Any(), Tokens: []string{had[a.Random.IntN(len(had))], had[a.Random.IntN(len(had))]}})
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
// redeems each proof at every instance, which opens the same tally there.
func (a *Attacker) Farm(n int, cost int64) {
	for len(a.owned) < n {
		proof, token := a.Solve(a.Challenge(a.Next(), "")), ""
		for i := range a.Instances() {
			if token = a.Redeem(i, "", proof); token == "" {
				a.Fail(errNotSold)
				return
			}
		}
		a.own(token)
	}
	a.Drop()
	a.Use(cost)
}

// Use shows what it has bought to every instance, in requests of a cost and then of less.
func (a *Attacker) Use(cost int64) {
	a.Show(each(a.owned, func(token string) fleet.Request { return fleet.Request{Tokens: []string{token}, Cost: cost} })...)
}

// Prove shows each of n proofs to every instance.
func (a *Attacker) Prove(n int) {
	for len(a.proofs) < n {
		a.proofs = append(a.proofs, a.Solve(a.Challenge(a.Next(), "")))
	}
	a.Show(each(a.proofs, func(proof string) fleet.Request { return fleet.Request{Proof: proof} })...)
}

// Wait gathers n tickets of the waiting room, lets their time pass, and shows each to every instance.
func (a *Attacker) Wait(n int, pass func()) {
	for tries := 0; len(a.waits) < n && tries < 2*n; tries++ {
		if t := a.Ask(fleet.Request{To: a.Next(), Method: http.MethodGet, Path: fleet.TicketPath}).Ticket(); t != "" {
			a.waits = append(a.waits, t)
		}
	}
	pass()
	a.Show(each(a.waits, func(ticket string) fleet.Request { return fleet.Request{Cookie: ticket} })...)
}
