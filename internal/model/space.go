// SPDX-License-Identifier: Apache-2.0

package model

import (
	"hash/maphash"
	"time"
)

// A move is one thing that happens.
type move struct {
	act      act
	instance uint8
	flight   uint8
	tally    uint8 // whose challenge is issued
	call     call
}

type act uint8

const (
	ticks act = iota // the time of the world goes on
	restarts
	steps // the clock of an instance does
	issues
	calls
	sends
	serves
	receives
)

// A Result is what an exploration found.
type Result struct {
	States, Moves int // distinct states, and what leads from one to another
	Memories      int // distinct contents of a memory
	Calls         int // of package limiter that these took, each made once
	Most          int // requests that were admitted in one window, of all tallies
	Span          int // with Spans: requests that were admitted in less than a window's length
	Own           int // where clocks step: requests that one memory admitted in a window of its own clock
	Longest       int // moves, on the shortest way to the state that is furthest from the start

	// Broken is the rule that was broken first, by the fewest moves, and Trace what happened.
	Broken string
	Trace  []string
}

type explorer struct {
	*compiled
	counts    *counts
	memories  *memories
	optionsOf map[optionsKey][]count
	attacks   map[attackKey][]attack
	result    Result

	seen  map[fingerprint]struct{}
	seeds [2]maphash.Seed
	ways  []way

	scratch []byte
}

// A fingerprint stands for a state: 128 group, so that of a hundred million states no two
// have the same but by a chance below 1 in 10²². A state itself is several times as large.
type fingerprint [2]uint64

// A way is how a state was reached first.
type way struct {
	from int32
	by   move
}

type optionsKey struct {
	tally int
	held  set
	at    time.Duration
}

type attackKey struct {
	memory memory
	homes  group
	clock  time.Duration
	open   [tallies]bool
	held   [tallies]set
}

// An attack is a request, and how many others show the same tallies, though other tokens of them,
// and have the same answer.
type attack struct {
	call  call
	alike int
}
