// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"

	"github.com/tallystick/tallystick/storeless"
)

// Spread returns what each of n instances may admit of a tally by itself, whatever is shown to it, where a
// balancer gives each client's requests to all of them by chance. It is [Policy.Away] for a tally that has no
// home: all n instances are held to the share, and not n−1. It is to be counted beside the tally ([Network]).
//
// All costs are counted together, so that n instances admit n shares, whatever they are asked for. But dear
// requests are few, and come less evenly: those that cost more than 1 find room up to the share of the next power
// of two, a client that chooses its costs too, and one that costs half of a quota finds all of it. A share for each
// class, as away from home, would keep cheap requests clear of dear ones, and admit the sum of the shares. One
// share for all of them would refuse what costs more than it, for ever.
//
// What is refused here alone has room elsewhere, so the wait is a second, and what is left is told of the
// tally. A bucket is not shared: its mark counts a rate, and that depends on the costs as well. It panics if n is
// below 1.
func (p *Policy) Spread(n int64) *Policy {
	if n < 1 {
		panic(fmt.Sprintf("limiter: no share of one of %d instances", n))
	}
	share := p.clone()
	for i := range p.rules {
		l := p.rules[i].limit
		if gcra(l.Algorithm) {
			continue
		}
		quota := l.Quota
		l.Algorithm, l.Quota = storeless.FixedWindow, ShareOf(quota, n) // see Away
		r := compile(l)
		r.as(&p.rules[i])
		r.aligned(&p.rules[i])
		r.spread = []int64{0}
		for cost := int64(2); cost < 2*quota; cost *= 2 {
			r.spread = append(r.spread, shareOf(quota, n, n, cost)-l.Quota)
		}
		share.rules[i] = r
	}
	return share
}

// ShareOf returns the share of a quota that [Policy.Spread] gives each of n instances in requests of cost 1. n is at
// least 1.
func ShareOf(quota, n int64) int64 { return shareOf(quota, n, n, 1) }
