// SPDX-License-Identifier: Apache-2.0

package shop

import (
	"slices"

	"github.com/tallystick/tallystick/internal/cells"
	"github.com/tallystick/tallystick/internal/limiter"
)

const (
	// portBlocks is how many blocks an address may be cut into: with 16, each has 4096 ports.
	portBlocks = 16

	// ownWeight is how often a block's own level counts for its price. At the price that a
	// buyer in one block holds, its neighbours pay the eighth root of it.
	ownWeight = 8

	// leastLive is among how many blocks the leak is divided at least.
	leastLive = 4
)

// Blocks are the ledgers of one address, a cell for each block of its ports in which a
// tally was bought. A carrier that lets many subscribers share an IPv4 address gives each
// of them a block of ports (RFC 7422), which a neighbour cannot choose.
//
// A block pays for the sum of all levels or, if that is more, for eight times its own. So a
// buyer that takes all it can drives the price of its own block up, and hardly that of the
// others. All live blocks have equal parts of what leaks, a quarter at most: three
// quarters stay for the neighbours. A sale raises the sum by one, is never made below what
// the sum costs, and the sum leaks no faster than the level of an address without blocks. So
// the bound of such an address holds, whichever blocks a buyer has.
//
// Rejected: a weight of four, and a sum to which each block adds two crowds at most. With a
// Crowd of 8 a buyer with seven blocks gets 203 tallies at once where the bound is 132, and
// beside a buyer with four blocks no phone gets in, where the weight of eight lets in most. A
// ledger for each block and one for the address, each with a leak of its own, sells four times
// what leaks.
type blocks struct {
	levels [portBlocks]int64 // in parts of a sale
	mark                     // of all: they are written down together
}

// leaks is how each block leaks where n are live.
func (p *Prices) leaks(crowd, n int64) leak {
	k := p.leakOf(crowd)
	return leak{parts: k.parts, within: k.within * max(leastLive, n)}
}

// blockKeeps is the leak by which the cells of blocks are kept, the slowest there is.
func (p *Prices) blockKeeps(crowd int64) leak { return p.leaks(crowd, portBlocks) }

// blockReach is how many seconds ahead of the clock the ledger of a block may end.
func blockReach(p *Prices, crowd int64) int64 {
	return p.blockKeeps(crowd).time(p.top(crowd)/ownWeight+salePart) + cells.FarFuture
}

// blockID names the cell of a block.
func blockID(i int) uint32 { return cells.BlocksID + uint32(i) }

// sum returns the level of all blocks together.
func (b *blocks) sum() (parts int64) {
	for _, level := range b.levels {
		parts += level
	}
	return parts
}

// pays returns the level that a block pays for.
func (b *blocks) pays(i int) int64 { return max(ownWeight*b.levels[i], b.sum()) }

// after returns the blocks so many seconds later. Where a block runs dry, the others have
// larger parts of the leak from the next second on.
func (b blocks) after(seconds int64, p *Prices, crowd int64) blocks {
	for seconds > 0 {
		live, least := int64(0), int64(maxLevel)
		for _, level := range b.levels {
			if level > 0 {
				live, least = live+1, min(least, level)
			}
		}
		if live == 0 {
			break
		}
		k := p.leaks(crowd, live)
		passed := min(seconds, k.time(least))
		gone := k.in(passed)
		for i := range b.levels {
			b.levels[i] = max(0, b.levels[i]-gone)
		}
		seconds -= passed
	}
	return b
}

// now returns the blocks as they are now. A request that waited for the lock is of the time
// of the last sale.
func (b blocks) now(now int64, p *Prices, crowd int64) blocks {
	b = b.after(now-b.at, p, crowd)
	b.at = max(b.at, now)
	return b
}

// opens returns in how many seconds a block pays for top, 0 if it does.
func (b *blocks) opens(now int64, p *Prices, crowd int64, i int) int64 {
	top, passed := p.top(crowd), max(0, now-b.at)
	open := func(seconds int64) bool {
		then := b.after(passed+seconds, p, crowd)
		return then.pays(i) <= top
	}
	if open(0) {
		return 0
	}
	shut, wait := int64(0), int64(1)
	for !open(wait) {
		shut, wait = wait, 2*wait
	}
	for wait-shut > 1 {
		if middle := (shut + wait) / 2; open(middle) {
			wait = middle
		} else {
			shut = middle
		}
	}
	return wait
}

// fit cuts down levels that are higher than any that p can make: they are from another
// tariff, and must not cost more than the highest price.
func (b *blocks) fit(p *Prices, crowd int64) {
	highest := p.top(crowd) + salePart
	if sum := b.sum(); sum > highest {
		for i := range b.levels {
			b.levels[i] = b.levels[i] * highest / sum
		}
	}
}

// readBlocks returns the ledgers of an address, and corrects them and their cells for
// a clock that has stepped. The stripe is locked.
func (t table) readBlocks(now int64, p *Prices, address limiter.Key, crowd int64) (b blocks) {
	var last *cells.Cell
	for i := range b.levels {
		c := t.Find(uint64(address), blockID(i), 0)
		if c == nil {
			continue
		}
		var l ledger
		l.load(c, p.blockKeeps(crowd), maxLevel)
		if b.levels[i] = l.level; l.level > 0 {
			last, b.at = c, l.at
		}
	}
	if last == nil {
		return blocks{mark: mark{at: now}}
	}
	if last.Value&wasAhead != 0 {
		b.ahead = max(0, int64(last.Expires)-p.blockKeeps(crowd).time(slices.Max(b.levels[:])))
	}
	b.fit(p, crowd)
	moved := b.set(now)
	if b.ahead > 0 {
		if then := b.now(now, p, crowd); then.sum() == 0 {
			b, moved = blocks{mark: mark{at: now}}, true // as one ledger
		}
	}
	if moved {
		t.storeBlocks(p, address, crowd, &b)
	}
	return b
}

// storeBlocks writes down the ledgers of an address, all that have cells. No cell is free before
// all have leaked: one that is gone would have had no part of the leak, and the others
// would have had it.
func (t table) storeBlocks(p *Prices, address limiter.Key, crowd int64, b *blocks) {
	highest := ledger{level: slices.Max(b.levels[:]), mark: b.mark}
	for i, level := range b.levels {
		c := t.Find(uint64(address), blockID(i), 0)
		if c == nil {
			continue
		}
		l := ledger{level: level, mark: b.mark}
		if l.store(c, p.blockKeeps(crowd)); level > 0 {
			var all cells.Cell
			highest.store(&all, p.blockKeeps(crowd))
			c.Expires = all.Expires
		}
	}
}
