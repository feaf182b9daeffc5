// SPDX-License-Identifier: Apache-2.0

package truth

import "math/big"

// A Bucket leaks a unit in each interval, Quota of them in a Window, and holds Burst.
type Bucket struct{ Quota, Window, Burst int64 }

// A Drop is a charge of a bucket. The interval belongs to the bucket that charged it, which may have changed since.
type Drop struct{ At, Cost, Interval int64 }

// Interval returns T, the time in which a unit leaks: W/L, rounded up, so that rounding never admits more than L.
func (b Bucket) Interval() int64 {
	t, rest := new(big.Int).DivMod(big.NewInt(b.Window), big.NewInt(b.Quota), new(big.Int))
	if rest.Sign() > 0 {
		t.Add(t, big.NewInt(1))
	}
	return t.Int64()
}

// Fits reports whether a cost passes while a time is owed: owed + cost·T ≤ B·T.
func (b Bucket) Fits(owed, cost int64) bool {
	t := b.Interval()
	asked := product(cost, t)
	asked.Add(asked, big.NewInt(max(0, owed)))
	return asked.Cmp(product(b.Burst, t)) <= 0
}

// Admits reports whether a cost passes at a time after all of drops, in their order. It is the bucket without its recursion:
// from each drop on, what came since must have had time to leak, but for what the bucket holds.
func (b Bucket) Admits(drops []Drop, at, cost int64) bool {
	room := product(b.Burst, b.Interval())
	room.Sub(room, product(cost, b.Interval()))
	if room.Sign() < 0 {
		return false
	}
	since := new(big.Int)
	for i := len(drops) - 1; i >= 0; i-- {
		d := drops[i]
		since.Add(since, product(d.Cost, d.Interval))
		owed := new(big.Int).Sub(since, big.NewInt(at-d.At))
		if owed.Cmp(room) > 0 {
			return false
		}
	}
	return true
}
