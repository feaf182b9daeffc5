// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
)

// A Result has the findings of an exploration.
type Result struct {
	States, Moves int // distinct states, and what leads from one to another
	Most          int // requests that were admitted in one window, of all tallies
	Own           int // where clocks step: requests that one memory admitted in a window of its own clock

	// Broken is the rule that was broken first, by the fewest moves, and Trace what happened.
	Broken string
	Trace  []string
}

type explorer struct {
	*compiled
	counts   *counts
	memories *memories
	attacks  map[attackKey][]attack
	result   Result
}

// A move is one thing that happens: a call, or what no instance hears of.
type move struct {
	instance uint8
	flight   uint8
	call     call
}

type yield = func(move, state, string)

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
	return &explorer{compiled: c, counts: cs, memories: ms, attacks: map[attackKey][]attack{}}, nil
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
	all := held | 1 // none
	held.each(func(a count) {
		held.each(func(b count) { all |= 1 << w.merged(f, at, a, b) })
	})
	all.each(func(t count) { list = append(list, t) })
	return list
}

// settle replaces a count by what it comes to from a time on that is no later than any clock will read.
func (w *explorer) settle(f int, t count, from time.Duration) count {
	if t == none || w.Step < 0 { // a clock that can be set back may take an old tally for a new one
		return t
	}
	return w.merged(f, from, t, none)
}

// did are the words for what an instance does, or what is done to it.
var did = [...]string{
	ask: "is asked", issue: "issues a challenge", buy: "sells", settle: "is told what its first request costs",
	reconfigure: "is reconfigured", restart: "restarts", step: "has a clock that steps",
}

// told says what happens by a move. Instances are named by what they hold: the states that were visited have no other
// names for them.
func (w *explorer) told(s *state, m *move) string {
	in, c := &s.instances[m.instance], m.call
	switch c.kind {
	case tick:
		return fmt.Sprintf("it is %s into the first window", w.Moments[s.moment+1])
	case send:
		return "a request is sent with " + w.name(w.counts.all[s.jar])
	case receive:
		return "an answer arrives with " + w.name(w.counts.all[s.flights[m.flight].token])
	}
	var held, shown []string
	for _, f := range w.tracked {
		held = append(held, w.name(w.memories.all[in.memory].sights[slices.Index(w.readings, w.clock(s, in))].tally[f]))
	}
	for f, t := range c.shown {
		if t != absent && c.kind == ask {
			shown = append(shown, fmt.Sprintf("%s of tally %d", w.name(w.counts.all[t]), f))
		}
	}
	line := fmt.Sprintf("instance %d, which holds %s, %s", m.instance+1, strings.Join(held, " and "), did[c.kind])
	if c.kind < tick {
		a := w.memories.call(in.memory, c, w.from(s, in))
		line += fmt.Sprintf(" with %q: admitted %t, %s of tally %d", shown, a.admitted, w.name(w.counts.all[a.count]), max(a.tally, c.tally))
	}
	return line
}

func (w *explorer) name(p pair) string {
	var all []string
	for i, r := range w.law(shared) {
		switch s := p[i]; {
		case s.At == 0:
			all = append(all, "nothing")
		case r.interval > 0:
			all = append(all, fmt.Sprintf("a mark at %dms", s.At/1000-base.UnixMilli()))
		default:
			all = append(all, fmt.Sprintf("(window %d: %d, before: %d)", s.At-r.first, s.Cur, s.Prev))
		}
	}
	return strings.Join(all, " + ")
}
