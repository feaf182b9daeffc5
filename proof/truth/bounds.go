// SPDX-License-Identifier: Apache-2.0

package truth

import "math/big"

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
