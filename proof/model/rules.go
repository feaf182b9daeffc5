// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math"

	"github.com/tallystick/tallystick/middleware"
)

// does gives a call to an instance, and holds its answer against what is true.
func (w *explorer) does(s *state, i int, c *call) (a *answer, fault string) {
	in := &s.instances[i]
	a = w.memories.call(in.memory, *c, w.from(s, in))
	in.memory = a.next
	switch f := int(c.tally); {
	case a.fault != "":
		return a, a.fault
	case c.kind == ask:
		return a, w.asked(s, in, c, a)
	case c.kind == buy:
		if !w.networks() {
			s.tallies[f].open = s.tallies[f].open || a.admitted
			f = shared // the address that buys
		}
		fault = w.sold(s, in, f, a)
		if a.admitted && !a.held {
			in.sales[f][s.moment]++
		}
	}
	return a, fault
}

// asked notes what is true after a request.
func (w *explorer) asked(s *state, in *instance, c *call, a *answer) string {
	if fault := w.compare(s, in, c, a); fault != "" || !a.admitted {
		return fault
	}
	f := int(a.tally)
	w.law(f).charge(&s.tallies[f].truth, c.clock, a.state)
	for _, b := range w.beside(f) {
		w.law(b).charge(&in.beside[b-tallies], c.clock, w.law(b).here(c.clock))
	}
	if w.Step != 0 {
		in.here++
		w.result.Own = max(w.result.Own, int(in.here))
	}
	if w.Settles > 0 && !in.first.set {
		in.first = admission{true, a.tally, s.moment}
	}
	return w.exceeds(s, in, c, a)
}

// compare holds an answer against what is true of all tallies that were shown, before it is counted.
func (w *explorer) compare(s *state, in *instance, c *call, a *answer) string {
	if w.Step < 0 {
		return "" // what was counted under a wrong clock is moved, and the truth is unknown
	}
	f, laws := int(a.tally), &w.laws[in.variant]
	t := s.tallies[f].truth
	if a.admitted {
		knows := w.Client != Hostile && w.AtOnce == 1 || w.Client == Dropping && w.Instances+w.Restarts == 1
		if knows && !laws[f].room(c.clock, laws[f].in(&t, a.state), 1) {
			return "a client that is known here gets more than the quota"
		}
		laws[f].charge(&t, c.clock, a.state)
	}
	if a.carries && !laws[f].below(a.state, laws[f].in(&t, a.state)) {
		return "a tally counts more than was admitted"
	}
	if a.admitted || w.Mode == middleware.EveryRequest {
		return "" // of a refusal the proof may be the reason
	}
	// Each that was shown must have been at its limit, not only the one that is told of.
	for f := range tallies {
		if c.shown[f] == absent {
			continue
		}
		t, at := s.tallies[f].truth, laws[f].here(c.clock)
		for i, shown := range w.counts.all[c.shown[f]] {
			if at[i].At = max(at[i].At, shown.At); f == int(a.tally) {
				at[i].At = max(at[i].At, a.state[i].At)
			}
		}
		excused := !laws[f].room(c.clock, laws[f].in(&t, at), 1)
		for _, b := range w.beside(f) {
			excused = excused || !laws[b].room(c.clock, laws[b].in(&in.beside[b-tallies], laws[b].here(c.clock)), 1)
		}
		if !excused {
			return "a client is refused that is under its limit"
		}
	}
	return ""
}

// exceeds holds what was admitted against the table of bounds.
func (w *explorer) exceeds(s *state, in *instance, c *call, a *answer) string {
	f := int(a.tally)
	switch {
	case !a.admitted:
		return ""
	case w.Step < 0:
		w.result.Most = w.result.Own
		if w.result.Own > w.one(f, 0) {
			return "a clock that is set back hands out a quota"
		}
		return ""
	}
	// An instance knows no other's part, and its clock alone says which window it is in.
	for _, b := range w.beside(f) {
		if l := w.laws[in.variant][b]; !l.room(c.clock, l.in(&in.beside[b-tallies], l.here(c.clock)), 0) {
			return "an instance admits more than a network may have"
		}
	}
	lives := w.Instances + int(s.restarts)
	for i := range w.law(f) {
		if n, most := int(w.law(f).in(&s.tallies[f].truth, a.state)[i].Cur), w.bound(f, i, lives); n > most {
			return fmt.Sprintf("%d requests are admitted for a tally by %d memories, and %d is the bound", n, lives, most)
		}
	}
	w.note(s, a.state[0].At)
	return ""
}

// note notes how much was admitted in a window, of all tallies.
func (w *explorer) note(s *state, window int64) {
	all := 0
	for f := range s.tallies {
		all += int(s.tallies[f].truth[0].admitted[w.law(f)[0].at(window)])
	}
	w.result.Most = max(w.result.Most, all)
}

// costs is what a tally costs an address, by the sales of an instance: the dearest of three levels. The crowd of an
// address is one, of its /56 two, of its /48 eight, and as many times as much leaks.
func (w *explorer) costs(in *instance, f int, moment uint8) (dearest float64) {
	for crowd, buyers := range map[float64][]int{1: {f}, 2: {f &^ 1, min(f|1, tallies-1)}, 8: {0, 1, 2}} {
		level := 0.0
		for m := range moment + 1 {
			if m > 0 {
				level = max(0, level-leak*crowd*(w.Moments[m]-w.Moments[m-1]).Hours())
			}
			for i, buyer := range buyers {
				if i == 0 || buyer != buyers[i-1] {
					level += float64(in.sales[buyer][m])
				}
			}
		}
		doubled, rest := math.Modf(level / crowd)
		dearest = max(dearest, price*math.Exp2(doubled)*(1+rest))
	}
	return dearest
}

// sold holds a sale, or its refusal, against what the formula says.
func (w *explorer) sold(s *state, in *instance, to int, a *answer) string {
	exact, work := w.costs(in, to, s.moment), a.price
	if !w.networks() {
		work = price
	}
	switch {
	case float64(a.price) < exact-1e-6 || float64(a.price) > exact+4: // which is rounded up to a multiple of four
		return fmt.Sprintf("a tally costs %d, and the formula says %.1f", a.price, exact)
	case a.held && !a.admitted:
		return "a tally that was sold has to be paid again"
	case !a.held && a.admitted != (15*work >= 8*a.price):
		return "a proof that is worth too little opens a tally, or one that is worth enough does not"
	}
	return ""
}

// bound is what the table of bounds says of a tally by one limit: no more is admitted for it in one
// window by a number of lives of memories.
func (w *compiled) bound(f, limit, lives int) int {
	one := w.one(f, limit)
	most := lives * one
	switch w.Client {
	case Parallel:
		most = min(most, w.AtOnce*one)
	case LastSent:
		atOnce := w.AtOnce * one
		if len(w.Moments) > 1 {
			atOnce += w.AtOnce - 1 // that were under way when the window began: see docs/proof.md
		}
		most = min(most, atOnce)
	}
	if w.Mode == middleware.EveryRequest {
		most = min(most, lives*w.Proofs)
	}
	if w.SettleTo > 1 {
		most += w.Settles * int(w.SettleTo-1)
	}
	return most
}

// one is what one memory admits by one limit.
func (w *compiled) one(f, limit int) int {
	span := w.Moments[len(w.Moments)-1] - w.Moments[0] + max(0, w.Step)
	most := w.law(f)[limit].one(span)
	if w.Reconfigures > 0 {
		most = max(most, w.laws[1][f][limit].one(span))
	}
	return most
}

// Bound is what the table of bounds says of all clients of this world together.
func (w World) Bound() (all int, err error) {
	c, err := w.compile()
	if err != nil {
		return 0, err
	}
	lives := w.Instances + w.Restarts
	switch {
	case w.Step < 0:
		return c.one(c.carried(), 0), nil // of one memory: the truth of all together is unknown
	case w.networks():
		return lives * min(c.one(tallies+1, 0), min(c.one(tallies, 0), 2*c.one(shared, 0))+c.one(shared, 0)), nil
	}
	for f := range 1 + w.Tallies {
		if f == shared && w.Mode == middleware.Newcomers {
			continue
		}
		least := c.bound(f, 0, lives)
		for i := range c.law(f) {
			least = min(least, c.bound(f, i, lives))
		}
		all += least
	}
	return all, nil
}
