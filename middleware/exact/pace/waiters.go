// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"slices"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
)

// waiters are in order of arrival, with their booked places. Places move: among waiters of the
// same cost the first has the earliest, in whatever order the counter answered, and a waiter
// that leaves hands its place on.
type waiters []*waiter

type waiter struct {
	costs    costs
	patience time.Time // it waits no longer
	deadline bool      // because its context does not
	place    *place    // nil: not booked yet
	err      error     // it is to leave with
	news     chan struct{}
}

// A place holds the bookings of a call's units.
type place struct {
	costs  costs
	held   []held
	moment time.Time // when it is good
	asked  time.Time // when: it lies behind the pauses of before
	busy   bool      // the next unit is being asked for
}

// held is one unit of a place.
type held struct {
	unit    int
	moment  time.Time
	receipt exact.Receipt
}

// lacks returns the unit to book next, of those that are not, the one with the longest wait;
// -1: there is none.
func (pl *place) lacks(waits *[maxUnits]time.Duration) int {
	next := -1
	for u, n := range pl.costs {
		if n > 0 && (next < 0 || waits[u] > waits[next]) && !slices.ContainsFunc(pl.held, func(h held) bool { return h.unit == u }) {
			next = u
		}
	}
	return next
}

// add books one more unit. The place is good at the latest of the moments. A booking for long
// before that is returned: used at the later moment, it would come on top of the bookings of others
// for then.
func (pl *place) add(h held, late time.Duration) (stale []held) {
	if h.moment.After(pl.moment) {
		pl.moment = h.moment
	}
	var good []held
	for _, h := range append(pl.held, h) {
		if pl.moment.Sub(h.moment) > late {
			stale = append(stale, h)
		} else {
			good = append(good, h)
		}
	}
	pl.held = good
	return stale
}

// tell wakes a waiter, to look again.
func (w *waiter) tell() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// give hands a place to the first waiter that it suits. If that one had a later place,
// it goes to the next, and so on. It returns the place that is left over, or nil.
func (ws waiters) give(pl *place) *place {
	for _, w := range ws {
		if w.costs != pl.costs || w.err != nil || pl.moment.After(w.patience) {
			continue
		}
		switch {
		case w.place == nil:
			w.place = pl
			w.tell()
			return nil
		case pl.moment.Before(w.place.moment):
			w.place, pl = pl, w.place
			w.tell()
		}
	}
	return pl
}

// leave takes a waiter out of the queue. It returns the place that is free now, or nil.
func (ws *waiters) leave(w *waiter) *place {
	if i := slices.Index(*ws, w); i >= 0 {
		*ws = slices.Delete(*ws, i, i+1)
	}
	if w.place == nil {
		return nil
	}
	return ws.give(w.place)
}

// holder returns the waiter that has a place, or nil.
func (ws waiters) holder(pl *place) *waiter {
	for _, w := range ws {
		if w.place == pl {
			return w
		}
	}
	return nil
}

// next returns the first waiter for which nothing is booked or being booked, or nil. asked are the
// costs that are being booked.
func (ws waiters) next(asked []costs) *waiter {
	asked = slices.Clone(asked)
	for _, w := range ws {
		if w.place != nil || w.err != nil {
			continue
		}
		i := slices.Index(asked, w.costs)
		if i < 0 {
			return w
		}
		asked = slices.Delete(asked, i, i+1)
	}
	return nil
}

// latest returns the moment of the last place.
func (ws waiters) latest() (at time.Time) {
	for _, w := range ws {
		if w.place != nil && w.place.moment.After(at) {
			at = w.place.moment
		}
	}
	return at
}

// void takes away the places before a moment, and returns them.
func (ws waiters) void(until time.Time) (lost []*place) {
	for _, w := range ws {
		if w.place != nil && w.place.moment.Before(until) {
			lost = append(lost, w.place)
			w.place = nil
			w.tell()
		}
	}
	return lost
}
