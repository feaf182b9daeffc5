// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"math/bits"

	"github.com/tallystick/tallystick/internal/cells"
)

// What becomes of a newcomer to a full set.
//
// It takes the cell of the smallest count, and what that cell had counted is not
// forgotten: it raises the set's floor, from which every tally begins that has no cell
// in the set. So a tally is counted by its cell, or by a floor that is no lower than
// what it had when it lost its cell: no tally is ever counted too low, in whatever order
// cells are taken. (Space-Saving, of Metwally, Agrawal and El Abbadi, 2005, in which the
// newcomer goes on from the count of the cell that it takes, needs no floor: its counts
// only grow. Here they fade, each at its own speed, and the smallest of all can be
// smaller than one that was taken before.)
//
// The floor is no higher than the smallest count in the set was at some time: to raise
// it, all cells of the set must be raised.

type newcomer struct {
	provider uint64 // 0: none
	level    uint32 // 0: a tally; from 1 on its networks
	ends     int64  // the Unix second at which a pass is forgotten; 0: it is none
}

// newcomer returns f as one that may be new to the memory.
func (f *Candidate) newcomer(now int64, p *Policy) newcomer {
	g := newcomer{provider: f.Provider}
	switch {
	case p.life == 0:
	case f.Ends.IsZero():
		g.ends = (now+p.life)/1_000_000 + deathSlack
	default:
		g.ends = f.Ends.Unix() + deathSlack
	}
	return g
}

// deathSlack is for how many seconds more a pass is remembered: the clock of the instance
// that sold it may be ahead.
const deathSlack = 60

// network returns the i-th network of a newcomer.
func (g newcomer) network(i int) newcomer {
	g.level = uint32(1 + i)
	return g
}

// hash returns the provider's number in the memory, by which its claims are counted, and
// the tag of the one cell in a full set that its newcomers share once it has claimed
// a quarter.
func (g newcomer) hash(salt uint64) (number uint64, tag uint32) {
	number = cells.Provider(g.provider, salt)
	return number, uint32(number) + g.level
}

// begin returns what a tally that has no cell begins with, rolled to now. The stripe
// is locked.
func (c *counts) begin(now int64, r *rule, col *column, at *slot, g newcomer) State {
	floor := &col.floors[at.set]
	if floor.Expires == 0 { // no cell of this set has ever been taken
		return State{}
	}
	if floor.Free(now/1_000_000, col.reach.Load()) { // it has faded, or a clock was wrong
		*floor = cells.Cell{Expires: 1}
	}
	start, moved := r.held(now, floor, owed(floor))
	if moved {
		r.store(now, floor, start, 0)
	}
	if g.provider != 0 {
		_, tag := g.hash(c.salt)
		if shared := cells.Find(at.in(col), at.first, tag); shared != nil {
			s, moved := r.remembered(now, shared)
			if moved {
				r.store(now, shared, s, 0)
			}
			start = r.merge(start, s)
		}
	}
	if r.beyond(now, start) { // it is a network's
		start.At = now + r.most(start)
	}
	return start
}

// claim returns the cell in which a tally is counted: its own, or a free one; in a full
// set the cell of the smallest count or, where the tally's provider has claimed a quarter,
// one that all its newcomers share. The stripe is locked.
func (c *counts) claim(now int64, r *rule, col *column, at *slot, g newcomer) *cells.Cell {
	horizon, set := col.reach.Load(), at.in(col)
	if own := cells.Find(set, at.first, at.tag); own != nil {
		return own
	}
	var (
		number uint64
		tag    uint32
		window = now / r.window
	)
	if g.provider != 0 {
		number, tag = g.hash(c.salt)
	}
	if free := cells.Vacant(set, at.first, now/1_000_000, horizon); free != nil {
		if g.provider != 0 {
			col.claims.Add(window, number, 1)
		}
		*free = cells.Cell{Tag: at.tag}
		return free
	}
	if g.provider == 0 || !col.claims.Busy(window, number, len(col.cells)) {
		tag = at.tag
	} else if shared := cells.Find(set, at.first, tag); shared != nil {
		return shared
	}
	if g.provider != 0 {
		col.claims.Add(window, number, 1)
	}
	least := r.least(now, set)
	r.raise(now, &col.floors[at.set], least)
	*least = cells.Cell{Tag: tag}
	return least
}

// least returns the cell of the smallest count.
func (r *rule) least(now int64, set []cells.Cell) *cells.Cell {
	least, weight := &set[0], r.weight(now, &set[0])
	for i := 1; i < len(set); i++ {
		if w := r.weight(now, &set[i]); w < weight {
			least, weight = &set[i], w
		}
	}
	return least
}

// weight orders cells by what they count now: of windows in 2⁻³² of a request.
func (r *rule) weight(now int64, c *cells.Cell) uint64 {
	s := r.roll(now, r.load(now, c))
	if r.interval > 0 {
		return uint64(s.At)
	}
	left := uint64(r.window - min(r.window, r.elapsed(now, s)))
	share, _ := bits.Div64(left>>32, left<<32, uint64(r.window))
	return uint64(s.Cur)<<32 + uint64(s.Prev)*share
}

// raise raises a floor to what a cell has counted that is about to be taken.
func (r *rule) raise(now int64, floor, taken *cells.Cell) {
	s, _ := r.held(now, taken, owed(taken))
	ends := taken.Expires
	if floor.Expires != 0 {
		was, _ := r.held(now, floor, owed(floor))
		s, ends = r.merge(s, was), max(ends, floor.Expires)
	}
	r.store(now, floor, s, int64(ends))
}

// used returns how much cost s stands for now; more than the capacity where it was
// lowered. s is rolled.
func (r *rule) used(now int64, s State) int64 { return r.capacity - r.remaining(now, s) }
