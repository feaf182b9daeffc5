// SPDX-License-Identifier: Apache-2.0

package model

import (
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
)

// options are what a client may show that holds a set: none, each of them, and any two of
// them, which the limiter merges.
func (w *explorer) options(f int, held set, at time.Duration) []count {
	key := optionsKey{f, held, at}
	if known, ok := w.optionsOf[key]; ok {
		return known
	}
	all := set(1) // none
	held.each(func(t count) { all |= 1 << t })
	now := base.Add(at)
	held.each(func(a count) {
		held.each(func(b count) {
			merged := w.policy[f].Merge(now, w.counts.shown(a), w.counts.shown(b))
			all |= 1 << w.counts.of(merged[0])
		})
	})
	var list []count
	all.each(func(t count) { list = append(list, t) })
	w.optionsOf[key] = list
	return list
}

// settle replaces a tally by what it comes to from a time on that is no later than any
// clock will read.
func (w *explorer) settle(f int, t count, from time.Duration) count {
	if t == none || w.Step < 0 { // a clock that can be set back may take an old tally for a new one
		return t
	}
	return w.counts.of(w.policy[f].Merge(base.Add(from), w.counts.shown(t), limiter.Tally{})[0])
}
