// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"slices"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// A leaseholder holds what a leasing knows of a key.
type leaseholder struct {
	said    exact.Verdict // by the engine, last
	of      *exact.Policy // under which it said so; nil: it has said nothing yet
	at      time.Time
	arrives chan struct{} // a block is on its way, and this is closed when it is here; nil: none
	rest    time.Time     // before then none is asked for
	block   *block
	touched time.Time
}

// hasArrived wakes the calls that wait for a block.
func (h *leaseholder) hasArrived() {
	if h.arrives != nil {
		close(h.arrives)
		h.arrives = nil
	}
}

// A block was taken ahead by one call.
type block struct {
	verdict     exact.Verdict // of that call
	left        int64
	from, until time.Time        // by our clock: when it is good
	units       int64            // that were counted within it
	out         map[string]int64 // those that may be refunded, and their cost
	used        bool             // since the timer last looked
}

// leasedSerial begins the serials of calls that were counted within a block.
const leasedSerial = "lease."

// newBlock returns the block that an engine has admitted to a call made at from.
func newBlock(v exact.Verdict, from time.Time) *block {
	return &block{verdict: v, left: v.Receipt.Cost, from: from, until: from.Add(untilWindowEnds(&v.Receipt)), out: make(map[string]int64)}
}

// untilWindowEnds returns for how long a charge stays in the windows it was made in,
// counted from before it was made: by no clock but the engine's. A rolling day counts by the minute.
func untilWindowEnds(r *exact.Receipt) time.Duration {
	least := storeless.MaxWindow
	for i := range r.Policy.Len() {
		if c := r.Policy.Plan().Calendars[i]; c != nil {
			_, end := c.Around(r.At)
			least = min(least, end.Sub(r.At))
			continue
		}
		w := r.Policy.Limit(i).Window
		if r.Policy.Limit(i).Algorithm == storeless.RollingDay {
			w = time.Minute
		}
		least = min(least, w-time.Duration(r.At.UnixNano()%int64(w)))
	}
	return least
}

// good reports whether a block may be counted in: by the clock that runs evenly and by
// the one on the wall, because the first stands still while a machine sleeps, and the
// second may step back.
func (b *block) good(now time.Time) bool {
	within := func(now, from, until time.Time) bool { return !now.Before(from) && now.Before(until) }
	return within(now, b.from, b.until) && within(now.Round(0), b.from.Round(0), b.until.Round(0))
}

// has reports whether there is room for a call in the block.
func (h *leaseholder) has(now time.Time, call *exact.Call) bool {
	return h.held(now, call.Policy) >= call.Cost
}

// held is how much of p could be counted within the block.
func (h *leaseholder) held(now time.Time, p *exact.Policy) int64 {
	if h.block == nil || !h.block.good(now) || !samePolicy(h.block.verdict.Receipt.Policy, p) {
		return 0
	}
	return h.block.left
}

// samePolicy reports whether limits are the very same, also if they were compiled apart.
func samePolicy(p, q *exact.Policy) bool {
	return p == q || slices.Equal(p.Plan().Limits, q.Plan().Limits)
}

// count counts a call within the block, which has room for it.
func (h *leaseholder) count(now time.Time, call *exact.Call) exact.Verdict {
	b := h.block
	b.left -= call.Cost
	b.units++
	b.used = true
	v := b.verdict
	v.Limits = h.statuses(now, call.Policy)
	v.Receipt.Cost = call.Cost
	v.Receipt.Serial = leasedSerial + v.Receipt.Serial + "." + strconv.FormatInt(b.units, 36)
	b.out[v.Receipt.Serial] = call.Cost
	return v
}

// hear takes note of what the engine has said.
func (h *leaseholder) hear(now time.Time, v exact.Verdict, p *exact.Policy) {
	h.said, h.of, h.at = v, p, now
}

// statuses returns the statuses of the engine, and the blocks beside them, for a call that
// is admitted.
func (h *leaseholder) statuses(now time.Time, p *exact.Policy) [storeless.MaxLimits]storeless.LimitStatus {
	limits := h.said.Limits
	for i := range p.Len() {
		s := &limits[i]
		s.Remaining += h.held(now, p)
		s.Reset = max(time.Second, s.Reset-now.Sub(h.at).Truncate(time.Second))
		s.Blocked = false
	}
	return limits
}
