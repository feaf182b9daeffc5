package storeless

import (
	"fmt"
	"hash/fnv"
	"math/bits"
	"time"
)

// rule is one compiled limit: every number that a decision needs.
type rule struct {
	limit    Limit // with its defaults filled in
	id       uint32
	capacity int64 // most cost that one request may have: Quota, or Burst
	window   int64 // µs
	seconds  int64 // window in seconds
	interval int64 // GCRA: emission interval, µs, rounded up
	empties  int64 // GCRA: time in which a full bucket empties, µs
	owes     int64 // GCRA: the most that the limit is owed in any tier, µs; see Policy.Among
	skew     int64 // how far ahead of the clock a tally may be, µs
	reach    int64 // how far ahead of the clock its cells may end, seconds
}

// maxSkew is the most by which the clocks of two instances may differ. More is
// a fault to mend with NTP; less would refuse fleets that are merely sloppy.
const maxSkew = 5 * time.Second

// compile assumes a checked limit.
func compile(l Limit) rule {
	r := rule{
		limit:    l,
		id:       limitID(l),
		capacity: l.Quota,
		window:   l.Window.Microseconds(),
		seconds:  int64(l.Window / time.Second),
		skew:     min(maxSkew, l.Window/10).Microseconds(),
	}
	if l.Algorithm.gcra() {
		r.interval = emissionInterval(l)
		r.capacity = l.Burst
		r.empties = l.Burst * r.interval
	}
	r.owe(r.empties)
	return r
}

// owe sets the most that any tier's bucket may be owed.
func (r *rule) owe(most int64) {
	r.owes = most
	r.reach = 3*r.seconds + r.owes/1_000_000 + farFutureSlack
}

// limitID identifies a limit's count in tokens and memory. Quota and burst are
// left out on purpose: counts say what was used, so a changed quota applies to
// them at once. 24 bits keep a token's entry short; a policy whose own ids
// collide is refused by Compile.
func limitID(l Limit) uint32 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d %s", l.Algorithm, l.Window/time.Second, l.Name)
	sum := h.Sum64()
	return uint32(sum^sum>>24^sum>>48) & 0xffffff
}

// elapsed is how far now is into the window of s; a window that starts ahead of
// the clock is at its very beginning.
func (r *rule) elapsed(now int64, s State) int64 { return max(0, now-s.At*r.window) }

// remaining returns how much cost would pass now; negative where a quota or a
// burst was lowered below what is used already. s is rolled.
//
// For the sliding counter, prev·(W−e) + (cur+cost)·W ≤ L·W is, in integers, the
// same as cost ≤ L − cur − ⌈prev·(W−e)/W⌉: exact, with one 128-bit product.
func (r *rule) remaining(now int64, s State) int64 {
	if r.interval > 0 {
		return (r.empties - max(0, s.At-now)) / r.interval
	}
	left := r.limit.Quota - int64(s.Cur)
	if s.Prev == 0 {
		return left
	}
	return left - mulDivUp(int64(s.Prev), r.window-r.elapsed(now, s), r.window)
}

// charge adds cost, which must be within remaining.
func (r *rule) charge(now int64, s State, cost int64) State {
	if r.interval > 0 {
		return State{At: max(s.At, now) + cost*r.interval}
	}
	s.Cur += uint32(cost) // cost ≤ remaining ≤ MaxQuota − Cur: no overflow
	return s
}

// wait returns the time in µs until cost, from 1 to the capacity, would pass;
// zero or less if it passes now. s is rolled.
func (r *rule) wait(now int64, s State, cost int64) int64 {
	if r.interval > 0 {
		return max(0, s.At-now) + cost*r.interval - r.empties
	}
	start, spare := s.At*r.window, r.limit.Quota-cost
	cur, prev := int64(s.Cur), int64(s.Prev)
	switch {
	case r.limit.Algorithm == FixedWindow && cur > spare:
		return start + r.window - now
	case cur > spare:
		// Not in this window. In the next, cur weighs as prev does now:
		// cur·(W−e) ≤ spare·W.
		return start + 2*r.window - mulDiv(spare, r.window, cur) - now
	case prev > 0:
		// prev·(W−e) ≤ (spare−cur)·W; with more than W to spare, at once.
		return start + r.window - mulDiv(min(spare-cur, prev), r.window, prev) - now
	}
	return 0
}

// shown prepares a state from outside, a token, for a decision at now (µs): as
// [rule.seen] does, and a mark from a clock that went wrong is cut down to what
// can be owed at the most. Not to nothing: a clock that steps back, or a burst that
// is lowered with a new start, would hand out a burst to everybody.
func (r *rule) shown(now int64, s State) State {
	if r.beyond(now, s) {
		return State{At: now + r.owes}
	}
	return r.seen(now, s)
}

// seen is s rolled to the present, or kept at its own window where that lies ahead
// of the clock by no more than the skew allowed. Further ahead a window says
// nothing. A mark stays where it is, however far ahead.
func (r *rule) seen(now int64, s State) State {
	if r.interval == 0 && r.ahead(now, s) {
		s = State{}
	}
	return r.roll(now, s)
}

// beyond reports whether a mark lies further ahead of the clock than any tier's
// bucket can be owed by a clock within the skew. Up to there it may be the debt of
// a larger burst, and is owed; beyond, it was written under another clock.
func (r *rule) beyond(now int64, s State) bool {
	return r.interval > 0 && s.At > now && s.At-now > r.owes+r.skew
}

// ahead reports whether the window of s begins further ahead of the clock than
// the skew allowed. In 128 bits: a token may show a number whose time overflows.
// A number below zero is one of them.
func (r *rule) ahead(now int64, s State) bool {
	hi, lo := bits.Mul64(uint64(s.At), uint64(r.window))
	return hi > 0 || lo > uint64(now+r.skew)
}

// roll brings s to the window of now, unless s is ahead of it already. A mark
// that has passed owes nothing.
func (r *rule) roll(now int64, s State) State {
	if r.interval > 0 {
		if s.At <= now {
			return State{}
		}
		return State{At: s.At}
	}
	window := now / r.window
	switch {
	case s.At >= window:
		return s
	case s.At == window-1 && r.limit.Algorithm == SlidingWindow:
		return State{At: window, Prev: s.Cur}
	}
	return State{At: window}
}

// merge returns the element-wise maximum of two rolled states. Each counts a
// subset of the family's admitted requests, so each number is a lower bound of
// the true one, and so is the larger of the two.
func (r *rule) merge(a, b State) State {
	if a.At < b.At {
		a, b = b, a
	}
	if r.interval > 0 {
		return a
	}
	if a.At != b.At { // one of them is ahead by the skew allowed
		b = r.roll(a.At*r.window, b)
	}
	return State{At: a.At, Cur: max(a.Cur, b.Cur), Prev: max(a.Prev, b.Prev)}
}

// blank reports whether s has counted nothing.
func (r *rule) blank(s State) bool {
	if r.interval > 0 {
		return s.At == 0
	}
	return s.Cur == 0 && s.Prev == 0
}

// expires returns a Unix second, a multiple of the window, at which s is spent.
func (r *rule) expires(s State) int64 {
	if r.interval > 0 {
		return (s.At/r.window + 2) * r.seconds
	}
	return (s.At + 2) * r.seconds
}

// mulDiv returns ⌊a·b/c⌋ for 0 ≤ a ≤ c or 0 ≤ b ≤ c, without overflow.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}

// mulDivUp returns ⌈a·b/c⌉ under the same conditions.
func mulDivUp(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, rem := bits.Div64(hi, lo, uint64(c))
	if rem > 0 {
		q++
	}
	return int64(q)
}

// micros is the clock of a decision. Before 1970 it stands still, and so refuses
// once the quota is spent: a clock that was never set must not count in windows
// that nothing remembers.
func micros(now time.Time) int64 { return max(0, now.UnixMicro()) }

// wholeSeconds rounds µs up to whole seconds; what has passed is zero.
func wholeSeconds(us int64) time.Duration {
	return time.Duration(max(0, (us+999_999)/1_000_000)) * time.Second
}

// farFutureSlack is how many seconds later than any limit in use can reach a cell may
// end: one that ends later yet was written under a wrong clock.
const farFutureSlack = 24 * 60 * 60
