// SPDX-License-Identifier: Apache-2.0

package storeless

import (
	"fmt"
	"math/bits"
)

// Away returns what a tally that was bought on one of some instances may use on each of the
// others, a policy of the shape of p. An instance that has never met the tally has to believe that
// nothing was used of it; a tally that is whole everywhere would be worth as many quotas as there
// are instances.
//
// A limit of a quota L has the share min(L, ⌈m + 3·√m⌉ + 1) there, with m = L/instances: what comes to an
// instance of L requests that a balancer spreads at random is more than that less often than once
// in a thousand times. So L below some twenty is shared hardly at all. A token bucket shares its rate and
// keeps its burst; a meter, whose burst is 1, is not shared: it would refuse requests that come evenly. It
// panics if instances is below 1.
func (p *Policy) Away(instances int64) *Policy {
	if instances < 1 {
		panic(fmt.Sprintf("storeless: no share of one of %d instances", instances))
	}
	away := p.clone()
	for i := range away.rules {
		r := &away.rules[i]
		switch {
		case r.interval == 0:
			l, later, life := r.limit, r.later, r.life
			l.Quota = shareAway(l.Quota, instances)
			*r = compile(l)
			r.later = later
			r.last(life)
		case r.capacity > 1:
			r.interval = min(r.interval*instances, MaxWindow.Microseconds()/r.capacity)
			r.empties = r.capacity * r.interval
			r.owe(r.empties)
		}
	}
	return away
}

// shareAway returns min(quota, ⌈m + 3·√m⌉ + 1), with m = quota/n, in integers.
func shareAway(quota, n int64) int64 {
	// m + 3·√m = (quota + √(9·quota·n))/n. The product is below 2⁵⁵.
	up := quota + root(uint64(9*quota*n))
	return min(quota, (up+n-1)/n+1)
}

// root returns the square root, rounded up.
func root(x uint64) int64 {
	if x == 0 {
		return 0
	}
	r := uint64(1) << ((bits.Len64(x-1) + 1) / 2) // at least the root
	for {
		next := (r + x/r) / 2 // Newton's step, from above
		if next >= r {
			break
		}
		r = next
	}
	if r*r < x {
		r++
	}
	return int64(r)
}
