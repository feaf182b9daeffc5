// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/tallystick/tallystick/internal/shop"

// Hash rates, a second, of the clients that the page names.
const (
	desktop = int64(4_000_000)  // a browser's script, one thread
	phone   = int64(700_000)    // a slow phone's
	core    = int64(10_000_000) // a core that runs Go
	vector  = int64(89_000_000) // a core with AVX-512
)

// An attacker buys tallies at its neighbours' address. It solves at once, and pays the
// expected work and no more: luck evens out.
type attacker struct {
	purse  int64 // hashes that it can pay now
	hourly int64 // what it earns at the start of each hour
	target int64 // the highest price at which it buys; 0: any

	// stock says that it makes use of challenges for as long as they are good: their
	// work is what the price was, and 8/15 of it are enough.
	stock bool
	asked int64 // the work of its challenges
	until int64 // how long they are good

	// as is the buyer of its n-th tally: the holder of a network has many addresses.
	as func(n int64) []shop.Buyer

	spent, bought int64
}

// earn is called at the start of each hour.
func (a *attacker) earn() { a.purse += a.hourly }

// challengeLife is the longest for which a challenge is good.
const challengeLife = 5 * minute

// look buys while the price is low enough.
func (a *attacker) look(s *stall, now int64) {
	for {
		buyers := a.as(a.bought)
		price := s.price(now, buyers)
		if !a.stock || now >= a.until || price < a.asked || 8*price > 15*a.asked {
			if price == 0 || a.target > 0 && price > a.target {
				return
			}
			a.asked, a.until = price, now+challengeLife
		}
		if a.asked > a.purse || !s.redeem(now, buyers, a.asked) {
			return
		}
		a.purse -= a.asked
		a.spent += a.asked
		a.bought++
	}
}
