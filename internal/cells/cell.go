// SPDX-License-Identifier: Apache-2.0

// Package cells is the memory of an instance, below what is counted in it: sets of cells of a fixed
// size, the locks of them, and the table of what was paid for, in which package limiter spends proofs
// and package sale sells tallies.
package cells

// A Cell is 16 bytes, a set of them four cache lines.
type Cell struct {
	Tag     uint32
	Expires uint32 // Unix second from which on the cell is free; 0: never used
	Value   uint64
}

const (
	SetSize = 16
	Size    = 16 // bytes

	// FarFuture is how many seconds later than anything in use can reach a cell may
	// end: one that ends later yet was written under a wrong clock.
	FarFuture = 24 * 60 * 60
)

// Free reports whether nobody needs c any more. A cell far beyond any window's
// end was written under a clock that went wrong; it must not stay taken until
// that day comes.
func (c *Cell) Free(now, horizon int64) bool {
	return int64(c.Expires) <= now || int64(c.Expires) > now+horizon
}

// Find returns the cell of a set that bears the tag, or nil. The search starts where
// Vacant starts, so that a tally is mostly found at the first look.
func Find(set []Cell, first, tag uint32) *Cell {
	for i := range uint32(SetSize) {
		if c := &set[(first+i)%SetSize]; c.Tag == tag && c.Expires != 0 {
			return c
		}
	}
	return nil
}

// Vacant returns a cell of a set that nobody needs, or nil. The search starts at a place
// that the key gives, and so does that of Find: a set is four cache lines, and those of a
// million clients come from main memory. From the front of the set, each look would touch
// three of them.
func Vacant(set []Cell, first uint32, now, horizon int64) *Cell {
	for i := range uint32(SetSize) {
		if c := &set[(first+i)%SetSize]; c.Free(now, horizon) {
			return c
		}
	}
	return nil
}

// Mix spreads a key over all bits.
func Mix(h uint64) uint64 {
	h *= 0x9e3779b97f4a7c15
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	return h ^ h>>32
}

// Scale maps a uniform h to [0, n) by its high bits.
func Scale(h uint64, n int) int { return int((h >> 32) * uint64(n) >> 32) }
