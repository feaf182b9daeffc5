// SPDX-License-Identifier: Apache-2.0

// Package price plays what own tallies cost and what they are worth: the tables of its README. Buyers meet the
// real memory and the real prices. All numbers are integers, time is an argument, and the seeds are fixed, so
// that every machine makes the same.
package price

import (
	"encoding/binary"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
	"github.com/tallystick/tallystick/proof/fleet"
)

// Time in a simulation is counted in milliseconds from midnight, and work in hashes.
const (
	second = int64(1000)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

func at(now int64) time.Time { return fleet.Midnight.Add(time.Duration(now) * time.Millisecond) }

const (
	work     = 1 << 18   // the defaults of middleware.Challenge:
	expected = 64        // Crowd,
	leak     = 32        // SalesPerHour,
	passTime = time.Hour // and for how long a tally is a pass;
	crowds56 = 2         // how many crowds the networks of an IPv6 client are expected to hide
	crowds48 = 8
)

// An offer is the demand of a challenge. The zero offer is none.
type offer struct {
	work      int64
	challenge string // of the middleware
}

// A stall is one instance that sells tallies: the real memory and the real prices.
type stall struct {
	place  place // of its buyers
	memory *limiter.Memory
	prices *sale.Prices
	issued uint64 // challenges: each opens a tally of its own
	sold   []limiter.Key
	told   func(now int64) // carries what was sold to the others of a fleet; nil: there is none
}

// usual is what an address is sold by default.
var usual = sale.Tariff{Work: work, Crowd: expected, SalesPerHour: leak}

// few are as many clients as a memory has to have room for in a simulation of one address.
const few = 1 << 14

// open returns a stall with room for the clients of a place.
func open(tariff sale.Tariff, p place) *stall {
	prices, err := tariff.Compile()
	if err != nil {
		panic(err) // all of it is constant
	}
	return &stall{place: p, memory: limiter.NewMemory(p.clients, 1), prices: prices}
}

// key names an identity or a network in the stall's memory.
func (s *stall) key(kind byte, n uint64) limiter.Key {
	return s.memory.Key(binary.BigEndian.AppendUint64([]byte{kind}, n))
}

// price is what a challenge asks for at this moment; 0 if none is sold.
func (s *stall) price(now int64, buyers []sale.Buyer) int64 {
	return s.prices.Quote(at(now), s.memory, buyers).Price
}

// redeem says whether work opens a tally at this moment.
func (s *stall) redeem(now int64, buyers []sale.Buyer, work int64) bool {
	s.issued++
	tally := s.key('t', s.issued)
	sale := s.prices.Redeem(at(now), s.memory, buyers, tally, at(now+minute), work)
	if sale.Saturated {
		panic("price: the memory is too small for the simulation")
	}
	if sale.Granted {
		s.sold = append(s.sold, tally)
		if s.told != nil {
			s.told(now)
		}
	}
	return sale.Granted
}

// v4 is an address without networks.
func (s *stall) v4(int64) []sale.Buyer { return []sale.Buyer{{Key: s.key('a', 0), Crowds: 1}} }

// v6 is the /64 of that number in a /48.
func (s *stall) v6(number int64) []sale.Buyer {
	n := uint64(number) % (1 << 16)
	return []sale.Buyer{
		{Key: s.key('6', n), Crowds: 1},
		{Key: s.key('5', n>>8), Crowds: crowds56},
		{Key: s.key('4', 0), Crowds: crowds48},
	}
}

// A place is where newcomers and an attacker are.
type place struct {
	name     string
	room     int64 // of how many numbers a newcomer has one; 0: all have 0
	newcomer func(s *stall, number int64) []sale.Buyer
	attacker func(s *stall, n int64) []sale.Buyer // its n-th tally
	clients  int                                  // that an instance has room for
}

func first64(s *stall, _ int64) []sale.Buyer { return s.v6(0) }
func first56(s *stall, n int64) []sale.Buyer { return s.v6(n % (1 << 8)) } // each /64 in turn

var (
	oneAddress    = place{"one address", 0, (*stall).v4, (*stall).v4, few}
	subscribers64 = place{"a /48 of subscribers with a /64 each", 1 << 16, (*stall).v6, first64, few}
	busy56        = place{"a /56 of subscribers with a /64 each", 1 << 8, (*stall).v6, first64, few}
	subscribers56 = place{"a /48 of subscribers with a /56 each", 1<<8 - 1, func(s *stall, n int64) []sale.Buyer { return s.v6((1 + n) << 8) }, first56, few}
	whole56       = place{"a whole /56", 0, nil, first56, few}                                                                      // only an attacker
	whole48       = place{"a whole /48", 0, nil, func(s *stall, n int64) []sale.Buyer { return s.v6(n%(1<<8)<<8 | n>>8) }, 1 << 18} // each /56 in turn, and a new /64 in it
)
