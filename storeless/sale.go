package storeless

import "time"

// A Buyer is an identity that buys a tally, or a network it belongs to.
type Buyer struct {
	Key Key

	// Crowds is how many identities are expected in it: 1 for an identity, as
	// many as its policies scale by for a network.
	Crowds int64
}

// A Sale is what became of an attempt to buy a tally.
type Sale struct {
	// Granted says that the tally is open: sold now, or Held by this instance
	// already, which is honoured however prices have risen since.
	Granted, Held bool

	// Price is what a tally cost at this moment, in expected hashes: the highest
	// of all buyers' prices. 0 if it was Held, and if none is for sale; then Wait
	// is how long until one is, in whole seconds.
	Price int64
	Wait  time.Duration

	// Saturated says that the memory had no room to remember the sale, and that
	// it was not made for that.
	Saturated bool
}

// Quote returns the Price, or the Wait, of the next tally. buyers are the
// identity and its networks, at most 1+[MaxNetworks]. m may be nil: then nothing is
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

// Redeem opens a tally for work that has been proved, if it is worth the price
// at this moment on this instance: what the challenge had asked for does not
// bind, or a stock of challenges fetched while the price was low would buy any
// number of tallies at that price. Check and sale are one critical section.
//
// family derives from the challenge alone, so that a client that redeems again, or
// that lost the answer, gets the same one: it is Held until ends.
func (m *Memory) Redeem(now time.Time, p *Prices, buyers []Buyer, family Key, ends time.Time, work int64) Sale {
	if m == nil {
		return Sale{Granted: work >= p.work, Price: p.work}
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
	s, ledgers := t.quote(second, p, buyers)
	if s.Price == 0 || work < s.Price {
		return s
	}
	s.Granted = t.sell(second, p, buyers, &ledgers, family, ends.Unix())
	if !s.Granted {
		s.Saturated = true
		m.full.Add(1)
	}
	return s
}

// sell writes a sale down, all of it or nothing: one that is not remembered
// would leave the price where it was, for as many more.
func (t *table) sell(now int64, p *Prices, buyers []Buyer, ledgers *[1 + MaxNetworks]ledger, family Key, ends int64) bool {
	var (
		cells  [2 + MaxNetworks]*cell
		before [2 + MaxNetworks]cell
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
			if c = take(1+i, b.Key, salesID, ledgerReach(p)); c == nil {
				break
			}
			ledgers[i].add()
			ledgers[i].store(p, c)
		}
		if c != nil {
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
func (t *table) quote(now int64, p *Prices, buyers []Buyer) (s Sale, ledgers [1 + MaxNetworks]ledger) {
	var opens int64
	soldOut := false
	for i, b := range buyers {
		l := &ledgers[i]
		if c := t.find(b.Key, salesID); c == nil {
			l.slot = now / p.slot
		} else if l.load(p, c); l.roll(now / p.slot) {
			// The clock has stepped back. Unless the move to the present is
			// written down it would be made anew at every look, and the sales
			// would be remembered until the clock is there again.
			l.store(p, c)
		}
		price := p.at(l.sold(), b.Crowds)
		if price == 0 {
			soldOut = true
			opens = max(opens, l.opens(p, b.Crowds))
		}
		s.Price = max(s.Price, price)
	}
	if soldOut {
		s.Price, s.Wait = 0, time.Duration(opens-now)*time.Second
	}
	return s, ledgers
}

// A ledger counts a buyer's sales, in a cell's 64 bits. It keeps no sliding
// window: weighting the past would let a buyer who waits for the boundary have
// two crowds for the price of one, and the bound on work would not hold.
type ledger struct {
	slot  int64  // number of the slot that fills
	sales uint64 // 16 bits a slot, the one that fills lowest
}

// clock is the second of a sale. Before 1970 it stands still.
func clock(now time.Time) int64 { return max(0, now.Unix()) }

func ledgerReach(p *Prices) int64 { return (saleSlots+1)*p.slot + farFutureSlack }

func (l *ledger) load(p *Prices, c *cell) {
	l.slot, l.sales = int64(c.expires)/p.slot-saleSlots, c.value
}

func (l *ledger) store(p *Prices, c *cell) {
	c.expires, c.value = uint32((l.slot+saleSlots)*p.slot), l.sales
}

// roll drops the slots that have passed. A ledger from further ahead than the
// next slot was written before the clock stepped back: it is moved to count from
// now.
func (l *ledger) roll(slot int64) (moved bool) {
	switch passed := slot - l.slot; {
	case passed >= saleSlots:
		*l = ledger{slot: slot}
	case passed > 0:
		l.slot, l.sales = slot, l.sales<<(16*passed)
	case passed < -1:
		l.slot, moved = slot, true
	}
	return moved
}

// add counts a sale. There are never more than maxSales, so no slot overflows.
func (l *ledger) add() { l.sales++ }

// in returns the sales of the slot that filled so many slots ago.
func (l *ledger) in(ago int64) int64 { return int64(l.sales >> (16 * ago) & 0xffff) }

func (l *ledger) sold() (n int64) {
	for ago := range int64(saleSlots) {
		n += l.in(ago)
	}
	return n
}

// opens returns the Unix second at which a tally is for sale again.
func (l *ledger) opens(p *Prices, crowds int64) int64 {
	left := l.sold()
	for ago := int64(saleSlots - 1); ago >= 0; ago-- {
		if left -= l.in(ago); p.at(left, crowds) > 0 {
			return (l.slot + saleSlots - ago) * p.slot
		}
	}
	return (l.slot + saleSlots) * p.slot
}
