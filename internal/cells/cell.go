// SPDX-License-Identifier: Apache-2.0

// Package cells is the memory of an instance: sets of cells of a fixed size, their locks, and the
// table of paid entries. Package limiter spends proofs in that table, and package sale sells tallies.
package cells

// A Cell is 16 bytes; a set of them fills four cache lines.
type Cell struct {
	Tag     uint32
	Expires uint32 // Unix second from which on the cell is free; 0: never used
	Value   uint64
}

const (
	SetSize = 16
	Size    = 16 // bytes

	// FarFuture is how many seconds after the last horizon in use a cell may end. A
	// cell that ends later was written under a wrong clock.
	FarFuture = 24 * 60 * 60
)

// Free reports whether c has expired. A cell far beyond any window's end was
// written under a wrong clock. It must not stay taken until that day.
func (c *Cell) Free(now, horizon int64) bool {
	return int64(c.Expires) <= now || int64(c.Expires) > now+horizon
}

// Find returns the cell with the tag, or nil. It starts where Vacant starts, so the
// first look usually finds a tally.
func Find(set []Cell, first, tag uint32) *Cell {
	for i := range uint32(SetSize) {
		if c := &set[(first+i)%SetSize]; c.Tag == tag && c.Expires != 0 {
			return c
		}
	}
	return nil
}

// Vacant returns a free cell of a set, or nil. Like Find it starts at a place that the
// key gives. The four cache lines of a set come from main memory when there are a million
// clients; a search from the front would touch three of them.
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
