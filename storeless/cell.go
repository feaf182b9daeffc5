// SPDX-License-Identifier: Apache-2.0

package storeless

// A cell is 16 bytes, a set of them four cache lines. A window state is kept as its two
// counts, its number following from expires; what a pass has used in its life as that
// number alone, below a bit that says so; a GCRA state as its time mark below
// the bit length of the time its bucket takes to empty, and whether it is overdrawn: by how
// much, the mark says.
type cell struct {
	tag     uint32
	expires uint32 // Unix second from which on the cell is free; 0: never used
	value   uint64
}

const (
	setSize  = 16
	cellSize = 16 // bytes

	// usedInLife is above the counts, of 31 bits each.
	usedInLife = 1 << 63

	// markBits are the bits of a cell's value that hold the time mark of a bucket.
	markBits = 56

	// overdrawnBit of a cell's value says that the mark is an overdraft too.
	overdrawnBit = 1 << 63
)

// free reports whether nobody needs c any more. A cell far beyond any window's
// end was written under a clock that went wrong; it must not stay taken until
// that day comes.
func (c *cell) free(now, horizon int64) bool {
	return int64(c.expires) <= now || int64(c.expires) > now+horizon
}

// owes returns how far ahead of its clock, in µs, the writer of a GCRA cell can
// have put the mark, up to a factor of two. The writer's bucket counts, not the
// reader's: tiers share a tally's cell, one of a small burst must not take the
// debt of a larger one for a fault of the clock, and a client of the small one
// must not be held to the debt of the large one after such a fault.
func (c *cell) owes() int64 { return 1 << (c.value &^ overdrawnBit >> markBits) }

// overdrawn reports whether a GCRA cell was owed more than any bucket when it was written.
func (c *cell) overdrawn() bool { return c.value&overdrawnBit != 0 }

// find returns the cell of a set that bears the tag, or nil. The search starts where
// vacant starts, so that a tally is mostly found at the first look.
func find(set []cell, first, tag uint32) *cell {
	for i := range uint32(setSize) {
		if c := &set[(first+i)%setSize]; c.tag == tag && c.expires != 0 {
			return c
		}
	}
	return nil
}

// vacant returns a cell of a set that nobody needs, or nil. The search starts at a place
// that the key gives, and so does that of find: a set is four cache lines, and those of a
// million clients come from main memory. From the front of the set, each look would touch
// three of them.
func vacant(set []cell, first uint32, now, horizon int64) *cell {
	for i := range uint32(setSize) {
		if c := &set[(first+i)%setSize]; c.free(now, horizon) {
			return c
		}
	}
	return nil
}

// mix spreads a key over all bits.
func mix(h uint64) uint64 {
	h *= 0x9e3779b97f4a7c15
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	return h ^ h>>32
}

// scale maps a uniform h to [0, n) by its high bits.
func scale(h uint64, n int) int { return int((h >> 32) * uint64(n) >> 32) }
