// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
)

// A memory is the number of a memory's contents.
//
// A limiter.Memory cannot be copied, and need not be: what is in it follows from the calls
// that it was given. So each contents are kept as the fewest calls that lead there, and
// are made by giving these to a new memory. Two contents are one if the memory says the same of
// every tally at every time that a clock may yet show. What it says at a time is all that a
// decision at that time is made on, so that those cannot be told apart later either.
type memory int32

// empty is the memory of a process that has just started.
const empty memory = 0

// memories are the contents that are met.
type memories struct {
	w      *compiled
	calls  [][]call // that lead to each
	number map[string]memory
	after  map[step]outcome
	moved  map[settling]memory
}

type step struct {
	m memory
	c call
}

type outcome struct {
	memory memory
	answer answer
}

type settling struct {
	m    memory
	from time.Duration
}

func newMemories(w *compiled) *memories {
	return &memories{w: w, calls: [][]call{nil}, number: map[string]memory{}, after: map[step]outcome{}, moved: map[settling]memory{}}
}

// replay makes a memory anew.
func (ms *memories) replay(calls []call, cs *counts) *limiter.Memory {
	m := limiter.NewMemory(1, 1)
	for i := range calls {
		ms.w.play(m, &calls[i], cs)
	}
	return m
}

// settle returns the memory that m is from a time on: its clock will show no earlier one.
func (ms *memories) settle(m memory, from time.Duration, cs *counts) memory {
	if ms.w.Step < 0 {
		from = ms.w.readings[0]
	}
	key := settling{m, from}
	if n, known := ms.moved[key]; known {
		return n
	}
	n := ms.named(ms.calls[m], from, cs)
	ms.moved[key] = n
	return n
}

// named returns the number of what calls lead to.
func (ms *memories) named(calls []call, from time.Duration, cs *counts) memory {
	key := ms.look(calls, from, cs)
	if n, known := ms.number[key]; known {
		return n
	}
	n := memory(len(ms.calls))
	if len(calls) == 0 {
		n = empty
	} else {
		ms.calls = append(ms.calls, slices.Clone(calls))
	}
	ms.number[key] = n
	return n
}

// look returns all that a memory says at the times from a time on. Nothing that is asked
// for changes it, but that a clock was set back: then it is asked anew at each time.
func (ms *memories) look(calls []call, from time.Duration, cs *counts) string {
	w := ms.w
	b := binary.AppendVarint(nil, int64(from))
	m := ms.replay(calls, cs)
	for _, at := range w.readings {
		if at < from {
			continue
		}
		if w.Step < 0 {
			m = ms.replay(calls, cs)
		}
		for _, f := range w.tracked {
			s := w.held(m, at, f)
			b = binary.AppendVarint(b, s.At)
			b = binary.AppendVarint(b, int64(s.Cur))
			b = binary.AppendVarint(b, int64(s.Prev))
		}
		if w.Shop {
			b = w.appendSales(b, m, at)
		}
		if w.Mode == EveryRequest {
			b = w.appendSpent(b, ms.replay(calls, cs), at)
		}
	}
	return string(b)
}

// call gives a call to a memory, and returns what that leads to. from is the earliest
// time that its clock may yet show.
func (ms *memories) call(m memory, c call, from time.Duration, cs *counts) (memory, *answer) {
	key := step{m, c}
	if known, ok := ms.after[key]; ok {
		return known.memory, &known.answer
	}
	if ms.w.Step < 0 {
		from = ms.w.readings[0]
	}
	done := append(slices.Clone(ms.calls[m]), c)
	real := ms.replay(ms.calls[m], cs)
	a := ms.w.judged(real, &c, cs)
	next := ms.named(done, from, cs)
	if !a.admitted && next != m && a.fault == "" && c.kind == ask && ms.w.Step >= 0 {
		a.fault = "a refusal changes the memory"
	}
	ms.after[key] = outcome{next, a}
	return next, &a
}
