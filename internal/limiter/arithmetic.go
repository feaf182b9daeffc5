// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"math"
	"math/bits"
	"time"

	"github.com/tallystick/tallystick/internal/cells"
)

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
// zero or less if it passes now. s is rolled. A pass that is used up admits nothing more:
// the wait is longer than any lives.
func (r *rule) wait(now int64, s State, cost int64) int64 {
	if r.interval > 0 {
		return max(0, s.At-now) + cost*r.interval - r.empties
	}
	start, spare := s.At*r.window, r.limit.Quota-cost
	cur, prev := int64(s.Cur), int64(s.Prev)
	switch {
	case r.life > 0 && cur > spare:
		return MaxWindow.Microseconds()
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
// [rule.seen] does, and a mark from a clock that went wrong is cut down to the
// largest possible debt. It is not cut to nothing: then a clock that steps back, or a
// restart with a lower burst, would give every client a burst.
func (r *rule) shown(now int64, s State) State {
	if r.beyond(now, s) {
		s.At = now + r.most(s)
	}
	return r.seen(now, s)
}

// seen is s rolled to the present, or kept at its own window where that lies ahead
// of the clock by no more than the skew allowed. Further ahead a window says
// nothing. A mark stays where it is, however far ahead, and so does what a pass has used.
func (r *rule) seen(now int64, s State) State {
	if r.interval == 0 && r.life == 0 && r.ahead(now, s) {
		s = State{}
	}
	return r.roll(now, s)
}

// beyond reports whether a mark lies further ahead of the clock than any tier's
// bucket can be owed by a clock within the skew, and its overdraft. Up to there it may be
// the debt of a larger burst, and is owed; beyond, it was written under another clock.
func (r *rule) beyond(now int64, s State) bool {
	return r.interval > 0 && s.At > now && s.At-now > r.owes+r.skew && s.At-now > r.most(s)+r.skew
}

// most returns how far ahead of its clock the mark of s can be, in µs: by what any tier's
// bucket can be owed and, beyond that, by the overdraft that s tells of.
//
// That is told apart from the mark, because a mark is a time: if an overdraft were believed
// of any, the fault of a clock would be too, and a client that owes nothing would wait for as
// long as an overdraft may last where it waits for one interval now.
func (r *rule) most(s State) int64 {
	return r.owes + min(int64(s.Cur)*1_000_000, r.overdraft(r.owes))
}

// overdraft returns how much more a bucket may be owed that is full when it is owed full, in µs:
// as much as it admits in a window. The window alone would not do: a burst that is given back
// after something was lost would let in a burst, and lose as much again, within one window.
// See "Settled costs" in the package documentation.
func (r *rule) overdraft(full int64) int64 { return full + r.window }

// overdrawn returns in whole seconds, rounded up, how much further ahead a mark is than any
// tier's bucket can be owed.
func (r *rule) overdrawn(now, mark int64) uint32 {
	beyond := mark - now - r.owes
	if beyond <= 0 {
		return 0
	}
	return uint32(min((beyond-1)/1_000_000+1, math.MaxUint32))
}

// ahead reports whether the window of s begins further ahead of the clock than
// the skew allowed. In 128 bits: a token may show a number whose time overflows.
// A number below zero is one of them.
func (r *rule) ahead(now int64, s State) bool {
	hi, lo := bits.Mul64(uint64(s.At), uint64(r.window))
	return hi > 0 || lo > uint64(now+r.skew)
}

// roll brings s to the window of now, unless s is ahead of it already. A mark
// that has passed owes nothing. What a pass has used stays used, in whichever window that was.
func (r *rule) roll(now int64, s State) State {
	if r.interval > 0 {
		if s.At <= now {
			return State{}
		}
		if s.Cur > 0 { // time pays an overdraft first
			return State{At: s.At, Cur: min(s.Cur, r.overdrawn(now, s.At))}
		}
		return State{At: s.At}
	}
	if r.life == 0 && uint64(now-s.At*r.window) < uint64(r.window) {
		return s // as most are: a division takes longer than all else here
	}
	window := now / r.window
	switch {
	case r.life > 0:
		return State{At: window, Cur: sum(s.Cur, s.Prev)}
	case s.At >= window:
		return s
	case s.At == window-1 && r.limit.Algorithm == SlidingWindow:
		return State{At: window, Prev: s.Cur}
	}
	return State{At: window}
}

// merge returns the element-wise maximum of two rolled states. Each counts a
// subset of the tally's admitted requests, so each number is a lower bound of
// the true one, and so is the larger of the two.
func (r *rule) merge(a, b State) State {
	if a.At < b.At {
		a, b = b, a
	}
	if r.interval > 0 {
		a.Cur = max(a.Cur, b.Cur)
		return a
	}
	if a.At != b.At && !r.blank(b) { // one of them is ahead by the skew allowed
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

// expires returns a Unix second at which s is spent: but for a pass, a multiple of the window.
func (r *rule) expires(s State) int64 {
	switch {
	case r.interval > 0:
		return (s.At/r.window + 2) * r.seconds
	case r.life > 0: // it may have been charged as the window ended
		return (s.At+1)*r.seconds + r.life/1_000_000
	}
	return (s.At + 2) * r.seconds
}

// A window state is kept in a cell as its two counts, its number following from Expires; what a
// pass has used in its life as that number alone, below a bit that says so; a GCRA state as its
// time mark below the bit length of the time its bucket takes to empty, and whether it is
// overdrawn: by how much, the mark says.
const (
	// usedInLife is above the counts, of 31 bits each.
	usedInLife = 1 << 63

	// markBits are the bits of a cell's value that hold the time mark of a bucket.
	markBits = 56

	// overdrawnBit of a cell's value says that the mark is an overdraft too.
	overdrawnBit = 1 << 63
)

// owed returns how far ahead of its clock, in µs, the writer of a GCRA cell can
// have put the mark, up to a factor of two. The writer's bucket counts, not the
// reader's: tiers share a tally's cell, one of a small burst must not take the
// debt of a larger one for a fault of the clock, and a client of the small one
// must not be held to the debt of the large one after such a fault.
func owed(c *cells.Cell) int64 { return 1 << (c.Value &^ overdrawnBit >> markBits) }

// overdrawn reports whether a GCRA cell was owed more than any bucket when it was written.
func overdrawn(c *cells.Cell) bool { return c.Value&overdrawnBit != 0 }

// load returns the state in c. Under another PassTime a limit may be one whose counts
// last for a pass's life, or no longer be one. So a cell says which it was: what was used in
// a life counts as used now.
func (r *rule) load(now int64, c *cells.Cell) State {
	switch {
	case r.interval > 0:
		return State{At: int64(c.Value & (1<<markBits - 1))}
	case c.Value&usedInLife != 0:
		return State{At: now / r.window, Cur: uint32(c.Value)}
	}
	return State{
		At:   int64(c.Expires/uint32(r.seconds)) - 2,
		Cur:  uint32(c.Value >> 32),
		Prev: uint32(c.Value),
	}
}

// store writes s to c at now. A pass that ends, in Unix seconds, is remembered until then and
// no longer: otherwise dead passes would fill the memory of a day's limit for two days.
func (r *rule) store(now int64, c *cells.Cell, s State, ends int64) {
	c.Expires = uint32(r.expires(s))
	switch {
	case r.interval > 0:
		if ends > 0 {
			c.Expires = min(c.Expires, uint32(ends))
		}
		// A debt that is larger than this bucket can be owed is another tier's.
		owes := uint64(max(r.empties, s.At-now))
		c.Value = uint64(s.At)&(1<<markBits-1) | uint64(bits.Len64(owes))<<markBits
		if s.Cur > 0 {
			c.Value |= overdrawnBit
		}
	case r.life > 0:
		c.Expires, c.Value = uint32(ends), usedInLife|uint64(s.Cur)
	default:
		c.Value = uint64(s.Cur)<<32 | uint64(s.Prev)
	}
}

// remembered prepares a state of our own memory, which cannot be dismissed: a
// clock that has stepped back must not hand out a fresh quota. What was counted
// further ahead than the skew allowed is moved to the present window, its
// fuller window for its present one; a mark that no client could owe when it
// was written is moved to where its writer's bucket is spent, or the largest of all
// tiers, if that has become smaller. (Keeping it as it is until the clock is there
// again would lock clients out for as long as the clock was off.)
func (r *rule) remembered(now int64, c *cells.Cell) (s State, moved bool) {
	most := r.owes
	if overdrawn(c) {
		most += r.overdraft(r.owes)
	}
	return r.held(now, c, min(owed(c), most))
}

// held is the content of a cell, and owes the largest part of it that can be owed.
func (r *rule) held(now int64, c *cells.Cell, owes int64) (s State, moved bool) {
	s = r.load(now, c)
	switch {
	case r.blank(s):
	case r.interval > 0 && s.At-now > owes+r.skew:
		moved, s.At = true, now+owes
	case r.interval == 0 && r.ahead(now, s):
		moved, s = true, State{At: now / r.window, Cur: max(s.Cur, s.Prev)}
	}
	if r.interval > 0 && overdrawn(c) {
		s.Cur = r.overdrawn(now, s.At)
	}
	return r.roll(now, s), moved
}

// roll brings what was shown to now.
func (p *Policy) roll(now int64, t *Tally) {
	for i := range p.rules {
		t[i] = p.rules[i].shown(now, t[i])
	}
}

// statuses are how the limits of a tally stand, or of a network.
type statuses = [MaxLimits]LimitStatus

// check says whether every limit in force has room, beside what is held of those that are charged
// later. It fills in Admitted, Impossible and Wait of v, which says Admitted if nothing was checked before, else what
// the limits said that were, and of each limit what is left before the charge and whether it is blocked, for status.
func (p *Policy) check(now int64, t *Tally, price Price, held int64, v *Verdict, limits *statuses) {
	for i := range p.rules {
		r, s, cost := &p.rules[i], &limits[i], price.Of(i)
		s.Shadow, s.Remaining = r.limit.Shadow, r.remaining(now, t[i])
		if r.later {
			s.Remaining -= held
		}
		if cost <= s.Remaining || cost == 0 {
			continue
		}
		s.Blocked = true
		switch {
		case s.Shadow:
		case cost > r.capacity:
			v.Admitted, v.Impossible = false, true
		default:
			v.Admitted = false
			v.Wait = max(v.Wait, r.blockedFor(now, t[i], cost))
		}
	}
	if v.Impossible {
		v.Wait = 0
	}
}

// charge charges what v has admitted. A limit that is blocked there is a shadow: it would
// have refused, and refusals charge nothing.
func (p *Policy) charge(now int64, t *Tally, price Price, v *Verdict) {
	for i := range p.rules {
		if r, cost := &p.rules[i], price.Of(i); cost > 0 && !r.later && !v.Limits[i].Blocked {
			t[i] = r.charge(now, t[i], cost)
		}
	}
}

// blockedFor returns for how long a limit blocks a cost within its capacity, in whole
// seconds. If only a reservation stands in the way, the wait is unknown: the reservation may end at once.
func (r *rule) blockedFor(now int64, s State, cost int64) time.Duration {
	return wholeSeconds(max(1, r.wait(now, s, cost)))
}

// status fills in the state of each limit, from what check has found left.
func (p *Policy) status(now int64, t *Tally, price Price, charged bool, v *Verdict) {
	for i := range p.rules {
		r, s, cost := &p.rules[i], &v.Limits[i], price.Of(i)
		r.leave(cost, charged, v.Admitted, s)
		r.reset(now, t[i], cost, s)
	}
}

// leave fills in what is left after the charge. For a limit that is charged later, reservations
// count, and the request itself if it is admitted.
func (r *rule) leave(cost int64, charged, admitted bool, s *LimitStatus) {
	if charged && !s.Blocked || r.later && admitted {
		s.Remaining -= cost
	}
	s.Remaining = max(0, s.Remaining)
}

// reset fills in when that changes.
func (r *rule) reset(now int64, t State, cost int64, s *LimitStatus) {
	switch {
	case s.Blocked && cost <= r.capacity:
		s.Reset = r.blockedFor(now, t, cost)
	case r.later && s.Remaining < r.capacity:
		s.Reset = r.blockedFor(now, t, s.Remaining+1)
	case s.Remaining < r.capacity:
		s.Reset = wholeSeconds(r.wait(now, t, s.Remaining+1))
	}
}

// Expires returns when t stops to matter, in Unix seconds: the end of the second
// window of the limit that looks furthest. It is 0 if t has counted nothing.
func (p *Policy) Expires(t *Tally) int64 {
	var last int64
	for i := range p.rules {
		if r := &p.rules[i]; !r.blank(t[i]) {
			last = max(last, r.expires(t[i]))
		}
	}
	return last
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

// record adds a cost without a check. A count goes beyond the quota, and a debt
// beyond the burst, by no more than the overdraft: what is above that is lost.
func (r *rule) record(now int64, s State, cost int64) State {
	if r.interval > 0 {
		owed := max(0, s.At-now)
		room := max(0, r.empties+r.overdraft(r.empties)-owed)
		return r.roll(now, State{At: now + owed + r.leaks(cost, room), Cur: math.MaxUint32})
	}
	count := &s.Cur
	if s.At > now/r.window && r.limit.Algorithm == SlidingWindow {
		count = &s.Prev // another clock is in the next window already; restore takes it from there
	}
	*count = uint32(min(int64(*count)+min(cost, MaxQuota), MaxQuota))
	return s
}

// restore takes back a cost that was counted at then.
func (r *rule) restore(now, then int64, s State, cost int64) State {
	if r.interval > 0 {
		// What has leaked out since is gone: to give it back as well would make room
		// for more than ever was charged at once. Nor does more than a burst come back: of a
		// cost that was settled a part may have been lost, and it would be others' that is forgiven.
		back := min(cost, r.capacity)*r.interval - max(0, now-then)
		s.At -= max(0, min(s.At-now, back))
		return r.roll(now, s)
	}
	cost = min(cost, MaxQuota)
	switch passed := s.At - then/r.window; {
	case passed == 0, r.life > 0:
		s.Cur -= min(s.Cur, uint32(cost))
	case passed == 1:
		s.Prev -= min(s.Prev, uint32(cost))
	}
	return s
}

// leaks returns the time in which cost leaks out, in µs, and at most most: the product may
// overflow.
func (r *rule) leaks(cost, most int64) int64 {
	if cost > most/r.interval {
		return most
	}
	return cost * r.interval
}

// sum adds two counts. It stops at what a tally can hold.
func sum(a, b uint32) uint32 { return uint32(min(uint64(a)+uint64(b), math.MaxInt32)) }
