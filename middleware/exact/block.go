package exact

import (
	"slices"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// A leaseholder is what is held of a key.
type leaseholder struct {
	said    Verdict // by the engine, last
	at      time.Time
	heard   int64 // how often it has said something
	asking  bool  // a block is on its way
	blocks  []*block
	touched time.Time
}

// A block is what was taken ahead by one call.
type block struct {
	verdict     Verdict // of that call
	left        int64
	from, until time.Time        // by our clock: when it is good
	units       int64            // that were counted within it
	out         map[string]int64 // those that may be refunded, and their cost
	used        bool             // since the timer last looked
}

// count counts a call within a block that has room for it.
func (h *leaseholder) count(call *Call, now time.Time) (Verdict, bool) {
	for _, b := range h.blocks {
		if !b.good(now) || !b.of(call.Policy) || b.left < call.Cost {
			continue
		}
		b.left -= call.Cost
		b.units++
		b.used = true
		v := b.verdict
		v.Limits = h.standings(call.Policy, now)
		v.Receipt.Cost = call.Cost
		v.Receipt.Serial += "." + strconv.FormatInt(b.units, 36)
		b.out[v.Receipt.Serial] = call.Cost
		return v, true
	}
	return Verdict{}, false
}

// hear takes note of what the engine has said to a call that set out when it had been
// heard so often. What others heard meanwhile may be older or newer: then the less of
// both is as true as anything.
func (h *leaseholder) hear(heard int64, v Verdict, now time.Time) {
	if h.heard != heard {
		for i := range v.Limits {
			v.Limits[i].Remaining = min(v.Limits[i].Remaining, h.said.Limits[i].Remaining)
		}
	}
	h.said, h.at = v, now
	h.heard++
}

// standings are what the engine has said, and what is held beside it.
func (h *leaseholder) standings(p *Policy, now time.Time) [storeless.MaxLimits]storeless.Standing {
	limits := h.said.Limits
	for i := range p.Len() {
		s := &limits[i]
		s.Remaining += h.held(p, now)
		s.Reset = max(time.Second, s.Reset-now.Sub(h.at).Truncate(time.Second))
	}
	return limits
}

// held is how much of p could be counted within blocks.
func (h *leaseholder) held(p *Policy, now time.Time) (n int64) {
	for _, b := range h.blocks {
		if b.good(now) && b.of(p) {
			n += b.left
		}
	}
	return n
}

// good reports whether a block may be counted in. A clock that has stepped back
// cannot tell.
func (b *block) good(now time.Time) bool { return !now.Before(b.from) && now.Before(b.until) }

// of reports whether a block was taken under the very limits of p.
func (b *block) of(p *Policy) bool {
	q := b.verdict.Receipt.Policy
	return p == q || slices.Equal(p.limits, q.limits)
}

// untilWindowEnds returns for how long a charge stays in the windows it was made in,
// counted from before it was made: by no clock but the engine's.
func untilWindowEnds(r *Receipt) time.Duration {
	least := storeless.MaxWindow
	for i := range r.Policy.Len() {
		w := r.Policy.Limit(i).Window
		least = min(least, w-time.Duration(r.At.UnixNano()%int64(w)))
	}
	return least
}
