// SPDX-License-Identifier: Apache-2.0

package model

import "time"

// A call is a request to an instance, at a time of its clock.
type call struct {
	clock time.Duration
	kind  kind
	shown [tallies]count // of ask
	tally int8           // of buy and issue
	proof int8           // of ask, in EveryRequest
}

type kind uint8

const (
	ask         kind = iota // a request
	issue                   // for a challenge
	buy                     // a proof of it; of Networks, of a fresh one
	settle                  // what was admitted first turns out to cost something else
	reconfigure             // from one configuration to the other, or back

	// What reaches no instance, or is not played.
	tick // the time of the world goes on
	restart
	step // the clock of an instance does
	send
	receive
)

// shows returns of how many tallies something is shown.
func (c *call) shows() (n int) {
	for _, t := range c.shown {
		if t != absent {
			n++
		}
	}
	return n
}

// A memory is the number of what an instance holds.
//
// What a middleware holds cannot be copied, and need not be: it follows from the calls that it was given. So it
// is kept as the fewest calls that lead there, and is made by giving these to a new life. Two are one if the
// instance says the same of every tally at every time that its clock may yet show. What it says at a time is all
// that a decision at that time is made on, so that those cannot be told apart later either.
type memory int32

// empty is the memory of a process that has just started.
const empty memory = 0

type answer struct {
	admitted bool // of buy: granted
	held     bool // of buy: the instance has sold it before
	next     memory
	carries  bool // there is a token in it, which the client did not have
	tally    int8 // whose
	state    pair
	count    count // the same
	price    int64 // of buy, before it
	fault    string
}

// A sight is all that an instance says at one time, to a client that looks and charges nothing.
type sight struct {
	tally [tallies]pair
	left  [tallies]int64 // for a client that shows nothing
	price [tallies]int64 // to each address, in a Shop
	spent group          // proofs
}

// judge holds an answer against what one memory alone must keep to, by what it said before and says after.
func (w *compiled) judge(c *call, a *answer, before, after *sight, variant uint8) string {
	if c.kind != ask {
		if c.kind != settle && before.tally != after.tally {
			return "what admits nothing changes what is counted"
		}
		return ""
	}
	for _, f := range w.tracked {
		charged, was, is := a.admitted && f == int(a.tally), before.tally[f], after.tally[f]
		switch {
		case !a.admitted && w.Step < 0: // what is moved for a clock that was wrong is written down
		case !charged && was != is:
			return "a tally is charged that the answer does not name"
		case charged && was == is:
			return "what is admitted is not remembered"
		case charged && !w.laws[variant][f].room(c.clock, is, 0):
			return "one instance admits more than the quota"
		case charged && is != a.state:
			return "the token is not what the memory holds"
		}
	}
	// A window that is ahead of the clock by the skew allowed begins early for that tally.
	r := &w.law(int(a.tally))[0]
	if ahead := r.interval == 0 && a.state[0].At > r.windowAt(c.clock); a.admitted && before.left[a.tally] < 1 && !ahead {
		return "a token makes the limiter less strict than its memory"
	}
	return ""
}
