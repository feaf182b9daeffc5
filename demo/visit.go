// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

const (
	maxVisits = 256 // that are remembered; the one that was idle longest makes room
	maxMarks  = 60  // that a row shows
)

// visits are what the browsers of the last while have seen. They are bounded, whatever
// comes: a flood of them costs somebody the picture, and nobody a count.
type visits struct {
	mu    sync.Mutex
	most  int
	clock uint64
	all   map[string]*visit
}

func newVisits(most int) *visits { return &visits{most: most, all: map[string]*visit{}} }

// of returns the visit of a round, a fresh one if it is not remembered.
func (vs *visits) of(r round) *visit {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	v := vs.all[r.id]
	if v == nil {
		if len(vs.all) >= vs.most {
			vs.drop()
		}
		v = &visit{changed: make(chan struct{})}
		v.now = r
		vs.all[r.id] = v
	}
	vs.clock++
	v.used = vs.clock
	return v
}

// seen returns the visit of a round if it is remembered.
func (vs *visits) seen(r round) (*visit, bool) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	v, ok := vs.all[r.id]
	return v, ok
}

// drop forgets the visit that was idle longest.
func (vs *visits) drop() {
	var oldest string
	for id, v := range vs.all {
		if oldest == "" || v.used < vs.all[oldest].used {
			oldest = id
		}
	}
	v := vs.all[oldest]
	delete(vs.all, oldest)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.step() // its streams see that it is not remembered, and end
}

type visit struct {
	used uint64 // of visits

	mu      sync.Mutex
	now     round
	lanes   [3]lane
	last    *mark // nil: nothing since the round began
	token   tokenView
	steps   int
	changed chan struct{} // closed at each step: streams wait for it
}

// A lane is one row: what a client was answered in this window.
type lane struct {
	tried             bool
	quota             int64
	window            time.Duration
	since             int64 // the window that is counted
	admitted, refused int
	tallies           []string // that were bought
	marks             []mark   // the newest
	instances         map[int]*instanceCount
	retry             time.Duration
}

type instanceCount struct{ Admitted, Refused int }

// A mark is one answer.
type mark struct {
	N        int // of the round, from 1
	Instance int
	Admitted bool
	Own      bool // charged to a tally that was bought
	Left     int64
	Reason   middleware.Reason
}

// step tells all streams that there is something new.
func (v *visit) step() {
	v.steps++
	close(v.changed)
	v.changed = make(chan struct{})
}

// laneOf is the row that shows what comes next of a round.
func (v *visit) laneOf(r round) int {
	if lane := r.lane(); lane != kept || len(v.lanes[bought].tallies) == 0 {
		return lane
	}
	return bought
}

// enter makes r the round of the visit. A round that another tab has left does not come back.
func (v *visit) enter(r round) {
	if r.turn > v.now.turn {
		v.now = r
		v.last = nil
		v.token = tokenView{}
		v.lanes[r.lane()] = lane{}
		if !r.thrown {
			v.lanes[bought] = lane{}
		}
	}
}

// begin begins a round: with nothing in its row, and in no row if all is to begin again.
func (v *visit) begin(r round, again bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if again {
		v.lanes = [3]lane{}
	}
	v.enter(r)
	v.step()
}

// add notes an answer, and the token that it brought.
func (v *visit) add(s *step, token string, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.enter(s.round)
	if s.round != v.now {
		return // of a round that is over
	}
	l := &v.lanes[v.laneOf(s.round)]
	d := s.decision
	l.tried = true
	m := mark{N: l.admitted + l.refused + 1, Instance: s.instance, Admitted: d.Admitted, Own: d.Own, Reason: d.Reason}
	if limits := d.Limits(); len(limits) > 0 {
		l.quota, l.window, m.Left = limits[0].Quota, limits[0].Window, limits[0].Remaining
		// The bounds are of aligned windows. Where a new one begins, so does the count.
		if since := now.Unix() / int64(l.window/time.Second); since != l.since {
			l.since, l.admitted, l.refused, l.marks, l.instances, m.N = since, 0, 0, nil, nil, 1
		}
	}
	l.retry = d.RetryAfter
	if l.instances == nil {
		l.instances = map[int]*instanceCount{}
	}
	at := l.instances[s.instance]
	if at == nil {
		at = new(instanceCount)
		l.instances[s.instance] = at
	}
	if m.Admitted {
		l.admitted++
		at.Admitted++
	} else {
		l.refused++
		at.Refused++
	}
	l.marks = append(l.marks, m)
	l.marks = l.marks[max(0, len(l.marks)-maxMarks):]
	v.last = &m
	if !s.round.thrown && token != "" {
		v.token = viewToken(token, v.token)
	}
	v.step()
}

// bought notes a tally. One that is redeemed twice is one.
func (v *visit) bought(r round, token string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.enter(r)
	if r != v.now {
		return
	}
	view := viewToken(token, tokenView{})
	l := &v.lanes[bought]
	if view.fam == "" || len(l.tallies) == maxMarks || slices.Contains(l.tallies, view.fam) {
		return
	}
	l.tallies = append(l.tallies, view.fam)
	v.token = view
	v.step()
}

// news returns how many steps there were, and what is closed at the next.
func (v *visit) news() (int, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.steps, v.changed
}

// A step is one request of a round, until its outcome is known.
type step struct {
	round    round
	instance int
	decision middleware.Decision
	decided  bool
	settled  bool
}

type stepKey struct{}
