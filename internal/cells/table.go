// SPDX-License-Identifier: Apache-2.0

package cells

import "sync/atomic"

// A Table holds the cells that were paid for with work. It evicts nothing live: a buyer
// that finds no room is sold nothing.
type Table struct {
	Stripes
	Claims Claims        // of sales
	Salt   uint64        // of the providers
	Full   atomic.Uint64 // how often there was no room
	Cells  []Cell
	sets   int // of each stripe
	reach  atomic.Int64
}

// Cells that hold no limit's count, by what they hold.
const (
	SalesID = 1 + iota // a buyer's ledger
	HeldID             // a tally that this instance has sold
	SpentID            // a proof that has bought a request
)

// Make makes a table of at least the given number of cells.
func (t *Table) Make(cells int, salt uint64) {
	t.Salt = salt
	t.Stripes, t.sets = StripesFor((cells + SetSize - 1) / SetSize)
	t.Cells = make([]Cell, len(t.Stripes)*t.sets*SetSize)
}

// Size returns how many bytes it takes.
func (t *Table) Size() int { return len(t.Stripes)*StripeSize + len(t.Cells)*Size + ClaimsSize }

// Find returns the cell of a key, or nil. With a provider it returns the cell that
// the provider's newcomers share in the set. The stripe is locked.
func (t *Table) Find(key uint64, id uint32, provider uint64) *Cell {
	set, first, tag := t.Place(key, id, provider)
	return Find(set, first, tag)
}

// Claim returns the same cell. It takes a free one if need be, and returns nil if
// the set is full. The stripe is locked.
func (t *Table) Claim(now int64, key uint64, id uint32, provider uint64, horizon int64) *Cell {
	set, first, tag := t.Place(key, id, provider)
	if c := Find(set, first, tag); c != nil {
		return c
	}
	c := Vacant(set, first, now, horizon)
	if c != nil {
		*c = Cell{Tag: tag}
	}
	return c
}

// Place returns the set of a key, where to begin in it, and the tag of the cell.
func (t *Table) Place(key uint64, id uint32, provider uint64) (set []Cell, first, tag uint32) {
	h := Mix(key ^ uint64(id)<<32 ^ uint64(id))
	at := (t.Of(key)*t.sets + Scale(h, t.sets)) * SetSize
	tag = uint32(h)
	if provider != 0 {
		tag = uint32(Provider(provider, t.Salt)) + id
	}
	return t.Cells[at : at+SetSize : at+SetSize], uint32(h>>28) % SetSize, tag
}

// Horizon returns how many seconds ahead of the clock any cell may end, one of
// the given reach included. A short ledger must not judge the cells of a long
// one to be from a wrong clock.
func (t *Table) Horizon(reach int64) int64 { return Furthest(&t.reach, reach) }

// Furthest returns the largest reach so far, and remembers it.
func Furthest(seen *atomic.Int64, reach int64) int64 {
	for {
		far := seen.Load()
		if reach <= far {
			return far
		}
		if seen.CompareAndSwap(far, reach) {
			return reach
		}
	}
}
