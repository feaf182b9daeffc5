// SPDX-License-Identifier: Apache-2.0

// Package players has each attacker once: a client that wants as much as it can get of a site. Each is
// played against whatever is a fleet.Fleet.
package players

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"

	"github.com/tallystick/tallystick/pow"

	"github.com/tallystick/tallystick/proof/fleet"
)

// An Attacker is one client, and what it keeps while instances start anew. Its methods are what it does.
type Attacker struct {
	fleet.Fleet
	From     []string   // its addresses; it works, and shows what it has, from the first
	Random   *rand.Rand // for those whose attack is by chance; used by one of them at a time
	Refusals int        // of how many an instance needs until it is left alone; 0: 1
	Endless  int64      // what a site admits that is not limited at all, where asking ends; 0: 4,096

	mu     sync.Mutex
	turn   int
	newest string   // the last token that it was given
	owned  []string // the first tokens of tallies that it has bought
	proofs []string
	waits  []string // tickets

	gain Gain
}

// A Gain counts what an attacker has got, and what it has done for that.
type Gain struct {
	Admitted int64 // requests, each by its cost
	Spent    int64 // expected hashes
	Solved   int64 // proofs
	Bought   int64 // tallies
}

// Gained returns what it has got until now.
func (a *Attacker) Gained() Gain {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gain
}

// Ask sends a request from its first address, if the request does not say from which, and counts what is admitted.
func (a *Attacker) Ask(r fleet.Request) fleet.Answer {
	if r.From == "" {
		r.From = a.From[0]
	}
	got := a.Fleet.Ask(r)
	if got.Admitted() && r.Path == "" {
		a.mu.Lock()
		a.gain.Admitted += max(1, r.Cost)
		a.mu.Unlock()
	}
	return got
}

// Next is the next instance, one after the other.
func (a *Attacker) Next() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turn++
	return (a.turn - 1) % a.Instances()
}

// Any is one by chance.
func (a *Attacker) Any() int { return a.Random.IntN(a.Instances()) }

// endless keeps it from asking a limiter that is broken for ever.
func (a *Attacker) endless() int64 { return cmp.Or(a.Endless, 1<<12) }

// Drain asks again and again, until it is refused as often as it needs: in requests of the cost, and then of half of
// it and so on, to 1. It returns how much was admitted.
func (a *Attacker) Drain(r fleet.Request) (admitted int64) {
	for ; ; r.Cost /= 2 {
		each, got := max(1, r.Cost), int64(0)
		for refused := 0; refused < max(1, a.Refusals) && got < each*a.endless(); {
			if a.Ask(r).Admitted() {
				got += each
			} else {
				refused++
			}
		}
		if admitted += got; each == 1 {
			return admitted
		}
	}
}

// Solve works for what an answer offers. It returns "" if that is nothing.
func (a *Attacker) Solve(offer fleet.Answer) (proof string) {
	c, ok := offer.Challenge()
	if !ok {
		return ""
	}
	proof, err := pow.Solve(context.Background(), c.Text, pow.SolveOptions{Workers: 1, MaxWork: pow.MaxWork})
	if err != nil {
		a.Fail(err)
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gain.Spent += int64(c.Work)
	a.gain.Solved++
	return proof
}

// Challenge fetches a challenge of an instance, which costs nothing.
func (a *Attacker) Challenge(to int, from string) fleet.Answer {
	return a.Ask(fleet.Request{To: to, From: from, Method: http.MethodGet, Path: fleet.ChallengePath})
}

// Redeem opens a tally with a proof, and returns its first token; "" if none is sold for that.
func (a *Attacker) Redeem(to int, from, proof string) string {
	got := a.Ask(fleet.Request{To: to, From: from, Path: fleet.RedeemPath, Proof: proof})
	if !got.Admitted() {
		return ""
	}
	return got.Token()
}

var errNotSold = errors.New("players: no tally for its price")

// Buy buys a tally of an instance, redeems it there, and returns its first token, "" if it is not sold.
func (a *Attacker) Buy(to int) string {
	token := a.Redeem(to, "", a.Solve(a.Challenge(to, "")))
	if token == "" {
		a.Fail(errNotSold)
		return ""
	}
	a.own(token)
	return token
}

// own keeps the first token of a tally.
func (a *Attacker) own(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.owned = append(a.owned, token)
	a.gain.Bought++
}
