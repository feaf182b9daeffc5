// SPDX-License-Identifier: Apache-2.0

package memory

import "math"

// What limiter.Memory documents of itself.
const (
	setSize        = 16      // cells of a set
	cellsPerClient = 6       // for each limit
	tags           = 1 << 32 // different ones
)

// mean returns how many of live tallies fall into each set of a memory made
// for the given number of them.
func mean(tallies int, live float64) float64 {
	return setSize * live / float64(tallies*cellsPerClient)
}

// full returns the probability that a new tally finds its set full: that a
// Poisson variable of the given mean is setSize or more.
func full(mean float64) float64 { return atLeast(setSize, mean) }

// over returns the probability that a cell of its set has been taken before, so that a
// new tally begins with something: that there were more than setSize.
func over(mean float64) float64 { return atLeast(setSize+1, mean) }

func atLeast(n int, mean float64) float64 {
	if mean > setSize {
		p := 1.0 // the sum below would be lost in rounding, this one is not
		for k := range n {
			p -= poisson(mean, k)
		}
		return p
	}
	p := 0.0
	for k := n; k < 10*setSize; k++ {
		p += poisson(mean, k)
	}
	return p
}

// taken returns the probability that a new tally is taken for another: that a
// cell in use in its set bears its tag.
func taken(mean float64) float64 {
	inUse := 0.0
	for k := range setSize {
		inUse += float64(k) * poisson(mean, k)
	}
	return (inUse + setSize*full(mean)) / tags
}

// poisson returns the probability of k.
func poisson(mean float64, k int) float64 {
	if mean == 0 {
		if k == 0 {
			return 1
		}
		return 0
	}
	factorial, _ := math.Lgamma(float64(k) + 1)
	return math.Exp(float64(k)*math.Log(mean) - mean - factorial)
}
