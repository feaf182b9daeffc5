// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"time"

	"github.com/tallystick/tallystick/internal/gossip"
	"github.com/tallystick/tallystick/internal/limiter"
)

// peersWait is how long a request waits at most, for all that it shows together, until peers have heard of what was
// admitted before it.
const peersWait = 250 * time.Millisecond

// noteWait notes that a charge has to wait for peers, if it has; or that another was made in its place.
func (q *call) noteWait(v *limiter.Verdict, cost int64, l gossip.Limit) {
	switch {
	case v.Admitted:
		q.hears.limit = gossip.Limit{}
	case l.Key != 0:
		q.hears.limit, q.hears.least = l, max(1, v.Room(q.who.tier.policy.Len(), q.priceOf(cost))) // v may be of a tally that is full
	}
}

// waits reports whether the last charge has to wait for peers. No other tally is charged in its place.
func (q *call) waits() bool { return q.hears.limit.Key != 0 }

// untilHeard charges, and charges anew each time that peers have heard of something, until that does not have to wait. It reports
// whether the request has waited in vain: then nothing is charged.
func (q *call) untilHeard(charge func()) (busy bool) {
	h := &q.hears
	h.limit = gossip.Limit{}
	if charge(); !q.waits() {
		return false
	}
	if h.until.IsZero() {
		h.until = time.Now().Add(peersWait)
	}
	timer := time.NewTimer(time.Until(h.until))
	defer timer.Stop()
	defer func() { q.peers.Waited(busy && q.ctx.Err() == nil) }() // a client that has hung up says nothing of them
	for q.waits() && !busy {
		l := h.limit
		freed, ok := q.peers.Wait(l, h.least)
		if !ok {
			return true
		}
		h.limit = gossip.Limit{}
		if charge(); h.limit == l { // it was not acknowledged in between
			select {
			case <-freed:
				q.readClock()
			case <-timer.C:
				busy = true
			case <-q.ctx.Done():
				busy = true
			}
		}
		q.peers.Left(l, freed)
	}
	return busy
}
