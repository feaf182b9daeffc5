// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math/bits"

	"github.com/tallystick/tallystick/internal/limiter"
)

// A count is the number of what somebody was told of a tally.
type count int8

const (
	absent count = -1 // nothing is shown of it
	none   count = 0  // nothing is counted: no token, or the first one of what was bought
)

// counts numbers what is told of tallies, so that a set of counts is a number too.
type counts struct {
	marks  bool // they are of a bucket
	all    []limiter.State
	number map[limiter.State]count
}

func newCounts(marks bool) *counts {
	return &counts{marks, []limiter.State{{}}, map[limiter.State]count{{}: none}}
}

func (cs *counts) of(s limiter.State) count {
	if s.Cur == 0 && s.Prev == 0 && !cs.marks {
		return none
	}
	t, known := cs.number[s]
	if !known {
		if len(cs.all) == 64 {
			panic(fmt.Sprintf("model: more than %d counts are too many for a set", len(cs.all)))
		}
		t = count(len(cs.all))
		cs.number[s], cs.all = t, append(cs.all, s)
	}
	return t
}

func (cs *counts) shown(t count) limiter.Tally { return limiter.Tally{cs.all[t]} }

// A set of counts.
type set uint64

func (s set) with(t count) set {
	if t == none {
		return s
	}
	return s | 1<<t
}

func (s set) each(f func(count)) {
	for ; s != 0; s &= s - 1 {
		f(count(bits.TrailingZeros64(uint64(s))))
	}
}

// A group is some of the tallies of a world: a bit for each of them, not for what it counts.
type group uint8

func (g group) has(f int) bool { return g>>f&1 != 0 }

func (g group) with(f int) group { return g | 1<<f }
