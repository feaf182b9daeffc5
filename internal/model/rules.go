// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math"

	"github.com/tallystick/tallystick/internal/limiter"
)

// compare holds an answer against what is true of all tallies that were shown, before it
// is counted.
func (w *explorer) compare(s *state, in *instance, c *call, a *answer) string {
	if w.Step < 0 {
		return "" // what was counted under a wrong clock is moved, and nobody knows what is true
	}
	f := int(a.tally)
	t := s.tallies[f].truth
	room := w.room(f, c.clock, w.state(f, &t, a.state), 1)
	if a.admitted {
		if w.Client != Hostile && w.AtOnce == 1 && !room {
			return "a client that echoes gets more than the quota"
		}
		w.charge(f, &t, c.clock, a.state)
		if !w.below(a.state, w.state(f, &t, a.state)) {
			return "a tally counts more than was admitted"
		}
		return ""
	}
	if !w.below(a.state, w.state(f, &t, a.state)) {
		return "a tally counts more than was admitted"
	}
	if w.Mode == EveryRequest {
		return "" // the proof may be what was refused
	}
	// Each that was shown must have been at its limit, not only the one that is told of.
	for f := range tallies {
		if c.shown[f] == absent {
			continue
		}
		t := s.tallies[f].truth
		at := a.state
		if f != int(a.tally) && !w.bucket() {
			at.At = max(w.windowAt(c.clock), w.counts.all[c.shown[f]].At)
		}
		if w.room(f, c.clock, w.state(f, &t, at), 1) && (!c.away.has(f) || w.leaves(in, c, f)) {
			return "a client is refused that is under its limit"
		}
	}
	return ""
}

// leaves reports whether an instance that is not the home of a tally has truly admitted less for it
// than the share. It knows no other's part, and its clock alone says which window it is in.
func (w *explorer) leaves(in *instance, c *call, f int) bool {
	here := limiter.State{At: w.windowAt(c.clock)}
	return w.room(share(f), c.clock, w.state(share(f), &in.away[f-bought], here), 1)
}

// exceeds holds what was admitted against the table of bounds.
func (w *explorer) exceeds(s *state, in *instance, c *call, a *answer) string {
	if !a.admitted {
		return ""
	}
	f := int(a.tally)
	if c.away.has(f) && w.Step >= 0 {
		n, window := 0, 0
		if !w.bucket() {
			window = int(w.windowAt(c.clock) - w.first)
		}
		for i, admitted := range in.away[f-bought].admitted {
			if i == window || w.lasting(f) {
				n += int(admitted)
			}
		}
		if n > w.one(share(f)) {
			return overShare
		}
	}
	if w.Step < 0 {
		w.result.Most = w.result.Own
		if c.away.has(f) && int(in.here) > w.one(share(f)) {
			return "a clock that is set back hands out a share"
		}
		if w.result.Own > w.one(f) {
			return "a clock that is set back hands out a quota"
		}
		return ""
	}
	t := &s.tallies[f].truth
	lives := w.Instances + int(s.restarts)
	window := 0
	if !w.bucket() {
		window = w.index(a.state)
	}
	n := int(t.admitted[window])
	if w.lasting(f) {
		n = 0
		for _, more := range t.admitted {
			n += int(more)
		}
	}
	if n > w.bound(f, lives) {
		return fmt.Sprintf("%d requests are admitted for a tally by %d memories, and %d is the bound", n, lives, w.bound(f, lives))
	}
	all := 0
	for f := range s.tallies {
		all += int(s.tallies[f].truth.admitted[window])
	}
	w.result.Most = max(w.result.Most, all)
	if w.Spans && w.inSpan(s) > lives*w.span() {
		return "more is admitted in the length of a window than the bound says"
	}
	return ""
}

// inSpan returns what was admitted within the last window's length.
func (w *explorer) inSpan(s *state) (n int) {
	for i, admitted := range s.spans[:s.moment+1] {
		if w.Moments[s.moment]-w.Moments[i] < w.window {
			n += int(admitted)
		}
	}
	w.result.Span = max(w.result.Span, n)
	return n
}

// cheap reports whether an instance has sold more than the formula allows for the work: what
// leaks in the time, and a Crowd, which is one here, for each doubling.
func (w *explorer) cheap(s *state, in *instance) bool {
	leaks := 4 * float64(w.Moments[s.moment]-w.Moments[0]) / float64(w.Memory)
	return float64(in.sold) > leaks+math.Log2(1+15./8*float64(in.spent)/work)+1e-9
}
