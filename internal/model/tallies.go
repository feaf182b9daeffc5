// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math/bits"
	"time"

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

// options are what a client may show that holds a set: none, each of them, and any two of
// them, which the limiter merges.
func (w *explorer) options(f int, held set, at time.Duration) []tally {
	key := optionsKey{f, held, at}
	if known, ok := w.optionsOf[key]; ok {
		return known
	}
	all := set(1) // none
	held.each(func(t tally) { all |= 1 << t })
	now := base.Add(at)
	held.each(func(a tally) {
		held.each(func(b tally) {
			merged := w.policy[f].Merge(now, w.tallies.shown(a), w.tallies.shown(b))
			all |= 1 << w.tallies.of(merged[0])
		})
	})
	var list []tally
	all.each(func(t tally) { list = append(list, t) })
	w.optionsOf[key] = list
	return list
}

type optionsKey struct {
	family int
	held   set
	at     time.Duration
}

// settle replaces a tally by what it comes to from a time on that is no later than any
// clock will read.
func (w *explorer) settle(f int, t tally, from time.Duration) tally {
	if t == none || w.Step < 0 { // a clock that can be set back may take an old tally for a new one
		return t
	}
	return w.tallies.of(w.policy[f].Merge(base.Add(from), w.tallies.shown(t), storeless.Tally{})[0])
}
