// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// A state is all that matters of a world at one time.
type state struct {
	moment    uint8
	restarts  uint8 // that have been
	instances [maxInstances]instance
	tallies   [tallies]tally
	flights   [maxFlights]flight // of clients that are not hostile, in order
	jar       count
	spans     [maxSpans]uint8 // with Spans: what was admitted at each moment
}

type instance struct {
	memory  memory
	homes   group              // the tallies of whose challenges it has issued
	away    [tallies - 1]truth // what of each bought tally was admitted here, away from home
	stepped bool
	here    uint8  // where clocks step: what it has admitted since it last went on to another window
	sold    uint8  // in a Shop
	spent   uint32 // the work of that
}

type tally struct {
	issued bool // where tallies stay near home: its challenge is
	open   bool // it can be shown
	tokens set
	truth  truth
}

// A flight is a request that is under way.
type flight struct {
	stage  stage
	token  count
	brings bool // of an answer: it has a token, if only of a window that is over. A Parallel client tells by what it counts
	stale  bool // of LastSent: a request that was sent later has brought the jar's token
}

type stage uint8

const (
	idle stage = iota
	sent
	answered
)

const maxFlights = 3

func (w *explorer) start() state {
	s := state{}
	for f := range s.tallies {
		s.tallies[f].open = f == shared || f <= w.Tallies && !w.Shop && !w.near()
	}
	for i := range w.Instances {
		s.instances[i].memory = w.memories.settle(empty, w.from(&s, &s.instances[i]), w.counts)
	}
	return w.canonical(s)
}

// clock is what an instance reads.
func (w *explorer) clock(s *state, i *instance) time.Duration {
	at := w.Moments[s.moment]
	if i.stepped {
		at += w.Step
	}
	return at
}

// from is the earliest that the clock of an instance may show from now on.
func (w *explorer) from(s *state, i *instance) time.Duration {
	at := w.clock(s, i)
	if w.Step < 0 && !i.stepped {
		at += w.Step
	}
	return at
}

// canonical returns the one of all states that differ in names only: instances are alike, and
// so are the requests that a client has under way. What can no longer matter is dropped.
func (w *explorer) canonical(s state) state {
	slices.SortFunc(s.instances[:w.Instances], func(a, b instance) int {
		return cmp.Or(cmp.Compare(a.memory, b.memory), cmp.Compare(a.homes, b.homes), compareBool(a.stepped, b.stepped),
			cmp.Compare(a.here, b.here), cmp.Compare(a.sold, b.sold), cmp.Compare(a.spent, b.spent))
	})
	slices.SortStableFunc(s.flights[:], func(a, b flight) int {
		if w.Client == LastSent { // they are not alike, and stand as they were sent
			return compareBool(a.stage != idle, b.stage != idle)
		}
		return cmp.Or(cmp.Compare(a.stage, b.stage), cmp.Compare(a.token, b.token), compareBool(a.brings, b.brings))
	})
	return s
}

func compareBool(a, b bool) int { return cmp.Compare(flag(a), flag(b)) }

// tick moves the world to its next moment: tokens and memories become what they then are.
func (w *explorer) tick(s state) state {
	before := s
	s.moment++
	earliest := w.Moments[s.moment]
	for i := range w.Instances {
		in := &s.instances[i]
		in.memory = w.memories.settle(in.memory, w.from(&s, in), w.counts)
		w.goesOn(in, w.clock(&before, in), w.clock(&s, in))
	}
	for f := range s.tallies {
		var tokens set
		s.tallies[f].tokens.each(func(t count) { tokens = tokens.with(w.settle(f, t, earliest)) })
		s.tallies[f].tokens = tokens
	}
	for i := range s.flights {
		s.flights[i].token = w.settle(w.carried(), s.flights[i].token, earliest)
	}
	s.jar = w.settle(w.carried(), s.jar, earliest)
	w.forget(&s, earliest)
	return w.canonical(s)
}

// goesOn begins a new count of what an instance admits in a window of its own clock. A bucket
// knows no windows.
func (w *explorer) goesOn(in *instance, from, to time.Duration) {
	if !w.bucket() && w.windowAt(from) != w.windowAt(to) {
		in.here = 0
	}
}

// forget drops what was admitted in windows that no clock will see again and that weigh
// nothing: it has been held against the bound.
func (w *explorer) forget(s *state, earliest time.Duration) {
	if w.bucket() || w.Step < 0 {
		return
	}
	last := int(w.windowAt(earliest) - w.first) // the first that still counts
	if w.Limit.Algorithm != storeless.FixedWindow {
		last--
	}
	for f := range s.tallies {
		if w.lasting(f) {
			continue
		}
		for i := range last {
			s.tallies[f].truth.admitted[i] = 0
			for at := range s.instances {
				if f != shared {
					s.instances[at].away[f-bought].admitted[i] = 0
				}
			}
		}
	}
}

// appendTo writes a state down, for its fingerprint.
func (s *state) appendTo(b []byte) []byte {
	b = append(b, s.moment, s.restarts, byte(s.jar))
	for i := range s.instances {
		in := &s.instances[i]
		b = binary.LittleEndian.AppendUint32(b, uint32(in.memory))
		b = binary.LittleEndian.AppendUint32(b, in.spent)
		b = append(b, flag(in.stepped), in.here, in.sold, byte(in.homes))
		for f := range in.away {
			b = in.away[f].appendTo(b)
		}
	}
	for f := range s.tallies {
		t := &s.tallies[f]
		b = append(b, flag(t.issued), flag(t.open))
		b = binary.LittleEndian.AppendUint64(b, uint64(t.tokens))
		b = t.truth.appendTo(b)
	}
	for _, f := range s.flights {
		b = append(b, byte(f.stage), byte(f.token), flag(f.brings), flag(f.stale))
	}
	return append(b, s.spans[:]...)
}
