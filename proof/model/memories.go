// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"time"
)

// A content is the state of a memory.
type content struct {
	calls []call // that lead there
	seen
}

type seen struct {
	from    time.Duration // the earliest that its clock may yet show
	sights  [maxReadings]sight
	issued  [tallies]bool // challenges of bought tallies
	sold    [tallies]bool
	variant uint8
	first   call // by which was charged what can be settled
}

// memories are the contents that are met.
type memories struct {
	*compiled
	counts    *counts
	all       []content
	number    map[seen]memory
	after     map[after]*answer
	alive     map[memory]*life // at hand
	elsewhere *process
}

type after struct {
	m memory
	c call
}

func newMemories(w *compiled, cs *counts) (*memories, error) {
	ms := &memories{compiled: w, counts: cs, number: map[seen]memory{}, after: map[after]*answer{}, alive: map[memory]*life{}}
	var err error
	if ms.elsewhere, err = w.start(); err != nil {
		return nil, err
	}
	ms.all = []content{{seen: ms.look(nil, nil, w.readings[0])}}
	return ms, nil
}

// replay begins a life anew, and leads it to where calls lead.
func (ms *memories) replay(calls []call) *life {
	l, err := ms.begin(ms.counts, ms.elsewhere)
	if err != nil {
		panic(err) // one has begun before
	}
	for i := range calls {
		l.play(&calls[i])
	}
	return l
}

// settle returns the memory that m is from a time on: its clock will show no earlier one.
func (ms *memories) settle(m memory, from time.Duration) memory {
	if ms.Step < 0 {
		from = ms.readings[0]
	}
	key := after{m, call{kind: tick, clock: from}}
	if a, known := ms.after[key]; known {
		return a.next
	}
	c := ms.all[m]
	for i, at := range ms.readings {
		if at < from {
			c.sights[i] = sight{}
		}
	}
	c.from = from
	ms.after[key] = &answer{next: ms.named(c)}
	return ms.after[key].next
}

// named returns the number of a content.
func (ms *memories) named(c content) memory {
	n, known := ms.number[c.seen]
	if !known && len(c.calls) > 0 {
		n = memory(len(ms.all))
		ms.all = append(ms.all, c)
	}
	ms.number[c.seen] = n
	return n
}

// look returns what l says at each time from a time on. Nothing that is asked for changes it, but that a clock
// was set back, and that a proof is shown: then it is asked anew each time.
func (ms *memories) look(l *life, calls []call, from time.Duration) seen {
	s := seen{from: from}
	for i, at := range ms.readings {
		if at < from {
			continue
		}
		if l == nil || ms.Step < 0 {
			l = ms.replay(calls)
		}
		s.sights[i] = l.look(at)
		for p := range ms.Proofs {
			again := ms.replay(calls)
			again.play(&call{clock: at, proof: int8(p), shown: [tallies]count{none, absent, absent}})
			if again.at.said.Reason == "replayed" {
				s.sights[i].spent[p] = true
			}
		}
	}
	return s
}

// call gives a call to an instance, and returns what that leads to. from is the earliest time that its clock
// may yet show.
func (ms *memories) call(m memory, c call, from time.Duration) *answer {
	key := after{m, c}
	if a, known := ms.after[key]; known {
		return a
	}
	if ms.Step < 0 {
		from = ms.readings[0]
	}
	before, now := &ms.all[m], slices.Index(ms.readings, c.clock)
	l := ms.alive[m]
	if l == nil {
		l = ms.replay(before.calls)
	}
	delete(ms.alive, m)
	a := l.play(&c)
	is := content{calls: append(slices.Clone(before.calls), c)}
	is.seen = ms.look(l, is.calls, from)
	is.issued, is.sold, is.variant, is.first = l.issued, l.sold, l.variant, l.first
	for i := range is.sights {
		if ms.off(l.variant) { // what was bought cannot be seen meanwhile
			copy(is.sights[i].tally[bought:], before.sights[i].tally[bought:])
		}
	}
	if a.fault == "" {
		a.fault = ms.judge(&c, &a, &before.sights[now], &is.sights[now], l.variant)
	}
	a.next = ms.named(is)
	if c.kind == ask && !a.admitted && a.next != m && a.fault == "" && ms.Step >= 0 {
		a.fault = "a refusal changes the memory"
	}
	if ms.Step >= 0 && ms.Proofs == 0 {
		ms.alive[a.next] = l
	}
	ms.after[key] = &a
	return &a
}

// empty is the memory of a process that has just started.
const empty memory = 0

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
