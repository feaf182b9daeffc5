// SPDX-License-Identifier: Apache-2.0

package model

import (
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
)

// moves gives each state that can follow s to yield, and what broke a rule on the way.
func (w *explorer) moves(s *state, yield func(move, state, string)) {
	if int(s.moment)+1 < len(w.Moments) {
		yield(move{act: ticks}, w.tick(*s), "")
	}
	for i := range w.Instances {
		if i > 0 && s.instances[i] == s.instances[i-1] {
			continue
		}
		if int(s.restarts) < w.Restarts {
			yield(move{act: restarts, instance: uint8(i)}, w.restart(*s, i), "")
		}
		if w.Step != 0 && !w.stepped(s) {
			yield(move{act: steps, instance: uint8(i)}, w.step(*s, i), "")
		}
		if f := w.unsold(s); w.near() && f <= w.Tallies {
			yield(move{act: issues, instance: uint8(i), tally: uint8(f)}, w.issue(*s, i, f), "")
		}
		if w.Client == Hostile {
			w.attack(s, i, yield)
		}
		if w.Shop {
			w.shop(s, i, yield)
		}
	}
	if w.Client != Hostile {
		w.fly(s, yield)
	}
}

func (w *explorer) stepped(s *state) bool {
	for i := range s.instances {
		if s.instances[i].stepped {
			return true
		}
	}
	return false
}

// unsold is the next tally of which no challenge was issued yet.
func (w *explorer) unsold(s *state) int {
	f := bought
	for f < tallies && s.tallies[f].issued {
		f++
	}
	return f
}

// issue makes an instance the home of a tally. It can be shown from then on, or be bought.
func (w *explorer) issue(s state, i, f int) state {
	s.instances[i].homes = s.instances[i].homes.with(f)
	s.tallies[f].issued, s.tallies[f].open = true, !w.Shop
	return w.canonical(s)
}

func (w *explorer) restart(s state, i int) state {
	in := &s.instances[i]
	*in = instance{memory: w.memories.settle(empty, w.from(&s, in), w.counts), stepped: in.stepped}
	s.restarts++
	return w.canonical(s)
}

func (w *explorer) step(s state, i int) state {
	in, before := &s.instances[i], s
	in.stepped = true
	in.memory = w.memories.settle(in.memory, w.from(&s, in), w.counts)
	if w.Step > 0 {
		w.goesOn(in, w.clock(&before, &before.instances[i]), w.clock(&s, in))
	}
	return w.canonical(s)
}

// attack asks an instance with all that can be shown to it.
func (w *explorer) attack(s *state, i int, yield func(move, state, string)) {
	in := &s.instances[i]
	k := attackKey{memory: in.memory, homes: in.homes, clock: w.clock(s, in)}
	for f := range tallies {
		k.open[f], k.held[f] = s.tallies[f].open, s.tallies[f].tokens
	}
	list, known := w.attacks[k]
	if !known {
		list = w.distinct(w.requests(&k), in.memory, w.from(s, in))
		w.attacks[k] = list
	}
	for _, a := range list {
		w.result.Moves += a.alike
		w.ask(s, move{act: calls, instance: uint8(i), call: a.call}, yield)
	}
}

// requests are all that can be shown.
func (w *explorer) requests(k *attackKey) (list []call) {
	var can [tallies][]count
	for f := range tallies {
		can[f] = []count{absent}
		if !k.open[f] {
			continue
		}
		if held := w.options(f, k.held[f], k.clock); f == shared && w.Mode != Newcomers {
			can[f] = held // to show nothing is to be of it
		} else if f != shared {
			can[f] = append(can[f], held...)
		}
	}
	proofs := 1
	if w.Mode == EveryRequest {
		proofs = w.Proofs
	}
	for _, a := range can[shared] {
		for _, b := range can[1] {
			for _, c := range can[2] {
				if w.Mode == Newcomers && b == absent && c == absent {
					continue // a proof is asked for
				}
				for p := range proofs {
					asked := call{clock: k.clock, shown: [tallies]count{a, b, c}, proof: int8(p)}
					asked.away = w.strangers(&asked, k.homes)
					list = append(list, asked)
				}
			}
		}
	}
	return list
}

// strangers says which of the tallies that are shown are not at home on an instance.
func (w *explorer) strangers(c *call, homes group) (away group) {
	for f := bought; f < tallies && w.near(); f++ {
		if c.shown[f] != absent && !homes.has(f) {
			away = away.with(f)
		}
	}
	return away
}

// distinct makes each request once, and keeps one of those that differ in nothing that can be
// noticed. Where a clock steps, that could be the windows of their tokens.
func (w *explorer) distinct(list []call, m memory, from time.Duration) (kept []attack) {
	type effect struct {
		memory memory
		answer answer
		absent [tallies]bool
	}
	at := map[effect]int{}
	for _, c := range list {
		var e effect
		next, a := w.memories.call(m, c, from, w.counts)
		e.memory, e.answer = next, *a
		for f, t := range c.shown {
			e.absent[f] = t == absent
		}
		if n, known := at[e]; known && w.Step == 0 {
			kept[n].alike++
			continue
		}
		at[e] = len(kept)
		kept = append(kept, attack{call: c})
	}
	return kept
}

// ask makes a request, and notes what is true after it.
func (w *explorer) ask(s *state, m move, yield func(move, state, string)) {
	next := *s
	fault := w.asked(&next, int(m.instance), &m.call, func(a *answer) {
		if a.admitted || a.carries {
			f := &next.tallies[a.tally]
			f.tokens = f.tokens.with(w.counts.of(a.state))
		}
	})
	yield(m, w.canonical(next), fault)
}

// asked gives a call to an instance, and holds its answer against what is true.
func (w *explorer) asked(s *state, i int, c *call, answered func(*answer)) string {
	in := &s.instances[i]
	var a *answer
	in.memory, a = w.memories.call(in.memory, *c, w.from(s, in), w.counts)
	if a.fault != "" {
		return a.fault
	}
	fault := w.compare(s, in, c, a)
	if f := int(a.tally); a.admitted {
		w.charge(f, &s.tallies[f].truth, c.clock, a.state)
		if c.away.has(f) {
			w.charge(share(f), &in.away[f-bought], c.clock, limiter.State{At: w.windowAt(c.clock)})
		}
		if w.Spans {
			s.spans[s.moment]++
		}
		if w.Step != 0 {
			in.here++
			w.result.Own = max(w.result.Own, int(in.here))
		}
	}
	answered(a)
	if fault == "" {
		fault = w.exceeds(s, in, c, a)
	}
	return fault
}

// shop buys a tally of an instance, one that is there already too: then it pays nothing, or
// pays for it again elsewhere.
func (w *explorer) shop(s *state, i int, yield func(move, state, string)) {
	in := &s.instances[i]
	for f := bought; f <= w.Tallies; f++ {
		if w.near() && !s.tallies[f].issued {
			return
		}
		for _, k := range []kind{buy, stint} {
			next := *s
			at := &next.instances[i]
			m := move{act: calls, instance: uint8(i), call: call{clock: w.clock(s, in), kind: k, tally: int8(f)}}
			var a *answer
			at.memory, a = w.memories.call(in.memory, m.call, w.from(s, in), w.counts)
			fault := a.fault
			if a.admitted && !a.held {
				next.tallies[f].open = true
				at.sold++
				at.spent += uint32(a.work)
				if fault == "" && w.cheap(s, at) {
					fault = "tallies are sold for less than the formula says"
				}
			}
			yield(m, w.canonical(next), fault)
		}
		if !s.tallies[f].open {
			return // tallies are alike: the next one is bought after this
		}
	}
}

// fly is what a client with several requests under way does: it sends one with the token
// that it has, an instance serves one, an answer arrives.
func (w *explorer) fly(s *state, yield func(move, state, string)) {
	for j := range w.AtOnce {
		at := maxFlights - 1 - j // idle ones come first, and the first are never used
		if j > 0 && s.flights[at] == s.flights[at+1] && (w.Client != LastSent || s.flights[at].stage == idle) {
			continue
		}
		switch f := s.flights[at]; f.stage {
		case idle:
			if !s.tallies[w.carried()].open {
				continue
			}
			next := *s
			copy(next.flights[at:], s.flights[at+1:])
			next.flights[maxFlights-1] = flight{stage: sent, token: s.jar}
			yield(move{act: sends, flight: uint8(at)}, w.canonical(next), "")
		case sent:
			for i := range w.Instances {
				if i > 0 && s.instances[i] == s.instances[i-1] {
					continue
				}
				next := *s
				c := call{clock: w.clock(s, &s.instances[i]), shown: [tallies]count{absent, absent, absent}}
				c.shown[w.carried()] = f.token
				c.away = w.strangers(&c, s.instances[i].homes)
				fault := w.asked(&next, i, &c, func(a *answer) {
					next.flights[at] = flight{stage: answered, stale: f.stale}
					if a.admitted || a.carries {
						next.flights[at].token, next.flights[at].brings = w.counts.of(a.state), w.Client != Parallel
					}
				})
				yield(move{act: serves, instance: uint8(i), flight: uint8(at), call: c}, w.canonical(next), fault)
			}
		case answered:
			next := *s
			next.flights[at] = flight{}
			if w.keeps(s, &f) {
				next.jar = f.token
				for i := range at {
					next.flights[i].stale = w.Client == LastSent && next.flights[i].stage != idle
				}
			}
			yield(move{act: receives, flight: uint8(at)}, w.canonical(next), "")
		}
	}
}

// keeps reports whether the token of an answer takes the place of the one in the jar.
func (w *explorer) keeps(s *state, f *flight) bool {
	switch w.Client {
	case Overwriting:
		return f.brings
	case LastSent:
		return f.brings && !f.stale
	}
	return w.policy[w.carried()].Exceeds(base.Add(w.Moments[s.moment]), w.counts.shown(f.token), w.counts.shown(s.jar))
}
