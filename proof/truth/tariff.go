// SPDX-License-Identifier: Apache-2.0

package truth

import "math/big"

// A Tariff has the prices for a buyer: tallies for Work hashes and more, Crowd of them while the price doubles, and
// Leak more in an hour at the same price. Of n instances, or of a network that hides n crowds, Crowd and Leak are n times as much.
type Tariff struct{ Work, Crowd, Leak int64 }

// Most returns F: the most tallies that a number of hashes buys in some seconds. A proof is good while the price is at most
// 15/8 of it, so F ≤ Leak·T + Crowd·log₂(1 + 15/8·hashes/(Crowd·Work)).
func (t Tariff) Most(hashes, seconds int64) int64 {
	level := product(8*t.Crowd, t.Work)
	raised := product(15, hashes)
	most := log2(raised.Add(raised, level), level)
	most.Mul(most, big.NewInt(3600*t.Crowd))
	leaked := product(t.Leak, seconds)
	most.Add(most, leaked.Lsh(leaked, fraction))
	most.Div(most, new(big.Int).Lsh(big.NewInt(3600), fraction))
	return most.Int64()
}

// fraction is how many binary digits of a logarithm stand behind the point.
const fraction = 64

// log2 returns log₂(a/b) for a ≥ b > 0, times 2^fraction, rounded up. Each digit comes from a square.
func log2(a, b *big.Int) *big.Int {
	x := new(big.Float).SetPrec(3*fraction).SetMode(big.ToPositiveInf).Quo(new(big.Float).SetInt(a), new(big.Float).SetInt(b))
	whole := x.MantExp(x) - 1 // x is now in [1/2, 1)
	x.SetMantExp(x, 1)
	sum, two := big.NewInt(int64(whole)), big.NewFloat(2)
	for range fraction {
		sum.Lsh(sum, 1)
		if x.Mul(x, x); x.Cmp(two) >= 0 {
			sum.SetBit(sum, 0, 1)
			x.SetMantExp(x, -1)
		}
	}
	if x.Cmp(big.NewFloat(1)) > 0 {
		sum.Add(sum, big.NewInt(1))
	}
	return sum
}
