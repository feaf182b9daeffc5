package storeless

import "math/bits"

// markBits are the bits of a cell's value that hold the time mark of a bucket.
const markBits = 56

// A cell is 16 bytes, a set four cache lines. A window state is kept as its two
// counts, its number following from expires; a GCRA state as its time mark below
// the bit length of the time its bucket takes to empty.
type cell struct {
	tag     uint32
	expires uint32 // Unix second from which on the cell is free; 0: never used
	value   uint64
}

// free reports whether nobody needs c any more. A cell far beyond any window's
// end was written under a clock that went wrong; it must not stay taken until
// that day comes.
func (c *cell) free(now, horizon int64) bool {
	return int64(c.expires) <= now || int64(c.expires) > now+horizon
}

// owes returns how far ahead of its clock, in µs, the writer of a GCRA cell can
// have put the mark, up to a factor of two. The writer's bucket counts, not the
// reader's: tiers share a family's cell, one of a small burst must not take the
// debt of a larger one for a fault of the clock, and a client of the small one
// must not be held to the debt of the large one after such a fault.
func (c *cell) owes() int64 { return 1 << (c.value >> markBits) }

// load returns the state in c.
func (r *rule) load(c *cell) State {
	if r.interval > 0 {
		return State{At: int64(c.value & (1<<markBits - 1))}
	}
	return State{
		At:   int64(c.expires)/r.seconds - 2,
		Cur:  uint32(c.value >> 32),
		Prev: uint32(c.value),
	}
}

// store writes s to c at now.
func (r *rule) store(c *cell, now int64, s State) {
	c.expires = uint32(r.expires(s))
	if r.interval > 0 {
		// A debt that is larger than this bucket can be owed is another tier's.
		owes := uint64(max(r.empties, s.At-now))
		c.value = uint64(s.At)&(1<<markBits-1) | uint64(bits.Len64(owes))<<markBits
		return
	}
	c.value = uint64(s.Cur)<<32 | uint64(s.Prev)
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
