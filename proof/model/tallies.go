// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math/bits"

	"github.com/tallystick/tallystick/internal/limiter"
)

// A pair is a tally of the limits that a world has, at most two.
type pair [2]limiter.State

func (p pair) whole() (t limiter.Tally) {
	copy(t[:], p[:])
	return t
}

// A count numbers what a client was told of a tally.
type count int8

const (
	absent count = -1 // nothing is shown of it
	none   count = 0  // nothing is counted: no token, or the first one of what was bought
)

// counts numbers what is told of tallies, so that a set of counts is a number too.
type counts struct {
	all    []pair
	number map[pair]count
}

func (cs *counts) of(p pair) count {
	t, known := cs.number[p]
	if !known {
		if len(cs.all) == 64 {
			panic(fmt.Sprintf("model: more than %d counts are too many for a set", len(cs.all)))
		}
		t = count(len(cs.all))
		cs.number[p], cs.all = t, append(cs.all, p)
	}
	return t
}

// A set of counts. All have none.
type set uint64

func (s set) with(t count) set { return (s | 1<<t) &^ 1 }

func (s set) each(f func(count)) {
	for ; s != 0; s &= s - 1 {
		f(count(bits.TrailingZeros64(uint64(s))))
	}
}

// A group is some of the tallies of a world: a bit for each of them, not for what it counts.
type group uint8

func (g group) has(f int) bool { return g>>f&1 != 0 }

func (g group) with(f int) group { return g | 1<<f }
