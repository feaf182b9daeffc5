// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math/bits"

	"github.com/tallystick/tallystick/storeless"
)

// A tally is the number of a tally that somebody was given.
type tally int8

const (
	absent tally = -1 // nothing is shown of it
	none   tally = 0  // a tally that has counted nothing: no token, or the first one of what was bought
)

// tallies numbers the tallies that are met, so that a set of them is a number too.
type tallies struct {
	marks  bool // they are of a bucket
	all    []storeless.State
	number map[storeless.State]tally
}

func newTallies(marks bool) *tallies {
	return &tallies{marks, []storeless.State{{}}, map[storeless.State]tally{{}: none}}
}

func (ts *tallies) of(s storeless.State) tally {
	if s.Cur == 0 && s.Prev == 0 && !ts.marks {
		return none
	}
	t, known := ts.number[s]
	if !known {
		if len(ts.all) == 64 {
			panic(fmt.Sprintf("model: more than %d tallies are too many for a set", len(ts.all)))
		}
		t = tally(len(ts.all))
		ts.number[s], ts.all = t, append(ts.all, s)
	}
	return t
}

func (ts *tallies) shown(t tally) storeless.Tally { return storeless.Tally{ts.all[t]} }

// A set of tallies.
type set uint64

func (s set) with(t tally) set {
	if t == none {
		return s
	}
	return s | 1<<t
}

func (s set) each(f func(tally)) {
	for ; s != 0; s &= s - 1 {
		f(tally(bits.TrailingZeros64(uint64(s))))
	}
}

// A group is some of the tallies of a world: a bit for each of them, not for what it counts.
type group uint8

func (g group) has(f int) bool { return g>>f&1 != 0 }

func (g group) with(f int) group { return g | 1<<f }
