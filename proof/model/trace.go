// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"slices"
	"strings"
)

// trace plays the moves that lead to a state once more, and then one, and tells them.
func (w *explorer) trace(at int, last move) (lines []string) {
	all := []move{last}
	for ; w.ways[at].from >= 0; at = int(w.ways[at].from) {
		all = append([]move{w.ways[at].by}, all...)
	}
	s := w.start()
	for _, m := range all {
		lines = append(lines, w.told(&s, &m))
		done := false
		w.moves(&s, func(other move, next state, _ string) {
			if !done && other == m {
				s, done = next, true
			}
		})
	}
	return lines
}

// told says what happens by a move. Instances are named by what they hold: the states that were visited have no other
// names for them.
func (w *explorer) told(s *state, m *move) string {
	in, c := &s.instances[m.instance], m.call
	var held []string
	for _, f := range w.tracked {
		held = append(held, w.name(w.memories.all[in.memory].sights[slices.Index(w.readings, w.clock(s, in))].tally[f]))
	}
	where := fmt.Sprintf("instance %d, which holds %s,", m.instance+1, strings.Join(held, " and "))
	switch c.kind {
	case tick:
		return fmt.Sprintf("it is %s into the first window", w.Moments[s.moment+1])
	case restart:
		return where + " restarts"
	case step:
		return where + " has a clock that steps by " + w.Step.String()
	case send:
		return "a request is sent with " + w.name(w.counts.all[s.jar])
	case receive:
		return "an answer arrives with " + w.name(w.counts.all[s.flights[m.flight].token])
	case issue:
		return fmt.Sprintf("%s issues the challenge of tally %d", where, c.tally)
	case settle:
		return fmt.Sprintf("%s is told that what it admitted first costs %d", where, w.SettleTo)
	case reconfigure:
		return where + " is reconfigured"
	}
	a := w.memories.call(in.memory, c, w.from(s, in))
	if c.kind == buy {
		return fmt.Sprintf("%s sells tally %d: %t", where, c.tally, a.admitted)
	}
	did := "refuses"
	if a.admitted {
		did = "admits"
	}
	for f, t := range c.shown {
		if t != absent {
			where += fmt.Sprintf(" is shown %s of tally %d,", w.name(w.counts.all[t]), f)
		}
	}
	return fmt.Sprintf("%s and %s: %s of tally %d", where, did, w.name(w.counts.all[a.count]), a.tally)
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
