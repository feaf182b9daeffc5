// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// A state is all that matters of a world at one time.
type state struct {
	moment       uint8
	restarts     uint8 // that have been, and so on
	steps        uint8 // of clocks
	issued       uint8 // challenges, where that matters
	settled      uint8
	reconfigured uint8
	instances    [maxInstances]instance
	tallies      [tallies]tally
	flights      [maxFlights]flight // of clients that are not hostile, in order
	jar          count
}

type instance struct {
	memory  memory
	beside  [2]usage        // what was admitted here of what is counted in its memory alone
	first   admission       // the first of those that were not settled, where that matters
	sales   [tallies]soldAt // to each address
	stepped uint8           // 1: its clock has
	variant uint8           // of the configuration
	here    uint8           // where clocks step: what it has admitted since it last went on to another window
}

// soldAt is how many tallies, by moment.
type soldAt [2]uint8

// A memory is the number of what an instance holds.
//
// What a middleware holds cannot be copied, and need not be: it follows from the calls that it was given. So it
// is kept as the fewest calls that lead there, and is made by giving these to a new life. Two are one if the
// instance says the same of every tally at every time that its clock may yet show. What it says at a time is all
// that a decision at that time is made on, so that those cannot be told apart later either.
type memory int32

// An admission is a request that an instance has admitted.
type admission struct {
	set    bool
	tally  int8
	moment uint8
}

// sold is how many tallies in all.
func (in *instance) sold() (n uint8) {
	for _, at := range in.sales {
		n += at[0] + at[1]
	}
	return n
}

type tally struct {
	open   bool // it can be shown
	tokens set
	truth  usage
}

// A flight is a request that is under way.
type flight struct {
	stage stage
	token count
	stale bool // of LastSent: a request that was sent later has brought the jar's token
}

type stage uint8

const (
	idle stage = iota
	sent
	answered
	brought // and it has a token, if only of a window that is over. A Parallel client tells by what it counts
)

const maxFlights = 3

// clock is what an instance reads.
func (w *compiled) clock(s *state, i *instance) time.Duration {
	return w.Moments[s.moment] + time.Duration(i.stepped)*w.Step
}

// from is the earliest that the clock of an instance may show from now on.
func (w *compiled) from(s *state, i *instance) time.Duration {
	at := w.clock(s, i)
	if w.Step < 0 && i.stepped == 0 {
		at += w.Step
	}
	return at
}

// canonical returns the one of all states that differ in names only: instances are alike, and
// so are the requests that a client has under way. What can no longer matter is dropped.
func (w *compiled) canonical(s state) state {
	slices.SortFunc(s.instances[:w.Instances], func(a, b instance) int {
		return cmp.Or(cmp.Compare(a.memory, b.memory), cmp.Compare(a.stepped, b.stepped), cmp.Compare(a.here, b.here))
	})
	slices.SortStableFunc(s.flights[:], func(a, b flight) int {
		if w.Client == LastSent { // they are not alike, and stand as they were sent
			return cmp.Compare(min(a.stage, 1), min(b.stage, 1))
		}
		return cmp.Or(cmp.Compare(a.stage, b.stage), cmp.Compare(a.token, b.token))
	})
	return s
}

// goesOn begins a new count of what an instance admits in a window of its own clock. A bucket
// knows no windows.
func (w *compiled) goesOn(in *instance, from, to time.Duration) {
	if r := &w.law(w.carried())[0]; r.interval == 0 && !r.lasting && r.windowAt(from) != r.windowAt(to) {
		in.here = 0
	}
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
