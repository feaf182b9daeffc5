// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"

	"github.com/tallystick/tallystick/internal/shop"
)

// How many crowds the networks of an IPv6 client are expected to hide: the middleware's.
const (
	crowds56 = 2
	crowds48 = 8
)

// A place is where newcomers and attackers are.
type place struct {
	name string

	// newcomer returns the buyers that the next newcomer is; attacker, those of an
	// attacker's n-th tally.
	newcomer func(s *stall) func(*rand.Rand) []shop.Buyer
	attacker func(s *stall) func(n int64) []shop.Buyer
}

// v4 is an address without networks.
func (s *stall) v4() []shop.Buyer {
	return []shop.Buyer{{Key: s.key('a', 0), Crowds: 1}}
}

// v6 is the /64 of that number in a /48.
func (s *stall) v6(n uint64) []shop.Buyer {
	n %= 1 << 16
	return []shop.Buyer{
		{Key: s.key('6', n), Crowds: 1},
		{Key: s.key('5', n>>8), Crowds: crowds56},
		{Key: s.key('4', 0), Crowds: crowds48},
	}
}

// Each place, with the attacker that is there.
var (
	oneAddress = place{"one address",
		func(s *stall) func(*rand.Rand) []shop.Buyer {
			all := s.v4()
			return func(*rand.Rand) []shop.Buyer { return all }
		},
		func(s *stall) func(int64) []shop.Buyer {
			all := s.v4()
			return func(int64) []shop.Buyer { return all }
		},
	}
	// A carrier that gives each subscriber a /64: the attacker is one of them.
	subscribers64 = place{"a /48 of subscribers with a /64 each",
		func(s *stall) func(*rand.Rand) []shop.Buyer {
			return func(r *rand.Rand) []shop.Buyer { return s.v6(uint64(r.Int64N(1 << 16))) }
		},
		func(s *stall) func(int64) []shop.Buyer {
			all := s.v6(0)
			return func(int64) []shop.Buyer { return all }
		},
	}
	// The same, where all come from one /56.
	busy56 = place{"a /56 of subscribers with a /64 each",
		func(s *stall) func(*rand.Rand) []shop.Buyer {
			return func(r *rand.Rand) []shop.Buyer { return s.v6(uint64(r.Int64N(1 << 8))) }
		},
		subscribers64.attacker,
	}
	// A carrier that gives each a /56: the attacker uses all of its own.
	subscribers56 = place{"a /48 of subscribers with a /56 each",
		func(s *stall) func(*rand.Rand) []shop.Buyer {
			return func(r *rand.Rand) []shop.Buyer { return s.v6(uint64(1+r.Int64N(1<<8-1)) << 8) }
		},
		func(s *stall) func(int64) []shop.Buyer {
			return func(n int64) []shop.Buyer { return s.v6(uint64(n % (1 << 8))) }
		},
	}
	// Nobody but an attacker, which uses each /64 in turn.
	whole56 = place{"a whole /56", nil, subscribers56.attacker}
	// The same of a /48: each /56 in turn, and a new /64 in it.
	whole48 = place{"a whole /48", nil,
		func(s *stall) func(int64) []shop.Buyer {
			return func(n int64) []shop.Buyer { return s.v6(uint64(n%(1<<8)<<8 | n>>8)) }
		},
	}
)
