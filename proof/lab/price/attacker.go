// SPDX-License-Identifier: Apache-2.0

package price

// Hash rates, a second.
const (
	core   = int64(10_000_000) // of a core that runs Go
	vector = int64(89_000_000) // of a core with AVX-512
	native = int64(74_700_000) // of a core with SHA-NI: a program in C, measured
	gpu    = 22_000_000_000    // of an RTX 4090, as published for a plain hash: a guess
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

	spent, bought int64
}

// challengeLife is the longest for which a challenge is good.
const challengeLife = 5 * minute

// look buys while the price is low enough.
func (a *attacker) look(s *stall, now int64) {
	for {
		buyers := s.place.attacker(s, a.bought)
		price := s.price(now, buyers)
		fresh := !a.stock || now >= a.until || price < a.asked
		if fresh || 8*price > 15*a.asked {
			if price == 0 || a.target > 0 && price > a.target {
				return
			}
			if fresh {
				a.asked, a.until = price, now+challengeLife
			} else {
				a.asked = (8*price + 14) / 15 // it has fetched others, as the price rose
			}
		}
		if a.asked > a.purse || !s.redeem(now, buyers, a.asked) {
			return
		}
		a.purse -= a.asked
		a.spent += a.asked
		a.bought++
	}
}

// raids plays what an attacker that is alone in a place can plan with its purse for a time: to hold the price at a
// target, and to spend all the rest at some moment. It returns the most that a plan is worth, by what a tally is worth
// from the moment when it is bought until the end.
func raids(p place, purse, lasts int64, each func(from, until int64) int64) (worth int64) {
	step := lasts / 2880 // how often it looks
	for _, stock := range []bool{false, true} {
		for target := int64(work); target <= work<<12; target *= 2 {
			// A tally that lives for an hour is worth less if it is bought later.
			for _, burst := range []int64{0, max(0, lasts-hour), lasts - step} {
				s, a, sum := open(usual, p), &attacker{purse: purse, target: target, stock: stock}, int64(0)
				for now := int64(0); now < lasts; now += step {
					before := a.bought
					a.look(s, now)
					if now == burst {
						a.target = 0
						a.look(s, now)
						a.target = target
					}
					if n := a.bought - before; n > 0 {
						sum += n * each(now, lasts)
					}
				}
				worth = max(worth, sum)
			}
		}
	}
	return worth
}

// aTally is worth one, where tallies are counted.
func aTally(int64, int64) int64 { return 1 }
