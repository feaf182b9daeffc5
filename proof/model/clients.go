// SPDX-License-Identifier: Apache-2.0

package model

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
