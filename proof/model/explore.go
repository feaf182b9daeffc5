// SPDX-License-Identifier: Apache-2.0

package model

import (
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// Explore visits every state of a world, by the shortest way, until a rule is broken.
func (w World) Explore() (Result, error) {
	e, err := w.explorer()
	if err != nil {
		return Result{}, err
	}
	return e.explore(), nil
}

func (w *explorer) explore() Result {
	found := Search(w.start(), w.moves)
	r := w.result
	r.States, r.Moves, r.Broken = found.States, found.Moves+r.Moves, found.Broken
	s := w.start()
	for _, m := range found.Way { // they are made once more, and told
		r.Trace = append(r.Trace, w.told(&s, &m))
		at := s
		w.moves(&at, func(other move, next state, _ string) {
			if other == m {
				s = next
			}
		})
	}
	return r
}

func (w *explorer) start() state {
	s := state{}
	for f := range s.tallies {
		s.tallies[f].open = w.isShared(f) || f <= w.Tallies && !w.Shop
	}
	for i := range w.Instances {
		s.instances[i].memory = w.memories.settle(empty, w.from(&s, &s.instances[i]))
	}
	return w.canonical(s)
}

// moves gives each state that can follow s to yield, and what broke a rule on the way.
func (w *explorer) moves(s *state, yield yield) {
	if int(s.moment)+1 < len(w.Moments) {
		yield(move{call: call{kind: tick}}, w.tick(*s), "")
	}
	for i := range w.Instances {
		if w.alike(s, i) {
			continue
		}
		// does gives an instance a call, and yields what next is then.
		does := func(next state, c call) {
			c.clock = w.clock(s, &s.instances[i])
			_, fault := w.does(&next, i, &c)
			yield(move{instance: uint8(i), call: c}, w.canonical(next), fault)
		}
		if int(s.restarts) < w.Restarts {
			yield(move{instance: uint8(i), call: call{kind: restart}}, w.restart(*s, i), "")
		}
		if w.Step != 0 && s.steps == 0 {
			yield(move{instance: uint8(i), call: call{kind: step}}, w.step(*s, i), "")
		}
		in := &s.instances[i]
		if f := bought + int(s.issued); w.Shop && f <= w.Tallies && in.sales == [tallies]soldAt{} { // all cost the same
			next := *s
			next.issued++
			does(next, call{kind: issue, tally: int8(f)})
		}
		if w.Client == Hostile || w.Client == Dropping {
			w.attack(s, i, yield)
		}
		for f := range tallies {
			if w.Shop && (w.networks() && in.sold() < 3 || f >= bought && f <= int(s.issued)) {
				does(*s, call{kind: buy, tally: int8(f)})
			}
		}
		if int(s.settled) < w.Settles && in.first.set {
			does(w.settled(*s, i), call{kind: settle})
		}
		if int(s.reconfigured) < w.Reconfigures {
			next := *s
			next.reconfigured++
			next.instances[i].variant = 1 - in.variant
			does(next, call{kind: reconfigure})
		}
	}
	if w.Client == Parallel || w.Client == LastSent || w.Client == Overwriting {
		w.fly(s, yield)
	}
}

func (w *explorer) restart(s state, i int) state {
	in := &s.instances[i]
	*in = instance{stepped: in.stepped}
	in.memory = w.memories.settle(empty, w.from(&s, in))
	s.restarts++
	return w.canonical(s)
}

func (w *explorer) step(s state, i int) state {
	in, before := &s.instances[i], s
	s.steps++
	in.stepped = 1
	in.memory = w.memories.settle(in.memory, w.from(&s, in))
	if w.Step > 0 {
		w.goesOn(in, w.clock(&before, &before.instances[i]), w.clock(&s, in))
	}
	return w.canonical(s)
}

// tick moves the world to its next moment: tokens and memories become what they then are.
func (w *explorer) tick(s state) state {
	before := s
	s.moment++
	earliest := w.Moments[s.moment]
	forget := func(f int, t *usage) {
		if w.Step >= 0 {
			w.law(f).forget(t, earliest)
		}
	}
	for i := range w.Instances {
		in := &s.instances[i]
		in.memory = w.memories.settle(in.memory, w.from(&s, in))
		w.goesOn(in, w.clock(&before, in), w.clock(&s, in))
		for b := range in.beside {
			forget(tallies+b, &in.beside[b])
		}
	}
	for f := range s.tallies {
		var tokens set
		s.tallies[f].tokens.each(func(t count) { tokens = tokens.with(w.settle(f, t, earliest)) })
		s.tallies[f].tokens = tokens
		forget(f, &s.tallies[f].truth)
	}
	for i := range s.flights {
		s.flights[i].token = w.settle(w.carried(), s.flights[i].token, earliest)
	}
	s.jar = w.settle(w.carried(), s.jar, earliest)
	return w.canonical(s)
}

// settled says of what an instance has admitted first, of what was not settled yet, that it costs something else.
func (w *explorer) settled(s state, i int) state {
	in := &s.instances[i]
	f, now, then := int(in.first.tally), w.clock(&s, in), w.Moments[in.first.moment]
	w.law(f).settle(&s.tallies[f].truth, now, then, w.SettleTo)
	for _, b := range w.beside(f) {
		w.law(b).settle(&in.beside[b-tallies], now, then, w.SettleTo)
	}
	in.first = admission{}
	s.settled++
	w.note(&s, w.law(f).here(now)[0].At)
	return s
}

// attack asks an instance with all that can be shown to it.
func (w *explorer) attack(s *state, i int, yield yield) {
	in := &s.instances[i]
	k := attackKey{memory: in.memory, clock: w.clock(s, in)}
	for f, t := range s.tallies {
		k.open[f], k.held[f] = t.open && (w.isShared(f) || !w.off(in.variant)), t.tokens
	}
	list, known := w.attacks[k]
	if !known {
		list = w.distinct(w.requests(&k), in.memory, w.from(s, in))
	}
	w.attacks[k] = list
	for _, at := range list {
		w.result.Moves += at.alike
		next, c := *s, at.call
		a, fault := w.does(&next, i, &c)
		if f := &next.tallies[a.tally]; a.carries && w.Client != Dropping {
			f.tokens = f.tokens.with(a.count)
		}
		yield(move{instance: uint8(i), call: c}, w.canonical(next), fault)
	}
}

// requests are all that can be shown.
func (w *explorer) requests(k *attackKey) (list []call) {
	var can [tallies][]count
	for f := range tallies {
		can[f] = []count{absent}
		held := []count{none}
		if w.Client == Hostile {
			held = w.options(f, k.held[f], k.clock)
		}
		switch {
		case !k.open[f]:
		case !w.isShared(f) || w.networks():
			can[f] = append(can[f], held...)
		case w.Mode != middleware.Newcomers:
			can[f] = held // to show nothing is to be of it
		}
	}
	for _, a := range can[shared] {
		for _, b := range can[1] {
			for _, c := range can[2] {
				asked := call{clock: k.clock, shown: [tallies]count{a, b, c}}
				if w.networks() && asked.shows() != 1 {
					continue // one of three is to ask
				}
				for asked.proof = range int8(max(1, w.Proofs)) {
					list = append(list, asked)
				}
			}
		}
	}
	return list
}

// distinct makes each request once, and keeps one of those that differ in nothing that can be
// noticed. Where a clock steps, that could be the windows of their tokens.
func (w *explorer) distinct(list []call, m memory, from time.Duration) (kept []attack) {
	type effect struct {
		answer answer
		absent [tallies]bool
	}
	at := map[effect]int{}
	for _, c := range list {
		e := effect{answer: *w.memories.call(m, c, from)}
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

// fly is what a client with several requests under way does: it sends one with the token
// that it has, an instance serves one, an answer arrives.
func (w *explorer) fly(s *state, yield yield) {
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
			yield(move{flight: uint8(at), call: call{kind: send}}, w.canonical(next), "")
		case sent:
			for i := range w.Instances {
				if w.alike(s, i) {
					continue
				}
				next := *s
				c := call{clock: w.clock(s, &s.instances[i]), shown: [tallies]count{absent, absent, absent}}
				c.shown[w.carried()] = f.token
				a, fault := w.does(&next, i, &c)
				next.flights[at] = flight{stage: answered, stale: f.stale}
				if a.carries {
					next.flights[at].token = a.count
					if w.Client != Parallel {
						next.flights[at].stage = brought
					}
				}
				yield(move{instance: uint8(i), flight: uint8(at), call: c}, w.canonical(next), fault)
			}
		case answered, brought:
			next := *s
			next.flights[at] = flight{}
			if w.keeps(s, &f) {
				next.jar = f.token
				for i := range at {
					next.flights[i].stale = w.Client == LastSent && next.flights[i].stage != idle
				}
			}
			yield(move{flight: uint8(at), call: call{kind: receive}}, w.canonical(next), "")
		}
	}
}

// keeps reports whether the token of an answer takes the place of the one in the jar.
func (w *explorer) keeps(s *state, f *flight) bool {
	switch w.Client {
	case Overwriting:
		return f.stage == brought
	case LastSent:
		return f.stage == brought && !f.stale
	}
	now, brought, has := base.Add(w.Moments[s.moment]), w.counts.all[f.token], w.counts.all[s.jar]
	return w.policy[w.carried()].Exceeds(now, brought.whole(), has.whole())
}

// alike reports whether an instance does nothing that another does not do too.
func (w *explorer) alike(s *state, i int) bool {
	return i > 0 && s.instances[i] == s.instances[i-1]
}
