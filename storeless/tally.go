package storeless

import (
	"math/bits"
	"time"
)

// A State is what one limit has counted.
//
// For the window algorithms, At is the number of the window since the Unix
// epoch, Cur what was used in it, and Prev what was used in the window before.
// For GCRA, At is the theoretical arrival time in microseconds since the epoch,
// and the counts are zero. Microseconds, because marks then stay exact in the
// float64 integers of JavaScript and Lua. The zero State has counted nothing.
type State struct {
	At        int64
	Cur, Prev uint32
}

// A Tally is the state of a policy's limits for one family of tokens, in the
// policy's order; what lies beyond [Policy.Len] is zero. It says what was used,
// never what remains, so a changed quota applies to it at once.
type Tally [MaxLimits]State

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

// remembered prepares a state of our own memory, which cannot be dismissed: a
// clock that has stepped back must not hand out a fresh quota. What was counted
// further ahead than the skew allowed is moved to the present window, its
// fuller window for its present one; a mark that nobody could owe when it was
// written is moved to where its writer's bucket is spent, or the largest of all
// tiers, if that has become smaller. (Keeping it as it is until the clock is there
// again would lock clients out for as long as the clock was off.)
func (r *rule) remembered(now int64, c *cell) (s State, moved bool) {
	s = r.load(c)
	switch {
	case r.blank(s):
	case r.interval > 0 && s.At-now > min(c.owes(), r.owes)+r.skew:
		moved, s.At = true, now+min(c.owes(), r.owes)
	case r.interval == 0 && r.ahead(now, s):
		moved, s = true, State{At: now / r.window, Cur: max(s.Cur, s.Prev)}
	}
	return r.roll(now, s), moved
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

// Merge returns the element-wise maximum of two tallies shown at now, after
// both are rolled to the present. Merging can only raise a tally, so a rolled
// back, forked or older one is harmless, and never an error. Windows too far
// ahead of now, min(5 s, window/10), are as if absent; the marks of buckets stay
// as they are, for the decision to judge.
func (p *Policy) Merge(now time.Time, a, b Tally) Tally {
	var merged Tally
	us := micros(now)
	for i := range p.rules {
		r := &p.rules[i]
		merged[i] = r.merge(r.seen(us, a[i]), r.seen(us, b[i]))
	}
	return merged
}

// Exceeds reports whether a client that showed b has something to learn from a:
// that a says more, or that b has a mark from a clock that went wrong, which a has
// not. (Without the news it would show that mark, and be cut down to a spent
// bucket, until the time of that clock has come.) Both are taken as they stand at
// now.
func (p *Policy) Exceeds(now time.Time, a, b Tally) bool {
	us := micros(now)
	for i := range p.rules {
		r := &p.rules[i]
		mine := r.shown(us, a[i])
		if r.merge(mine, r.shown(us, b[i])) != r.shown(us, b[i]) {
			return true
		}
		if r.beyond(us, b[i]) && !r.beyond(us, a[i]) {
			return true
		}
	}
	return false
}

// Life returns for how long a tally that is charged now may matter, at the most.
func (p *Policy) Life() time.Duration {
	var life time.Duration
	for i := range p.rules {
		r := &p.rules[i]
		life = max(life, 2*r.limit.Window+time.Duration(r.empties)*time.Microsecond)
	}
	return life
}

// Expires returns when t stops to matter, in Unix seconds: the end of the second
// window of the limit that looks furthest. It is 0 if t has counted nothing.
func (p *Policy) Expires(t Tally) int64 {
	var last int64
	for i := range p.rules {
		if r := &p.rules[i]; !r.blank(t[i]) {
			last = max(last, r.expires(t[i]))
		}
	}
	return last
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
