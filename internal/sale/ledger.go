// SPDX-License-Identifier: Apache-2.0

package sale

import "github.com/tallystick/tallystick/internal/cells"

// A table is where a memory records sales.
type table struct{ *cells.Table }

// A ledger is the level of a buyer's sales, in a cell of the memory: the level after
// the last sale, and the time of that sale. Each reader computes the leak since then,
// by its own prices. So the level survives a change of the [Tariff], and the new
// tariff says what it costs and how it leaks.
//
// Rejected: to store the time at which all has leaked, as a bucket does. It is smaller,
// but it counts time, not sales: a larger SalesPerHour would turn an hour's debt of a few
// sales into the highest price, and a smaller one would forget them. Rejected after a
// trial: slots of counts, as in a sliding window. They forget a third of the sales at
// once, and the price falls from the highest to the lowest.
type ledger struct {
	level int64 // in parts of a sale
	at    int64 // Unix second of the last sale

	// ahead is the second of the last sale if the clock has stepped back since, by at
	// most a day; else 0. When the clock reaches it again, the level goes on from
	// there: a step forward is not elapsed time.
	ahead int64
}

const (
	// wasAhead is the bit of a cell, above its level, that is set if ahead is not 0.
	wasAhead = 1 << 63

	// lateSlack is by how many seconds a request that waited for the lock may be
	// older than the last sale. More means that the clock has stepped back.
	lateSlack = 5
)

// load reads a ledger. A level above p's highest is from another tariff. It is cut, so
// that it does not cost more than the highest price.
func (l *ledger) load(c *cells.Cell, k leak, highest int64) {
	level := int64(c.Value >> 32 & maxLevel)
	*l = ledger{level: min(level, highest), at: int64(uint32(c.Value))}
	if c.Value&wasAhead != 0 {
		l.ahead = max(0, int64(c.Expires)-k.time(level))
	}
}

// store writes a ledger. Its cell is free when all has leaked.
func (l *ledger) store(c *cells.Cell, k leak) {
	c.Value = uint64(l.level)<<32 | uint64(uint32(l.at))
	if l.ahead > 0 {
		c.Value |= wasAhead
	}
	c.Expires = uint32(min(max(l.at, l.ahead)+k.time(l.level), 1<<32-1))
}

// set corrects for a clock that has stepped back, or forward again, and reports
// whether the ledger must be stored. Unstored, every reader would correct the step
// anew, and the level would not leak until the clock is there again.
func (l *ledger) set(now int64) (moved bool) {
	if l.ahead > 0 && now >= l.ahead {
		l.at, l.ahead, moved = l.ahead, 0, true
	}
	if now < l.at-lateSlack {
		l.ahead, l.at, moved = max(l.ahead, l.at), now, true
	}
	if l.ahead > now+cells.FarFuture {
		l.ahead, moved = 0, true
	}
	return moved
}

// now returns what has not leaked. A request that waited for the lock counts as made at
// the last sale.
func (l *ledger) now(now int64, k leak) int64 {
	passed := max(0, now-l.at)
	if k.time(l.level) <= passed {
		return 0
	}
	return l.level - k.in(passed)
}

// record counts a sale.
func (l *ledger) record(now int64, k leak) {
	l.level, l.at = l.now(now, k)+salePart, max(l.at, now)
}

// hear counts what peers have sold until last, up to the highest level.
func (l *ledger) hear(sold, last int64, k leak, highest int64) {
	l.level, l.at = min(l.now(last, k)+min(sold, highest/salePart+1)*salePart, highest), max(l.at, last)
}

// opens returns in how many seconds the level falls to top; 0 if it has.
func (l *ledger) opens(now int64, k leak, top int64) int64 {
	if l.level <= top {
		return 0
	}
	return max(0, l.at+k.time(l.level-top)-now)
}

// read returns the ledger of a cell, and corrects both for a clock that has stepped.
func (p *Prices) read(now int64, c *cells.Cell, crowd int64) (l ledger) {
	if c == nil {
		return ledger{at: now}
	}
	k := p.leakOf(crowd)
	l.load(c, k, p.top(crowd)+salePart)
	moved := l.set(now)
	if l.ahead > 0 && l.now(now, k) == 0 {
		l, moved = ledger{at: now}, true // what has leaked does not come back with the clock
	}
	if moved {
		l.store(c, k)
	}
	return l
}

// ledgerReach is how many seconds ahead of the clock a ledger may end.
func ledgerReach(p *Prices, crowd int64) int64 {
	return p.leakOf(crowd).time(p.top(crowd)+salePart) + cells.FarFuture
}
