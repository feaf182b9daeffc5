// SPDX-License-Identifier: Apache-2.0

package storeless

import "time"

// A Buyer is an identity that buys a tally, or a network it belongs to.
type Buyer struct {
	Key Key

	// Crowds is how many times the crowd of an identity is expected in it: 1 for an
	// identity. Less counts as 1, and more than a cell of the memory can count as that.
	Crowds int64

	// Block is the block of an address's ports that it buys from, 1 to 16; 0 if it has
	// no blocks. More counts as 16. A block pays for what all have bought or, if
	// that is more, for eight times what it has itself, and has at most a quarter of
	// what leaks. Sales with a block and without one are counted apart. Networks have
	// no blocks: only the first buyer's counts.
	Block uint8
}

// MaxBuyers is how many buyers a sale may have: an identity, its /56 and its /48.
const MaxBuyers = 3

// A Sale is what became of an attempt to buy a tally.
type Sale struct {
	// Granted says that the tally is open: sold now, or Held by this instance
	// already, which is honoured however prices have risen since.
	Granted, Held bool

	// Price is what a tally cost at this moment, in expected hashes: the highest
	// of all buyers' prices. 0 if it was Held, and if it would be above [MaxPrice]:
	// then none is for sale, and Wait is how long until one is, in whole seconds.
	Price int64
	Wait  time.Duration

	// Saturated says that the memory had no room to remember the sale, and that
	// it was not made for that.
	Saturated bool
}

// Quote returns the Price, or the Wait, of the next tally. buyers are the
// identity and its networks, at most [MaxBuyers]. m may be nil: then nothing is
// remembered, and the price never rises.
func (m *Memory) Quote(now time.Time, p *Prices, buyers []Buyer) Sale {
	if m == nil {
		return Sale{Price: p.work}
	}
	t, locked := &m.paid, locks{}
	for _, b := range buyers {
		locked.add(t.stripe(b.Key))
	}
	locked.lock(t)
	defer locked.unlock(t)
	s, _ := t.quote(clock(now), p, buyers)
	return s
}

// Redeem opens a tally for work that has been proved, if the price at this moment on this
// instance is at most 15/8 of it. What the challenge had asked for does not
// bind, or a stock of challenges fetched while the price was low would buy any
// number of tallies at that price. The 7/8 are for honest clients whose neighbours buy while
// they work: of a Crowd of 8, seven may, and they lose no proof; with a Crowd of 1 each sale doubles
// the price. Where the dearest is a block of ports, it is 2 in place of 15/8. Check and sale are one
// critical section.
//
// family derives from the challenge alone, so that a client that redeems again, or
// that lost the answer, gets the same one: it is Held until ends.
func (m *Memory) Redeem(now time.Time, p *Prices, buyers []Buyer, family Key, ends time.Time, work int64) Sale {
	if m == nil {
		return Sale{Granted: work >= enough(p.work), Price: p.work}
	}
	t, locked := &m.paid, locks{}
	locked.add(t.stripe(family))
	for _, b := range buyers {
		locked.add(t.stripe(b.Key))
	}
	locked.lock(t)
	defer locked.unlock(t)

	second := clock(now)
	if c := t.find(family, heldID); c != nil && int64(c.expires) > second {
		return Sale{Granted: true, Held: true}
	}
	s, known := t.quote(second, p, buyers)
	if s.Price == 0 || work < known.least {
		return s
	}
	s.Granted = t.sell(second, p, buyers, &known, family, ends.Unix())
	if !s.Granted {
		s.Saturated = true
		m.full.Add(1)
	}
	return s
}

// enough returns the least work that opens a tally at a price. With half of it, a stock of challenges would buy one
// more than a Crowd of eight at the price at which it was fetched. With two thirds, 200 newcomers behind one
// address would lose one proof in eight.
func enough(price int64) int64 { return (8*price + 14) / 15 }

// Books are the ledgers of all buyers, and of the blocks of the first, if it has any: then
// its ledger is that of its block.
type books struct {
	ledgers [MaxBuyers]ledger
	blocks  blocks
	least   int64 // the least work that opens a tally
}

// blockOf returns the index of the block from which the i-th buyer buys, or -1.
func blockOf(buyers []Buyer, i int) int {
	if i > 0 || len(buyers) == 0 {
		return -1
	}
	return min(int(buyers[i].Block), portBlocks) - 1
}

// sell writes a sale down, all of it or nothing: one that is not remembered
// would leave the price where it was, for as many more.
func (t *table) sell(now int64, p *Prices, buyers []Buyer, known *books, family Key, ends int64) bool {
	var (
		cells  [1 + MaxBuyers]*cell
		before [1 + MaxBuyers]cell
	)
	take := func(i int, k Key, id uint32, reach int64) *cell {
		old := t.find(k, id)
		if old != nil {
			before[i] = *old
		}
		cells[i] = t.claim(now, k, id, t.horizon(reach))
		return cells[i]
	}
	if c := take(0, family, heldID, ends-now+farFutureSlack); c != nil {
		c.expires = uint32(ends)
		for i, b := range buyers {
			crowd := p.crowdOf(b.Crowds)
			id, reach, k := uint32(salesID), ledgerReach(p, crowd), p.leakOf(crowd)
			block := blockOf(buyers, i)
			if block >= 0 {
				id, reach, k = blockID(block), blockReach(p, crowd), p.blockKeeps(crowd)
			}
			if c = take(1+i, b.Key, id, reach); c == nil {
				break
			}
			l := &known.ledgers[i]
			l.sell(now, k)
			l.store(c, k)
			if block >= 0 {
				known.blocks.levels[block] = l.level
			}
		}
		if c != nil {
			if blockOf(buyers, 0) >= 0 {
				t.storeBlocks(p, buyers[0].Key, p.crowdOf(buyers[0].Crowds), &known.blocks)
			}
			return true
		}
	}
	for i, c := range cells {
		if c != nil {
			c.expires, c.value = before[i].expires, before[i].value
		}
	}
	return false
}

// quote asks every buyer's ledger. The stripes are locked.
func (t *table) quote(now int64, p *Prices, buyers []Buyer) (s Sale, known books) {
	var opens int64
	for i, b := range buyers {
		crowd := p.crowdOf(b.Crowds)
		l := &known.ledgers[i]
		if block := blockOf(buyers, i); block >= 0 {
			all := t.readBlocks(now, p, b.Key, crowd)
			known.blocks = all.now(now, p, crowd)
			*l = ledger{known.blocks.levels[block], known.blocks.mark}
			s.Price = p.at(known.blocks.pays(block), crowd)
			// What a block has bought itself weighs eight times, so that one sale may double its price. It is
			// half of that, for an honest client in it; the bound is that of what all have bought.
			known.least = max(enough(p.at(known.blocks.sum(), crowd)), (s.Price+1)/2)
			opens = all.opens(now, p, crowd, block)
			continue
		}
		*l = p.read(now, t.find(b.Key, salesID), crowd)
		price := p.at(l.now(now, p.leakOf(crowd)), crowd)
		s.Price, known.least = max(s.Price, price), max(known.least, enough(price))
		opens = max(opens, l.opens(now, p.leakOf(crowd), p.top(crowd)))
	}
	if opens > 0 {
		s.Price, s.Wait = 0, time.Duration(opens)*time.Second
	}
	return s, known
}

// clock is the second of a sale. Before 1970 it stands still.
func clock(now time.Time) int64 { return max(0, now.Unix()) }
