// SPDX-License-Identifier: Apache-2.0

package storeless

import "sync/atomic"

// A table is the cells for what was paid for with work. Nothing live is evicted from it:
// who finds no room is sold nothing.
type table struct {
	stripes
	cells  []cell
	sets   int // of each stripe
	reach  atomic.Int64
	salt   uint64 // of the providers
	claims claims // of sales
}

// Cells that hold no limit's count, by what they hold.
const (
	salesID  = 1 + iota // a buyer's ledger
	heldID              // a tally that this instance has sold
	spentID             // a proof that has bought a request
	blocksID            // the first block's ledger of a buyer, and then the others'
)

// make makes the table of at least so many cells.
func (t *table) make(cells int, salt uint64) {
	t.salt = salt
	t.stripes, t.sets = stripesFor((cells + setSize - 1) / setSize)
	t.cells = make([]cell, len(t.stripes)*t.sets*setSize)
}

func (t *table) size() int { return len(t.stripes)*stripeSize + len(t.cells)*cellSize + claimsSize }

// find returns the cell of a key, or nil: its own or, with a provider, that which the
// provider's newcomers share in its set. The stripe is locked.
func (t *table) find(k Key, id uint32, provider uint64) *cell {
	set, first, tag := t.place(k, id, provider)
	return find(set, first, tag)
}

// claim returns the same cell, taking a free one if need be, or nil if the set is
// full. The stripe is locked.
func (t *table) claim(now int64, k Key, id uint32, provider uint64, horizon int64) *cell {
	set, first, tag := t.place(k, id, provider)
	if c := find(set, first, tag); c != nil {
		return c
	}
	c := vacant(set, first, now, horizon)
	if c != nil {
		*c = cell{tag: tag}
	}
	return c
}

// place returns the set of a key, where to begin in it, and the tag of the cell.
func (t *table) place(k Key, id uint32, provider uint64) (set []cell, first, tag uint32) {
	h := mix(uint64(k) ^ uint64(id)<<32 ^ uint64(id))
	at := (t.stripe(k)*t.sets + scale(h, t.sets)) * setSize
	tag = uint32(h)
	if provider != 0 {
		_, tag = guest{provider: provider, level: id}.hash(t.salt)
	}
	return t.cells[at : at+setSize : at+setSize], uint32(h>>28) % setSize, tag
}

// horizon returns how many seconds ahead of the clock the cells of anything
// seen so far may end, that of reach included. One short ledger must not take
// the cells of a long one for those of a wrong clock.
func (t *table) horizon(reach int64) int64 { return furthest(&t.reach, reach) }

// furthest returns the larger of what was seen so far and of reach, and remembers it.
func furthest(seen *atomic.Int64, reach int64) int64 {
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

// lock locks the stripes of a table.
func (l *locks) lock(t *table) { l.hold(t.stripes) }

func (l *locks) unlock(t *table) { l.release(t.stripes) }
