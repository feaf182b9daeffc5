// SPDX-License-Identifier: Apache-2.0

// Package chance computes once more what docs/bounds.md says of a balancer's luck, for those that judge
// what instances admit. It knows nothing of how package limiter computes it.
package chance

import "math"

// Shares returns what an instance admits there in requests of any cost up to one: those of each class have
// their own share.
func Shares(quota, instances, cost int64) (sum int64) {
	for class := int64(1); class < 2*cost; class *= 2 {
		sum += Share(quota, instances, class)
	}
	return min(quota, sum)
}

// Share returns q: what an instance admits, in requests of a cost, for a tally that is at home on another
// one of so many.
func Share(quota, instances, cost int64) int64 { return share(quota, instances, instances-1, cost) }

// Spread returns what each of so many admits for one that is at home nowhere.
func Spread(quota, instances, cost int64) int64 { return share(quota, instances, instances, cost) }

// share tries one share after the other for those that are held to it, and asks of each what every outcome would
// cost.
func share(quota, instances, held, cost int64) int64 {
	class := int64(1)
	for class < cost {
		class *= 2
	}
	requests := quota / class
	if instances <= 1 || requests < 2 {
		return quota
	}
	k := int64(1)
	for float64(held)*excess(requests, k, instances)/float64(requests) > 0.0005 {
		k++
	}
	return min(quota, k*class+class-1)
}

// excess returns how many requests above k come to an instance on average, if each of so many comes to one of
// the instances by chance.
func excess(requests, k, instances int64) (sum float64) {
	p := 1 / float64(instances)
	for j := k + 1; j <= requests; j++ {
		log := logOfFactorial(requests) - logOfFactorial(j) - logOfFactorial(requests-j) +
			float64(j)*math.Log(p) + float64(requests-j)*math.Log1p(-p)
		sum += float64(j-k) * math.Exp(log)
	}
	return sum
}

func logOfFactorial(n int64) float64 {
	log, _ := math.Lgamma(float64(n) + 1)
	return log
}

// Slower returns how many times as long the interval is, between two requests of a cost, of a bucket's share: the
// n-th part of its rate, and as much more as keeps a queue of them below the burst. It looks for the
// exponent with which that is exceeded once in 2,000 times.
func Slower(burst, instances, cost int64) float64 {
	room := float64(burst)/float64(cost) - 1
	if room <= 0 {
		return 1
	}
	low, high := 0.0, 64/room
	for range 200 {
		if mid := (low + high) / 2; math.Exp(-mid*room) > 0.0005 {
			low = mid
		} else {
			high = mid
		}
	}
	return max(1, float64(instances)*low/(math.Exp(low)-1))
}
