// SPDX-License-Identifier: Apache-2.0

package engine

import "time"

// An IdleClock tells an engine which accounts it may forget. A clock that is ahead for a moment finds
// all of them idle, and a forgotten key has a fresh quota. So an IdleClock believes no single moment:
// an account is idle if it was idle by all that the clock has said for a while, in time that really
// passes. The while is a second, a minute or an hour: the longest of these that the account's longest
// window reaches. So an account stays at most two whiles after it has ended, and the first accounts
// stay until an engine has run for one. The zero IdleClock has seen nothing. It is not safe for
// concurrent use.
type IdleClock struct{ rungs [len(whiles)]rung }

var whiles = [...]time.Duration{time.Second, time.Minute, time.Hour}

// A rung holds what the clock has said within a while, and within the one before it.
type rung struct {
	since      time.Time
	said, were readings
}

// Readings are between two, in Unix ns. The zero value is none.
type readings struct{ low, high int64 }

func (r *readings) add(ns int64) {
	if *r == (readings{}) {
		r.low, r.high = ns, ns
	}
	r.low, r.high = min(r.low, ns), max(r.high, ns)
}

// See notes what the clock says. An engine tells it of each reading that it goes by.
func (h *IdleClock) See(now time.Time) {
	for i := range h.rungs {
		r := &h.rungs[i]
		switch passed := now.Sub(r.since); { // by the monotonic clock, where there is one
		case passed >= whiles[i]:
			r.since, r.were, r.said = now, r.said, readings{}
		case passed < 0:
			r.since = now
		}
		r.said.add(now.UnixNano())
	}
}

// Idle reports whether an account counts nothing any more, as [Account.Expires] says, or because a
// clock that was wrong has charged it: it may be forgotten.
func (h *IdleClock) Idle(a *Account) bool {
	r := h.rungs[whileOf(a)]
	if r.were == (readings{}) {
		return false
	}
	r.said.add(r.were.low)
	r.said.add(r.were.high)
	ends := a.Expires()
	return a.latest-r.said.high > a.hold || ends.IsZero() || ends.UnixNano() <= r.said.low
}

// whileOf returns which while an account must have been idle for.
func whileOf(a *Account) int {
	i := len(whiles) - 1
	for i > 0 && int64(whiles[i]) > a.hold {
		i--
	}
	return i
}

// Frees returns when an account that is not charged any more will be idle: a while after the first beginning of a while
// that is not before its end.
func (h *IdleClock) Frees(a *Account) time.Time {
	i := whileOf(a)
	begins, long := h.rungs[i].since, whiles[i]
	if late := a.Expires().Sub(begins); late > 0 {
		begins = begins.Add((late + long - 1).Truncate(long))
	}
	return begins.Add(long)
}
