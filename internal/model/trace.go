// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"
)

// told plays moves once more, and says what happens. Instances are named by what their
// memories hold: the states that were visited have no other names for them.
func (w *explorer) told(moves []move) (lines []string) {
	s := w.start()
	for _, m := range moves {
		lines = append(lines, w.tell(&s, &m))
		done := false
		w.moves(&s, func(other move, next state, _ string) {
			if !done && other == m {
				s, done = next, true
			}
		})
	}
	return lines
}

func (w *explorer) tell(s *state, m *move) string {
	in := &s.instances[m.instance]
	where := fmt.Sprintf("instance %d, which holds %s,", m.instance+1, w.holds(in, s))
	switch m.act {
	case ticks:
		return fmt.Sprintf("it is %s into the first window", w.Moments[s.moment+1])
	case issues:
		return fmt.Sprintf("%s issues the challenge of tally %d", where, m.tally)
	case restarts:
		return where + " restarts"
	case steps:
		return where + " has a clock that steps by " + w.Step.String()
	case sends:
		return "a request is sent with " + w.name(s.jar)
	case receives:
		return "an answer arrives with " + w.name(s.flights[m.flight].token)
	}
	c := m.call
	if c.kind != ask {
		return fmt.Sprintf("%s sells tally %d: %t", where, c.tally, w.answer(in, &c, s).admitted)
	}
	var shown []string
	for f, t := range c.shown {
		if t != absent {
			shown = append(shown, fmt.Sprintf("%s of tally %d", w.name(t), f))
		}
	}
	a := w.answer(in, &c, s)
	did := "refuses"
	if a.admitted {
		did = "admits"
	}
	return fmt.Sprintf("%s is shown %s, and %s: %s of tally %d", where, strings.Join(shown, ", "), did, w.what(a), a.tally)
}

func (w *explorer) answer(in *instance, c *call, s *state) *answer {
	_, a := w.memories.call(in.memory, *c, w.from(s, in), w.counts)
	return a
}

func (w *explorer) what(a *answer) string { return w.name(w.counts.of(a.state)) }

func (w *explorer) name(t count) string {
	s := w.counts.all[t]
	switch {
	case t == none:
		return "nothing"
	case w.bucket():
		return fmt.Sprintf("a mark at %dms", s.At/1000-base.UnixMilli())
	}
	return fmt.Sprintf("(window %d: %d, before: %d)", s.At-w.first, s.Cur, s.Prev)
}

func (w *explorer) holds(in *instance, s *state) string {
	m := w.memories.replay(w.memories.calls[in.memory], w.counts)
	var all []string
	for _, f := range w.tracked {
		name := w.name(w.counts.of(w.held(m, w.clock(s, in), f)))
		if f >= tallies {
			name += fmt.Sprintf(" of tally %d away from home", f-share(0))
		}
		all = append(all, name)
	}
	return strings.Join(all, " and ")
}
