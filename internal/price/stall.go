// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/shop"
)

// Time in a simulation is counted in milliseconds from the opening, and work in hashes.
// Both are integers: every machine computes the same tables.
const (
	second = int64(1000)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

var opening = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(now int64) time.Time { return opening.Add(time.Duration(now) * time.Millisecond) }

// The defaults of middleware.Challenge.
const (
	work        = 1 << 18
	expected    = 8 // Crowd
	priceMemory = time.Hour
)

// A stall is one instance that sells tallies: the real memory and the real prices.
type stall struct {
	memory *limiter.Memory
	prices *shop.Prices
	issued uint64 // challenges: each opens a tally of its own
}

// open returns a stall with room for all that is remembered in a simulation.
func open() *stall {
	tariff := shop.Tariff{Work: work, Crowd: expected, Memory: priceMemory}
	prices, err := tariff.Compile()
	if err != nil {
		panic(err) // all of it is constant
	}
	return &stall{memory: limiter.NewMemory(1<<14, 1), prices: prices}
}

// key names an identity or a network in the stall's memory.
func (s *stall) key(kind byte, n uint64) limiter.Key {
	return s.memory.Key(binary.BigEndian.AppendUint64([]byte{kind}, n))
}

// price is what a challenge asks for at this moment; 0 if none is sold.
func (s *stall) price(now int64, buyers []shop.Buyer) int64 {
	return s.prices.Quote(at(now), s.memory, buyers).Price
}

// redeem says whether work opens a tally at this moment.
func (s *stall) redeem(now int64, buyers []shop.Buyer, work int64) bool {
	s.issued++
	sale := s.prices.Redeem(at(now), s.memory, buyers, s.key('t', s.issued), at(now+minute), work)
	if sale.Saturated {
		panic("price: the memory is too small for the simulation")
	}
	return sale.Granted
}
