// SPDX-License-Identifier: Apache-2.0

package players

import "github.com/tallystick/tallystick/proof/fleet"

// A Buyer buys as cheaply as can be. A proof is good while the price is at most 15/8 of it, and the price
// doubles with every crowd that is sold: so it fetches challenges 7/8 of a crowd ahead, and redeems each when the
// price has risen so far. It buys where the next is cheapest, and redeems each proof at one instance: the tally
// is good at all.
type Buyer struct {
	a       *Attacker
	ahead   int // challenges, of each instance
	address func(k int) string
	most    int64
	stock   [][]order // of each instance, the next first; the last says what the price is now
	asked   []int     // challenges, of each instance
}

// An order is a challenge and the address that it is for.
type order struct {
	offer fleet.Answer
	from  string
	work  int64
}

// Buyer returns the attacker as a buyer. address is that from which it buys its k-th tally of an instance, crowd
// how many are sold there while the price doubles, and most the highest price that it considers, 0 for any.
func (a *Attacker) Buyer(crowd int, most int64, address func(k int) string) *Buyer {
	n := a.Instances()
	b := &Buyer{a: a, ahead: crowd*7/8 + 1, address: address, most: most, stock: make([][]order, n), asked: make([]int, n)}
	for i := range n {
		b.fetch(i)
	}
	return b
}

// fetch fills the stock of an instance.
func (b *Buyer) fetch(i int) {
	for missing := b.ahead - len(b.stock[i]); missing > 0; missing-- {
		from := b.address(b.asked[i])
		b.asked[i]++
		offer := b.a.Challenge(i, from)
		if c, ok := offer.Challenge(); ok {
			b.stock[i] = append(b.stock[i], order{offer, from, int64(c.Work)})
		}
	}
}

// Buy buys one more while it has spent no more than a purse, and returns its first token; "" if there is none
// for that. Where others have raised the price meanwhile, its stock is worth nothing, and it fetches another.
func (b *Buyer) Buy(purse int64) string {
	for range 3 {
		best := -1
		for i, s := range b.stock {
			if len(s) > 0 && (b.most == 0 || s[len(s)-1].work <= b.most) && (best < 0 || s[0].work < b.stock[best][0].work) {
				best = i
			}
		}
		if best < 0 || b.stock[best][0].work > purse-b.a.Gained().Spent {
			return ""
		}
		next := b.stock[best][0]
		b.stock[best] = b.stock[best][1:]
		proof := b.a.Solve(next.offer)
		token := b.a.Redeem(best, next.from, proof)
		if token == "" {
			b.stock[best] = nil
		}
		b.fetch(best)
		if token != "" {
			b.a.own(token)
			return token
		}
	}
	return ""
}
