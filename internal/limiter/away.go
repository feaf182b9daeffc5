// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"math"

	"github.com/tallystick/tallystick/storeless"
)

// Away returns what a tally that was bought on one of some instances may use on each of the
// others in requests of the given cost, a policy of the limits of p; nil if that is all that p
// admits, and nothing is to be held. An instance that has never met the tally has to believe that
// nothing was used of it; a tally that is whole everywhere would be worth as many quotas as there
// are instances.
//
// Of a quota that is the least share with which a client that uses all of it in such requests, each on an
// instance that a balancer picks by chance, has no more than one in 2,000 of them refused. It counts in aligned
// windows, also where the quota slides. So a quota of some ten requests is hardly shared at all. Requests that
// cost less have about as much room. A token bucket keeps its burst, and has as much of its rate as serves the
// same client. A meter, whose burst is 1, is not shared. Away panics if instances or cost is below 1.
func (p *Policy) Away(instances, cost int64) *Policy {
	if instances < 1 || cost < 1 {
		panic(fmt.Sprintf("limiter: no share of one of %d instances in requests of cost %d", instances, cost))
	}
	away, shared := p.clone(), false
	for i := range away.rules {
		r := &away.rules[i]
		if r.interval == 0 {
			l := r.limit
			l.Quota = shareOf(l.Quota, instances, instances-1, cost)
			shared = shared || l.Quota < r.limit.Quota
			// A sliding counter is held to its quota at each instant, and so meets chance more than once a
			// window: it would refuse up to nine times as many. The tally itself slides.
			l.Algorithm = storeless.FixedWindow
			*r = compile(l)
			r.as(&p.rules[i])
			r.aligned(&p.rules[i])
		} else {
			// No slower than a bucket may be.
			slowest := max(r.interval, storeless.MaxWindow.Microseconds()/r.capacity)
			whole := r.interval
			r.interval = int64(min(math.Ceil(float64(whole)*slowerAway(r.capacity, instances, cost)), float64(slowest)))
			shared = shared || r.interval > whole
			r.empties = r.capacity * r.interval
			r.owe(r.empties)
		}
	}
	if !shared {
		return nil
	}
	return away
}

// shareOf returns what requests of up to a cost may use of a quota on each of the held instances, of n: as many of
// them as mayCome says, and room for a part of another, which those that cost less may need. Where more requests
// than mostApart/2 come to an instance they are counted by several at once.
func shareOf(quota, n, held, cost int64) int64 {
	if n == 1 || cost >= quota {
		return quota
	}
	unit := max(cost, (quota-1)/(mostApart*n/2)+1)
	return min(quota, mayCome(quota/unit, n, held)*unit+unit-1)
}

// MostInstances is for how many a share may be asked.
const MostInstances = 1 << 20

// mostApart bounds what is computed for a share.
const mostApart = 1 << 16

// mayCome returns the least number, of requests that each come to one of n instances by chance, with which no
// more than one request in 2,000 is one too many for one of those that are held to it: for all but the home
// of a tally that was bought, and for all n if it has no home.
//
//	held·E[max(0, X−k)] ≤ requests/2000, where X is binomial: of the requests, each with the chance 1/n
//
// A formula of the deviation of X alone, such as m + 3·√m, is too much for large quotas and too little for small
// shares: with 100 requests and 100 instances it refuses one in 1,250.
func mayCome(requests, n, held int64) int64 {
	const negligible = 1e-20
	likeliest := (requests + 1) / n
	others := float64(n - 1)
	chance, all := 1.0, 0.0 // of each outcome, and of all, in those of the likeliest
	for j := likeliest; j > 0 && chance > negligible; j-- {
		chance *= float64(j) * others / float64(requests-j+1)
		all += chance
	}
	var above []float64 // of the likeliest, and of each that is more
	chance = 1
	for j := likeliest; j <= requests && chance > negligible; j++ {
		above = append(above, chance)
		all += chance
		chance *= float64(requests-j) / (float64(j+1) * others)
	}
	permitted := all * float64(requests) / (2000 * float64(held))
	k := len(above) - 1
	tooMany, reached := 0.0, 0.0 // E[max(0, X−k)], and the chance that X is k or more
	for ; k > 0; k-- {
		reached += above[k]
		if tooMany += reached; tooMany > permitted {
			break
		}
	}
	return likeliest + int64(k)
}

// slowerAway returns how many times slower a bucket may be filled on one of n instances. A client that uses all of
// the rate sends each of them the n-th part, by chance, and where that is all that leaks from a bucket it
// would be full every now and then. So it leaks κ times as much. What is owed in a queue of such requests, each
// of 1, is more than x no oftener than e^−θx, where κ = (e^θ−1)/θ (the exponent of Lundberg; Kingman, Proc. Camb.
// Phil. Soc. 60, 1964). A request is refused if more than burst−1 is owed before it: θ = ln 2000/(burst−1).
// Of a burst of 20 κ is 1.2, of 5 it is 3, of 3 it is 11.5, which is more than all the rate on ten instances.
func slowerAway(burst, n, cost int64) float64 {
	if cost >= burst {
		return 1
	}
	theta := math.Log(2000) / (float64(burst)/float64(cost) - 1)
	return max(1, float64(n)*theta/math.Expm1(theta))
}
