// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
)

// Limits that count by outcome are charged when the outcome is known. Until then a request
// holds its cost: beside what is counted, because a token that carried it would make it
// last. (Tokens are merged by their maximum, so that each neighbour's would bring it back:
// of log-ins behind one address that were all right, 41 % were refused.)

// holdTime is how long a request holds its cost. Then it is charged: connections that send
// a byte now and then would hold all of a quota for nothing.
const holdTime = 10 * time.Second

// Outcomes are what the requests of a policy hold. There is one for each live request, and no
// more. All of it is under one lock, the memory's counts of these limits too: what is no longer held
// is charged, or free, in the same moment.
type outcomes struct {
	mu          sync.Mutex
	held        map[limiter.Key]int64 // of tallies and networks
	first, last *heldCharge           // those that hold, by age
	late        uint64                // tier.lateIDs of the limits that count by outcome now; 0: none does
}

// A heldCharge is the part of a request's charge that depends on its outcome.
type heldCharge struct {
	of         *outcomes
	memory     *limiter.Memory
	late       *limiter.Policy
	limits     uint8             // those, a bit for each
	f          limiter.Candidate // its networks have the limits by outcome
	cost       int64
	since      time.Time
	state      outcomeState
	at         time.Time // when it was charged
	byStatus   bool      // its status has decided, and no Charge
	returned   bool      // the handler has
	prev, next *heldCharge

	// Of the request's own, set before the handler runs.
	now          func() time.Time
	freeStatuses []int           // statuses
	ctx          context.Context // of the request
	reissue      func(time.Time) // has the token say what is counted by now
}

type outcomeState uint8

const (
	stateHolding outcomeState = iota
	stateCharged
	stateForgiven
)

// lock locks, charges what was held for too long, and returns what unlocks. All that changes
// counts of the policy begins with it, so that they change in the order of time.
func (o *outcomes) lock(now time.Time) (release func()) {
	o.mu.Lock()
	for p := o.first; p != nil && now.Sub(p.since) >= holdTime; p = o.first {
		// As of the moment when it was due: nothing was counted since.
		p.charge(p.since.Add(holdTime))
	}
	return o.mu.Unlock
}

// countBy says which limits count by outcome from now on. If others did, it charges what is held, and requests that are still
// decided by the old configuration are charged at once: what they hold would take room in the new limits, which count them
// already. Where no limit counts by outcome, every request counts without this lock: a charge that is due in a window that is
// over would move its counts there.
func (o *outcomes) countBy(now time.Time, late uint64) {
	defer o.lock(now)()
	if o.late == late {
		return
	}
	o.late = late
	for o.first != nil {
		o.first.charge(now)
	}
}

// take checks all limits and charges those that do not count by outcome. In the others an
// admitted request holds its cost. Dry, it only checks.
func (o *outcomes) take(now time.Time, m *limiter.Memory, t *tier, f *limiter.Candidate, cost int64, dry bool) (limiter.Tally, limiter.Verdict, *heldCharge) {
	defer o.lock(now)()
	held := limiter.Candidate{Key: f.Key, Provider: f.Provider}
	o.noteHeld(f)
	if dry {
		v := m.Peek(now, t.policy, f, cost)
		if v.Admitted { // what is left is told without it: it will hold nothing
			v = m.Peek(now, t.policy, f, 0)
		}
		return f.Shown, v, nil
	}
	tally, v := m.Take(now, t.policy, f, cost)
	if !v.Admitted || cost == 0 {
		return tally, v, nil
	}
	for _, w := range f.Networks {
		held.Networks = append(held.Networks, limiter.Network{Key: w.Key, Policy: t.lateOf(w.Policy)})
	}
	p := &heldCharge{of: o, memory: m, late: t.late, limits: t.lateLimits, f: held, cost: cost, since: now, prev: o.last}
	o.add(&p.f, cost)
	if o.last = p; p.prev == nil {
		o.first = p
	} else {
		p.prev.next = p
	}
	if t.lateIDs != o.late {
		p.charge(now)
	}
	return tally, v, p
}

// noteHeld notes what a tally and its networks hold.
func (o *outcomes) noteHeld(f *limiter.Candidate) {
	f.Held = o.held[f.Key]
	for i := range f.Networks {
		f.Networks[i].Held = o.held[f.Networks[i].Key]
	}
}

// add changes what a tally and its networks hold.
func (o *outcomes) add(f *limiter.Candidate, cost int64) {
	o.addTo(f.Key, cost)
	for i := range f.Networks {
		o.addTo(f.Networks[i].Key, cost)
	}
}

func (o *outcomes) addTo(k limiter.Key, cost int64) {
	if o.held[k] += cost; o.held[k] == 0 {
		delete(o.held, k)
	}
}

// release ends the hold. It does not unlock.
func (p *heldCharge) release() {
	p.of.add(&p.f, -p.cost)
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		p.of.first = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		p.of.last = p.prev
	}
	p.prev, p.next = nil, nil
}

// charge counts the request.
func (p *heldCharge) charge(at time.Time) {
	if p.state == stateCharged {
		return
	}
	record := p.memory.Record
	if p.state == stateHolding {
		p.release()
		record = p.memory.RecordHeld
	}
	record(at, p.late, &p.f, p.cost)
	p.state, p.at = stateCharged, at
}

// forgive has the request not count.
func (p *heldCharge) forgive(now time.Time) {
	switch p.state {
	case stateHolding:
		p.release()
		p.memory.Hold(now, p.late, &p.f, -p.cost)
	case stateCharged:
		p.memory.Restore(now, p.at, p.late, &p.f, p.cost)
	}
	p.state = stateForgiven
}

// say obeys the handler.
func (p *heldCharge) say(charged bool) {
	now := p.now()
	defer p.of.lock(now)()
	p.obey(now, charged)
}

func (p *heldCharge) obey(now time.Time, charged bool) {
	p.byStatus = false
	if charged {
		p.charge(now)
	} else {
		p.forgive(now)
	}
}

// sayAtOnce is say where no response follows: the token says at once what is counted.
func (p *heldCharge) sayAtOnce(charged bool) {
	now := p.now()
	defer p.of.lock(now)()
	was := p.state
	p.obey(now, charged)
	p.reissueAfter(was, now)
}

// reissueAfter has the token say what is counted, unless it has never said otherwise.
func (p *heldCharge) reissueAfter(was outcomeState, now time.Time) {
	if was == stateCharged || p.state == stateCharged {
		p.reissue(now)
	}
}

// conclude is told the status of the response while its header can still be changed. It is 0 if the
// handler has said none. A client that has gone has seen no status. A second status takes the place
// of the first, which no client has seen (a flush that has failed), or which says nothing any more
// (a connection that was taken over).
func (p *heldCharge) conclude(status int) {
	now := p.now()
	defer p.of.lock(now)()
	was := p.state
	if p.state == stateHolding || p.byStatus {
		forgiven := slices.Contains(p.freeStatuses, status) && p.ctx.Err() == nil && now.Sub(p.since) < holdTime
		p.obey(now, !forgiven)
		p.byStatus = true
	}
	p.reissueAfter(was, now)
}

// end concludes what no status has: the handler has returned without one, or has panicked.
func (p *heldCharge) end() {
	if !p.returned {
		p.say(true)
	}
}

// resize makes the request cost more, or less, and returns its tally then.
func (p *heldCharge) resize(now time.Time, tally limiter.Tally, more int64) limiter.Tally {
	p.cost += more
	switch p.state {
	case stateHolding:
		p.of.add(&p.f, more)
		p.memory.Hold(now, p.late, &p.f, more)
	case stateCharged:
		if more < 0 {
			return p.memory.Restore(now, p.at, p.late, &p.f, -more)
		}
		return p.memory.Record(now, p.late, &p.f, more)
	}
	return tally
}
