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
func (q *question) noteWait(v *limiter.Verdict, l gossip.Limit) {
	switch {
	case v.Admitted:
		q.hears.limit = gossip.Limit{}
	case l.Key != 0:
		q.hears.limit, q.hears.least = l, max(1, v.Least(q.who.tier.policy.Len())) // v may be of a tally that is full
	}
}

// waits reports whether the last charge has to wait for peers. No other tally is charged in its place.
func (q *question) waits() bool { return q.hears.limit.Key != 0 }

// repeats reports whether a request is to be charged anew. If not, busy says whether it has waited in vain.
func (q *question) repeats() (again, busy bool) {
	h := &q.hears
	l := h.limit
	h.limit = gossip.Limit{}
	switch {
	case l.Key == 0 && h.timer == nil:
		return false, false
	case l.Key == 0:
		q.endHearing(false)
		return false, false
	case h.timer == nil:
		if h.until.IsZero() {
			h.until = time.Now().Add(peersWait)
		}
		h.timer = time.NewTimer(time.Until(h.until))
	}
	if h.freed == nil {
		var ok bool
		if h.freed, ok = q.peers.Wait(l, h.least); !ok {
			q.endHearing(true)
			return false, true
		}
		h.on = l
		return true, false
	}
	select {
	case <-h.freed:
		h.freed = nil
	case <-h.timer.C:
		q.endHearing(true)
		return false, true
	case <-q.ctx.Done():
		q.endHearing(true)
		return false, true
	}
	q.at = q.now()
	q.dc.reply.Fields.Now = q.at.UnixMicro()
	return true, false
}

// endHearing ends the wait.
func (q *question) endHearing(busy bool) {
	if q.hears.freed != nil {
		q.peers.Left(q.hears.on, q.hears.freed)
	}
	q.hears.timer.Stop()
	q.hears.timer, q.hears.freed = nil, nil
	q.peers.Waited(busy)
}
