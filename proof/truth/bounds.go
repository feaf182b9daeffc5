// SPDX-License-Identifier: Apache-2.0

package truth

import "math/big"

// A Quota is a limit of docs/bounds.md in numbers: so much in a window, or a bucket, if it has a burst.
type Quota struct{ Quota, Window, Burst int64 }

const most = 1<<31 - 1 // of a quota and of a burst

// In returns what one memory admits of a tally within a span, which is no longer than the window: L, or b + W/T.
func (q Quota) In(span int64) *big.Int {
	if q.Burst == 0 {
		return big.NewInt(q.Quota)
	}
	leaked := big.NewInt(span / Bucket{q.Quota, q.Window, q.Burst}.Interval())
	return leaked.Add(leaked, big.NewInt(q.Burst))
}

// Times returns the quota of a network: so many quotas, where a bucket still empties in the longest window.
func (q Quota) Times(factor, longest int64) Quota {
	capped := func(n int64) int64 {
		if p := product(n, factor); p.Cmp(big.NewInt(most)) < 0 {
			return p.Int64()
		}
		return most
	}
	fits := new(big.Int).Div(product(longest, capped(q.Quota)), big.NewInt(q.Window))
	burst := capped(q.Burst)
	if fits.Cmp(big.NewInt(burst)) < 0 {
		burst = fits.Int64()
	}
	return Quota{capped(q.Quota), q.Window, burst}
}

// Part returns one of n parts, at least 1 of whatever there is.
func (q Quota) Part(n int64) Quota {
	part := Quota{max(1, q.Quota/n), q.Window, 0}
	if q.Burst > 0 {
		part.Burst = max(1, q.Burst/n)
	}
	return part
}

// Pass returns the part of a window that a bought tally has, at least as much as a whole shorter limit.
func (q Quota) Pass(passTime, least int64) Quota {
	part := product(q.Quota, passTime)
	part.Add(part, big.NewInt(q.Window-1)).Div(part, big.NewInt(q.Window))
	return Quota{min(q.Quota, max(least, part.Int64())), q.Window, 0}
}

// A Seller is what a tally costs an address.
type Seller struct{ Work, Crowd, SalesPerHour int64 }

// Tallies returns F: what instances sell in so many seconds, for so many hashes in all, to a buyer of so many crowds.
// That is SalesPerHour·T + Crowd·log2(1 + 15/8·work/(Crowd·Work)) with the crowds of all; but no tally costs less than
// Work, and none more than 2³².
func (s Seller) Tallies(instances, crowds, seconds, hashes int64) *big.Int {
	crowd := s.Crowd * crowds
	k, price := int64(0), s.Work
	for ; price*2 <= 1<<32; price *= 2 {
		k++
	}
	highest := product(instances, k*crowd+(1<<32-price)*crowd/price+1)
	all := product(instances, crowd)
	unit := new(big.Int).Mul(all, big.NewInt(8*s.Work))
	paid := floorLog(new(big.Int).Add(unit, product(15, hashes)), unit, all)
	if paid.Cmp(highest) > 0 {
		paid = highest
	}
	leaked := product(seconds, s.SalesPerHour*crowds)
	leaked.Add(leaked, big.NewInt(3599)).Div(leaked, big.NewInt(3600))
	paid.Add(paid, leaked.Mul(leaked, big.NewInt(instances)))
	if dearest := big.NewInt(hashes / s.Work); dearest.Cmp(paid) < 0 {
		return dearest
	}
	return paid
}

// floorLog returns ⌊n·log2(a/b)⌋, for a ≥ b: the whole doublings, and 64 binary digits of the rest, each by a square.
func floorLog(a, b, n *big.Int) *big.Int {
	const bits = 64
	log := new(big.Int)
	x := new(big.Int).Lsh(a, 4*bits)
	x.Div(x, b) // in parts of 2^-256
	two := new(big.Int).Lsh(big.NewInt(2), 4*bits)
	for ; x.Cmp(two) >= 0; x.Rsh(x, 1) {
		log.Add(log, big.NewInt(1))
	}
	for range bits {
		log.Lsh(log, 1)
		if x.Mul(x, x).Rsh(x, 4*bits); x.Cmp(two) >= 0 {
			log.Add(log, big.NewInt(1))
			x.Rsh(x, 1)
		}
	}
	return log.Mul(log, n).Rsh(log, bits)
}
