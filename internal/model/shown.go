// SPDX-License-Identifier: Apache-2.0

package model

import (
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// options are what a client may show that holds a set: none, each of them, and any two of
// them, which the limiter merges.
func (w *explorer) options(f int, held set, at time.Duration) []tally {
	key := optionsKey{f, held, at}
	if known, ok := w.optionsOf[key]; ok {
		return known
	}
	all := set(1) // none
	held.each(func(t tally) { all |= 1 << t })
	now := base.Add(at)
	held.each(func(a tally) {
		held.each(func(b tally) {
			merged := w.policy[f].Merge(now, w.tallies.shown(a), w.tallies.shown(b))
			all |= 1 << w.tallies.of(merged[0])
		})
	})
	var list []tally
	all.each(func(t tally) { list = append(list, t) })
	w.optionsOf[key] = list
	return list
}

// settle replaces a tally by what it comes to from a time on that is no later than any
// clock will read.
func (w *explorer) settle(f int, t tally, from time.Duration) tally {
	if t == none || w.Step < 0 { // a clock that can be set back may take an old tally for a new one
		return t
	}
	return w.tallies.of(w.policy[f].Merge(base.Add(from), w.tallies.shown(t), storeless.Tally{})[0])
}
