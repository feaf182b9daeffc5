// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"

	"github.com/tallystick/tallystick/internal/shop"
)

// portBlocks are what the middleware cuts an address into.
const portBlocks = 16

// block is an address, to one that is in the n-th of its blocks.
func (s *stall) block(n int64) []shop.Buyer {
	all := s.v4()
	all[0].Block = uint8(1 + n%portBlocks)
	return all
}

// blocksOf is a shared address whose newcomers are in the first so many blocks, evenly. An
// attacker buys in the first of them in turn.
func blocksOf(newcomers, attacker int64) place {
	return place{"an address with port blocks",
		func(s *stall) func(*rand.Rand) []shop.Buyer {
			return func(r *rand.Rand) []shop.Buyer { return s.block(r.Int64N(newcomers)) }
		},
		func(s *stall) func(int64) []shop.Buyer {
			return func(n int64) []shop.Buyer { return s.block(n % attacker) }
		},
	}
}
