// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tallystick/tallystick/internal/cells"
)

// counts are the cells of all limits. Each limit has a column of its own, and a tally
// has its cells in the set of the same number in each: sets never mix limits, for the
// cells of a day's limit live for two days and would leave none to the minute's.
//
// Tallies that are bought have counts apart from all others. Addresses are to be had for
// nothing, and a flood of them must not fill the cells of those that have paid. And what a
// pass has used does not fade with its windows, as all other counts do: a floor that both
// had in common would forget it.
type counts struct {
	stripes cells.Stripes
	sets    int    // of each stripe
	salt    uint64 // of the providers

	columns  atomic.Pointer[[]*column]
	adopting sync.Mutex // guards the making of columns
	spare    []*column  // made, and of no limit yet
}

// A column is the cells of one limit.
type column struct {
	id     uint32
	cells  []cells.Cell
	floors []cells.Cell // of each set: the most that any tally had whose cell was taken
	claims cells.Claims
	reach  atomic.Int64
}

const (
	// cellsPerClient is for one limit. A client takes a cell, and one of IPv6 up to three:
	// its /64, its /56 and its /48.
	cellsPerClient = 6

	// boughtPerClient is for tallies that are bought. They belong to no network, and take one cell.
	boughtPerClient = 3
)

// make allocates the cells of each limit, and the columns of the limits.
func (c *counts) make(size, limits int, salt uint64) {
	c.stripes, c.sets = cells.StripesFor((size + cells.SetSize - 1) / cells.SetSize)
	c.salt = salt
	c.columns.Store(new([]*column))
	for range limits {
		c.spare = append(c.spare, c.makeColumn())
	}
}

func (c *counts) makeColumn() *column {
	sets := len(c.stripes) * c.sets
	return &column{cells: make([]cells.Cell, sets*cells.SetSize), floors: make([]cells.Cell, sets)}
}

func (c *counts) size() int {
	c.adopting.Lock()
	defer c.adopting.Unlock()
	sets, columns := len(c.stripes)*c.sets, len(c.spare)+len(*c.columns.Load())
	return len(c.stripes)*cells.StripeSize + columns*(sets*(cells.SetSize+1)*cells.Size+cells.ClaimsSize)
}

// column returns the cells of a limit, which is the i-th of its policy.
func (c *counts) column(i int, id uint32) *column {
	columns := *c.columns.Load()
	if i < len(columns) && columns[i].id == id {
		return columns[i]
	}
	for _, col := range columns {
		if col.id == id {
			return col
		}
	}
	return c.adopt(id)
}

// adopt gives a new limit a column. Limits come from a configuration,
// not from clients, so this grows with nothing that a client does.
func (c *counts) adopt(id uint32) *column {
	c.adopting.Lock()
	defer c.adopting.Unlock()
	columns := *c.columns.Load()
	for _, col := range columns {
		if col.id == id {
			return col
		}
	}
	col := c.take(id)
	columns = append(columns[:len(columns):len(columns)], col)
	c.columns.Store(&columns)
	return col
}

// take returns a column that is no limit's yet.
func (c *counts) take(id uint32) *column {
	var col *column
	if n := len(c.spare); n > 0 {
		col, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		col = c.makeColumn()
	}
	col.id = id
	return col
}

// retain keeps the columns of the limits of some policies, in their order, and no other: of
// passes, and those that are alive, or where alive is nil of all others. One that is let go of
// is not used again: a request that is under way may still write to it.
func (c *counts) retain(policies []*Policy, alive func(*column) bool) {
	c.adopting.Lock()
	defer c.adopting.Unlock()
	known := map[uint32]*column{}
	for _, col := range *c.columns.Load() {
		known[col.id] = col
	}
	var columns []*column
	for _, p := range policies {
		for i := range p.rules {
			id := p.rules[i].id
			if p.life > 0 != (alive != nil) || slices.ContainsFunc(columns, func(col *column) bool { return col.id == id }) {
				continue
			}
			col := known[id]
			if col == nil {
				col = c.take(id)
			}
			columns = append(columns, col)
		}
	}
	for _, col := range *c.columns.Load() {
		if alive != nil && !slices.Contains(columns, col) && alive(col) {
			columns = append(columns, col)
		}
	}
	c.spare = nil
	c.columns.Store(&columns)
}

// alive reports whether a column holds a count that still matters. The stripes are locked.
func (col *column) alive(now int64) bool {
	needed := func(c cells.Cell) bool { return !c.Free(now, col.reach.Load()) }
	return slices.ContainsFunc(col.cells, needed) || slices.ContainsFunc(col.floors, needed)
}

// A slot is where a tally has its cells, in every column.
type slot struct {
	stripe, set int
	first, tag  uint32
}

// place returns the slot of a tally. Key is uniform.
func (c *counts) place(k Key) slot {
	stripe, h := c.stripes.Of(uint64(k)), cells.Mix(uint64(k))
	return slot{stripe, stripe*c.sets + cells.Scale(h, c.sets), uint32(h>>28) % cells.SetSize, uint32(h)}
}

// in returns the set of the slot.
func (s *slot) in(col *column) []cells.Cell {
	return col.cells[s.set*cells.SetSize : (s.set+1)*cells.SetSize : (s.set+1)*cells.SetSize]
}

func (s *slot) find(col *column) *cells.Cell { return cells.Find(s.in(col), s.first, s.tag) }

// tallyCells are the columns in which a tally has its cells, and the cells as far as it has any.
type tallyCells [MaxLimits]struct {
	col  *column
	cell *cells.Cell
}

// lookup notes the cells of a tally. All cells of a request are looked for before any is
// read: so they come from main memory together, and not one after the other.
func (c *counts) lookup(p *Policy, at *slot, known *tallyCells) {
	for i := range p.rules {
		known[i].col = c.column(i, p.rules[i].id)
		known[i].cell = at.find(known[i].col)
	}
}

// fill returns the share of the cells that are in use, of the limit that has the most.
func (c *counts) fill(now int64) float64 {
	const sample = 256
	sets := len(c.stripes) * c.sets
	step := max(1, sets/sample)
	fill := 0.0
	for _, col := range *c.columns.Load() {
		used, all, reach := 0, 0, col.reach.Load()
		for set := 0; set < sets; set += step {
			lock := &c.stripes[set/c.sets]
			lock.Lock()
			for i := range cells.SetSize {
				if !col.cells[set*cells.SetSize+i].Free(now, reach) {
					used++
				}
			}
			lock.Unlock()
			all += cells.SetSize
		}
		fill = max(fill, float64(used)/float64(all))
	}
	return fill
}
