// SPDX-License-Identifier: Apache-2.0

package model

import (
	"hash/maphash"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
)

// A Result has the findings of an exploration.
type Result struct {
	States, Moves int // distinct states, and what leads from one to another
	Most          int // requests that were admitted in one window, of all tallies
	Span          int // with Spans: requests that were admitted in less than a window's length
	Own           int // where clocks step: requests that one memory admitted in a window of its own clock

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
}

// A fingerprint stands for a state: 128 bits: two of a hundred million states have the
// same with a chance below 1 in 10²². A state itself is several times as large.
type fingerprint [2]uint64

// A way is how a state was reached first.
type way struct {
	from int32
	by   move
}

// A move is one thing that happens: a call, or what no instance hears of.
type move struct {
	instance uint8
	flight   uint8
	call     call
}

type yield = func(move, state, string)

type optionsKey struct {
	tally int
	held  set
	at    time.Duration
}

type attackKey struct {
	memory memory
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

func (w World) explorer() (*explorer, error) {
	c, err := w.compile()
	if err != nil {
		return nil, err
	}
	cs := &counts{[]pair{{}}, map[pair]count{{}: none}}
	ms, err := newMemories(c, cs)
	if err != nil {
		return nil, err
	}
	e := &explorer{
		compiled: c, counts: cs, memories: ms,
		optionsOf: map[optionsKey][]count{}, attacks: map[attackKey][]attack{}, seen: map[fingerprint]struct{}{},
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
	}
	return e, nil
}

// merged is what two tokens say together, as a token says it.
func (w *explorer) merged(f int, at time.Duration, a, b count) count {
	p := w.merge(f, at, w.counts.all[a], w.counts.all[b])
	for i, r := range w.law(f) {
		if r.interval == 0 && p[i].Cur == 0 && p[i].Prev == 0 {
			p[i] = limiter.State{}
		}
	}
	return w.counts.of(p)
}

// options are what a client may show that holds a set: none, each of them, and any two of
// them, which the limiter merges.
func (w *explorer) options(f int, held set, at time.Duration) (list []count) {
	key := optionsKey{f, held, at}
	if known, ok := w.optionsOf[key]; ok {
		return known
	}
	all := held | 1 // none
	held.each(func(a count) {
		held.each(func(b count) { all |= 1 << w.merged(f, at, a, b) })
	})
	all.each(func(t count) { list = append(list, t) })
	w.optionsOf[key] = list
	return list
}

// settle replaces a count by what it comes to from a time on that is no later than any
// clock will read.
func (w *explorer) settle(f int, t count, from time.Duration) count {
	if t == none || w.Step < 0 { // a clock that can be set back may take an old tally for a new one
		return t
	}
	return w.merged(f, from, t, none)
}
