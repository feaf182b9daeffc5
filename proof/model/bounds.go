// SPDX-License-Identifier: Apache-2.0

package model

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
	if w.Mode == EveryRequest {
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

// span is the bound of one memory in any span of a window's length: see package limiter.
func (w *compiled) span() int {
	switch r := w.law(shared)[0]; {
	case r.interval > 0:
		return r.one(r.window)
	case r.slides:
		return int(2*r.quota - 1)
	default:
		return int(2 * r.quota)
	}
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
		if f == shared && w.Mode == Newcomers || f != shared && w.Mode != Newcomers && w.Mode != WhenExhausted {
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
