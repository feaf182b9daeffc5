// SPDX-License-Identifier: Apache-2.0

package truth

import "math/big"

// A Window is a quota in aligned windows of a length. A sliding counter weighs what the window before has counted by
// how much of it lies within the last Length; a fixed window counts nothing of it.
type Window struct{ Quota, Length int64 }

// Fits reports whether a cost passes at a time e after the beginning of a window. now was counted in it, and before in the
// window before: before·(W−e) + (now+cost)·W ≤ L·W.
func (w Window) Fits(elapsed, before, now, cost int64) bool {
	asked := product(before, w.Length-elapsed)
	asked.Add(asked, product(now, w.Length))
	asked.Add(asked, product(cost, w.Length))
	return asked.Cmp(product(w.Quota, w.Length)) <= 0
}

// Room returns the largest cost that passes; it is negative where nothing would, not even a cost of zero.
func (w Window) Room(elapsed, before, now int64) int64 {
	room := product(w.Quota, w.Length)
	room.Sub(room, product(now, w.Length))
	room.Sub(room, product(before, w.Length-elapsed))
	return room.Div(room, big.NewInt(w.Length)).Int64() // Euclidean, so it floors
}

func product(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }
