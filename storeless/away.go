// SPDX-License-Identifier: Apache-2.0

package storeless

import (
	"fmt"
	"math/big"
	"slices"
)

// Away returns what a tally that was bought on one of some instances may use on each of the
// others in requests of the given cost, a policy of the shape of p; nil if that is all that p
// admits, and nothing is to be held. An instance that has never met the tally has to believe that
// nothing was used of it; a tally that is whole everywhere would be worth as many quotas as there
// are instances.
//
// A limit of a quota L has the share
//
//	q = min(L, ⌈m + 3·√(m·cost)⌉ + cost), where m = L/instances
//
// What comes to an instance of L/cost requests that a balancer spreads at random is more than that about
// once in a thousand times. So an L of some ten requests is hardly shared at all. A token bucket shares its
// rate and keeps its burst; a meter, whose burst is 1, is not shared: it would refuse requests that come
// evenly. Away panics if instances or cost is below 1.
func (p *Policy) Away(instances, cost int64) *Policy {
	if instances < 1 || cost < 1 {
		panic(fmt.Sprintf("storeless: no share of one of %d instances in requests of cost %d", instances, cost))
	}
	away := p.clone()
	for i := range away.rules {
		r := &away.rules[i]
		switch {
		case r.interval == 0:
			l, later, life := r.limit, r.later, r.life
			l.Quota = shareAway(l.Quota, instances, cost)
			*r = compile(l)
			r.later = later
			r.last(life)
		case r.capacity > 1:
			// No slower than a bucket may be. The product itself may need more than 64 bits.
			slowest := max(r.interval, MaxWindow.Microseconds()/r.capacity)
			r.interval = min(min(r.interval, slowest/instances+1)*instances, slowest)
			r.empties = r.capacity * r.interval
			r.owe(r.empties)
		}
	}
	if slices.Equal(away.rules, p.rules) {
		return nil
	}
	return away
}

// shareAway returns min(quota, ⌈m + 3·√(m·cost)⌉ + cost), with m = quota/n, in integers:
// m + 3·√(m·cost) = (quota + √(9·quota·n·cost))/n.
func shareAway(quota, n, cost int64) int64 {
	if cost >= quota {
		return quota
	}
	x := big.NewInt(9 * quota) // one product of the three may need more than 64 bits
	x.Mul(x, big.NewInt(n)).Mul(x, big.NewInt(cost))
	root := new(big.Int).Sqrt(x)
	up := quota + root.Int64()
	if root.Mul(root, root).Cmp(x) < 0 {
		up++
	}
	return min(quota, (up+n-1)/n+cost)
}
