// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math/bits"
	"time"
)

// Instances that are a ring ask each other. Which of them one asks follows from its list, which may be late: who is
// in the ring is a set of them, and each has heard an older or the newest one.

// members gives what can become of a list, or of who is in it, by an instance.
func (w *explorer) members(s *state, i int, yield yield) {
	in, without := &s.instances[i], s.members&^(1<<i)
	becomes := func(kind kind, does func(next *state, in *instance)) {
		next := *s
		does(&next, &next.instances[i])
		w.named(&next)
		yield(move{instance: uint8(i), call: call{kind: kind}}, next, "")
	}
	if in.list != 0 && in.list != s.members {
		becomes(hear, func(next *state, in *instance) { in.list = s.members })
	}
	if int(s.changes) == w.Changes {
		return
	}
	if !s.members.has(i) {
		becomes(join, func(next *state, in *instance) { // it knows the others before they know it
			next.changes++
			next.members = next.members.with(i)
			in.memory, in.list = w.memories.settle(in.memory, w.clock(s, in)), next.members
		})
		return
	}
	if without == 0 {
		return
	}
	becomes(leave, func(next *state, _ *instance) { // it goes on, and answers
		next.changes++
		next.members = without
	})
	becomes(die, func(next *state, in *instance) {
		next.changes++
		next.members = without
		next.ends(in)
	})
}

// ends ends a life. What it has admitted as an owner stays true.
func (s *state) ends(in *instance) {
	if in.owner {
		s.lives++
	}
	*in = instance{stepped: in.stepped}
}

// named notes whom the lists name as the owner.
func (w *explorer) named(s *state) {
	for i := range s.instances[:w.Instances] {
		if list := s.instances[i].list; list != 0 {
			if of := &s.instances[w.rings.owner(list)]; of.list != 0 {
				of.owner = true
			}
		}
	}
}

// owners is O: how many lives the lists have named within the window.
func (w *explorer) owners(s *state) int {
	n := int(s.lives)
	for i := range s.instances[:w.Instances] {
		if s.instances[i].owner {
			n++
		}
	}
	return n
}

// begins begins a window: what was told and named in the one before is no more.
func (w *explorer) begins(s *state) {
	s.told, s.lives = 0, 0
	for i := range s.instances {
		s.instances[i].owner = false
	}
	w.named(s)
}

// losses are what can be lost of a request.
func (w *explorer) losses(s *state, i int) []int8 {
	all := [...]int8{nothingLost, answerLost, answersLost, answerMoved}
	switch in := &s.instances[i]; {
	case w.Ring == 0 || int(s.lost) == w.Lost:
		return all[:1]
	case w.rings.owner(in.list) == i || s.instances[w.rings.owner(in.list)].list == 0:
		return all[:1]
	case in.list == s.members:
		return all[:waysToLoseIt]
	}
	return all[:]
}

// asks has a client ask an instance, which asks the owner, and holds what comes of it against what is true.
func (w *explorer) asks(s *state, i int, c *call) (a *answer, fault string) {
	e := errand{at: int8(i), call: *c, memory: s.instances[i].memory, list: s.instances[i].list}
	e.asked = e.asked.with(w.rings.owner(e.list))
	if c.lost == answerMoved {
		e.newest = s.members
		e.asked = e.asked.with(w.rings.owner(e.newest))
	}
	for j := range s.instances[:w.Instances] {
		e.clocks[j] = w.clock(s, &s.instances[j])
		if in := &s.instances[j]; in.list != 0 && (j == i || e.asked.has(j)) {
			e.there, e.accounts[j] = e.there.with(j), in.account
		}
	}
	o := w.rings.run(e)
	for j := range s.instances[:w.Instances] {
		if e.there.has(j) {
			s.instances[j].account = o.accounts[j]
		}
	}
	s.instances[i].memory = o.next
	if c.lost != nothingLost {
		s.lost++
	}
	if c.lost == answerMoved {
		s.instances[i].list = s.members
		w.named(s)
	}
	if o.fault != "" {
		return &o.answer, o.fault
	}
	return &o.answer, w.heard(s, c, &e, o)
}

// heard notes what is true after a request, and judges it. What is charged is by the clock of the owner, and in the
// next window where somebody knows of a charge in that one: see package limiter.
func (w *explorer) heard(s *state, c *call, e *errand, o *outcome) string {
	l, t := w.law(shared), &s.tallies[shared].truth
	last := w.rings.owner(e.list)
	if e.newest != 0 {
		last = w.rings.owner(e.newest)
	}
	windows := func(j int) pair {
		at := l.here(e.clocks[j])
		if r := &l[0]; r.interval == 0 {
			at[0].At = max(at[0].At, o.known.At)
			if next := at[0].At + 1; s.instances[j].beside[0][0].admitted[r.at(next)] > 0 {
				at[0].At = next
			}
		}
		return at
	}
	at := windows(last)
	for j := range s.instances[:w.Instances] {
		if !o.charged.has(j) {
			continue
		}
		at, own := windows(j), &s.instances[j].beside[0]
		l.charge(t, e.clocks[j], at)
		if l.charge(own, e.clocks[j], at); !l.room(e.clocks[j], l.in(own, at), 0) {
			return "one instance admits more than the quota"
		}
	}
	if o.admitted {
		s.told++
	}
	if w.Step != 0 { // windows of the clocks end one after the other
		s.told = uint8(l.in(t, at)[0].Cur)
	}
	w.result.Most = max(w.result.Most, int(s.told))
	charges := bits.OnesCount8(uint8(o.charged))
	switch lives := w.owners(s); {
	case o.admitted && charges == 0:
		return "a request is admitted that nobody has counted"
	case charges > 1 && c.lost != answerMoved, charges > 0 && !o.admitted && c.lost == nothingLost:
		return "a request is charged that was not admitted, or twice"
	case o.recalled && w.Step != 0: // it lasts as long as was said, by the clock that was then asked
	case o.refused && l.room(e.clocks[last], l.in(t, at), 1) && l.room(c.clock, l.in(t, l.here(c.clock)), 1):
		return "a client is refused that is under its limit"
	case o.carries && !l.below(o.state, l.in(t, o.state)):
		return "a tally counts more than was admitted"
	case int(l.in(t, at)[0].Cur) > lives*w.one(shared, 0):
		return "more is admitted than the quota of each owner"
	case int(s.told) > w.bound(shared, 0, lives):
		return "a client that echoes is admitted more than the quota"
	}
	return ""
}

// later is what an account is from a time on.
func (w *explorer) later(account memory, from time.Duration) memory {
	if account == empty {
		return empty
	}
	return w.memories.settle(account, from)
}
