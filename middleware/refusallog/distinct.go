// SPDX-License-Identifier: Apache-2.0

package refusallog

import (
	"math"
	"math/bits"
)

// registers is a power of two: the standard error is 1.04/√registers, here 3 %.
const (
	registerBits = 10
	registers    = 1 << registerBits
)

// A distinct counts how many clients there are, by HyperLogLog (Flajolet and others, 2007): each
// register holds the longest run of zero bits that it has seen. The hashes are of pseudonyms,
// which are keyed: no client can choose its own.
type distinct [registers]uint8

// add counts a client by its hash.
func (c *distinct) add(hash uint64) {
	at := hash >> (64 - registerBits)
	rank := uint8(bits.LeadingZeros64(hash<<registerBits|1<<(registerBits-1))) + 1
	c[at] = max(c[at], rank)
}

// about returns the estimate. For few clients it is made from the registers that are still empty,
// and is almost exact.
func (c *distinct) about() uint64 {
	sum, empty := 0.0, 0.0
	for _, rank := range c {
		sum += math.Ldexp(1, -int(rank))
		if rank == 0 {
			empty++
		}
	}
	const m, alpha = registers, 0.7213 / (1 + 1.079/registers)
	estimate := alpha * m * m / sum
	if estimate <= 2.5*m && empty > 0 {
		estimate = m * math.Log(m/empty)
	}
	return uint64(math.Round(estimate))
}
