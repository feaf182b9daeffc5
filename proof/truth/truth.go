// SPDX-License-Identifier: Apache-2.0

// Package truth says what a limit admits, from the definitions in docs/bounds.md and in arbitrary integers. Oracles of
// tests ask it, so that a definition is written once, apart from the code that it judges: it imports nothing of the
// product, and a test holds that.
//
// Its times are integers of any one unit. Tests use microseconds since 1970.
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

// A Quota is a limit of docs/bounds.md in numbers: a quota in a window, or a bucket, if it has a burst.
type Quota struct{ Quota, Window, Burst int64 }

// In returns what one memory admits of a tally within a span, which is no longer than the window: L, or b + W/T.
func (q Quota) In(span int64) *big.Int {
	most := big.NewInt(q.Quota)
	if q.Burst > 0 {
		most.Add(big.NewInt(q.Burst), big.NewInt(span/Bucket(q).Interval()))
	}
	return most
}

// Times returns n quotas for a network, as far as a limit goes: 2³¹−1, and what a bucket loses in the longest window.
func (q Quota) Times(factor, longest int64) Quota {
	capped := func(of, by, most int64) int64 {
		if p := product(of, by); p.Cmp(big.NewInt(most)) < 0 {
			return p.Int64()
		}
		return most
	}
	all := Quota{Quota: capped(q.Quota, factor, 1<<31-1), Window: q.Window}
	fits := product(longest, all.Quota)
	all.Burst = min(capped(q.Burst, factor, 1<<31-1), fits.Div(fits, big.NewInt(q.Window)).Int64())
	return all
}

// Pass returns the part of a window that a bought tally has, at least as much as a whole shorter limit.
func (q Quota) Pass(passTime, least int64) Quota {
	part := product(q.Quota, passTime)
	part.Add(part, big.NewInt(q.Window-1)).Div(part, big.NewInt(q.Window))
	return Quota{min(q.Quota, max(least, part.Int64())), q.Window, 0}
}

// Sold returns F for all instances, and a network that hides several crowds: by [Tariff.Most], where no tally costs less
// than Work, and none more than 2³² hashes.
func (t Tariff) Sold(instances, crowds, seconds, hashes int64) int64 {
	k, price, crowd := int64(0), t.Work, t.Crowd*crowds
	for ; price*2 <= 1<<32; price *= 2 {
		k++
	}
	all := Tariff{t.Work, crowd * instances, t.Leak * crowds * instances}
	highest, leaked := instances*(k*crowd+(1<<32-price)*crowd/price+1), product(all.Leak, seconds)
	return min(hashes/t.Work, all.Most(hashes, seconds), leaked.Div(leaked, big.NewInt(3600)).Int64()+highest)
}

// Instances are N that are there when a window begins, and C that start anew in it. Each knows what it has admitted
// itself, and what a client shows. The methods are the formulas of docs/bounds.md.
type Instances struct{ N, C int64 }

// Net56 and Net48 are how many quotas of an address an IPv6 /56 and a /48 have together.
const (
	Net56 = 8
	Net48 = 64
)

func (i Instances) all() int64 { return i.N + i.C }

// Drops is (N+C)·L: what a client gets that shows no token.
func (i Instances) Drops(quota int64) int64 { return i.all() * quota }

// AtOnce is min(B, N)·L: what one gets that echoes, with B requests under way.
func (i Instances) AtOnce(quota, requests int64) int64 { return min(requests, i.N) * quota }

// Buys is F·(N+C)·L: where work comes first, and F tallies are bought.
func (i Instances) Buys(quota, tallies int64) int64 { return tallies * i.Drops(quota) }

// Adds is (1+F)·(N+C)·L: where work buys more.
func (i Instances) Adds(quota, tallies int64) int64 { return i.Drops(quota) + i.Buys(quota, tallies) }

// Proves is min((N+C)·L, (N+C)·S): where each request needs a proof, and S are shown.
func (i Instances) Proves(quota, shown int64) int64 { return i.all() * min(quota, shown) }

// Waits is (N+C)·max(1, L/5): what the waiting room admits.
func (i Instances) Waits(quota int64) int64 { return i.all() * max(1, quota/5) }

// Outage is L + (N+C)·max(1, L/N): what an exact route admits that fails open.
func (i Instances) Outage(quota int64) int64 { return quota + i.all()*max(1, quota/i.N) }

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
