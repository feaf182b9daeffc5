package storeless

import "time"

// A Buyer is an identity that buys a tally, or a network it belongs to.
type Buyer struct {
	Key Key

	// Crowds is how many times the crowd of an identity is expected in it: 1 for an
	// identity. Less counts as 1, and more than a cell of the memory can count as that.
	Crowds int64
}

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

// Redeem opens a tally for work that has been proved, if it is worth at least half
// the price at this moment on this instance. What the challenge had asked for does not
// bind, or a stock of challenges fetched while the price was low would buy any
// number of tallies at that price. Half is for honest clients whose neighbours buy while
// they work: they lose no proof until the price has doubled. Check and sale are one
// critical section.
//
// family derives from the challenge alone, so that a client that redeems again, or
// that lost the answer, gets the same one: it is Held until ends.
func (m *Memory) Redeem(now time.Time, p *Prices, buyers []Buyer, family Key, ends time.Time, work int64) Sale {
	if m == nil {
		return Sale{Granted: work >= p.work-p.work/2, Price: p.work}
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
	if s.Price == 0 || work < s.Price-s.Price/2 {
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
			crowd := p.crowdOf(b.Crowds)
			if c = take(1+i, b.Key, salesID, ledgerReach(p, crowd)); c == nil {
				break
			}
			ledgers[i].sell(now, p.leakOf(crowd))
			ledgers[i].store(c, p.leakOf(crowd))
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
	for i, b := range buyers {
		crowd := p.crowdOf(b.Crowds)
		l := &ledgers[i]
		*l = p.read(now, t.find(b.Key, salesID), crowd)
		s.Price = max(s.Price, p.at(l.now(now, p.leakOf(crowd)), crowd))
		opens = max(opens, l.opens(now, p.leakOf(crowd), p.top(crowd)))
	}
	if opens > 0 {
		s.Price, s.Wait = 0, time.Duration(opens)*time.Second
	}
	return s, ledgers
}

// clock is the second of a sale. Before 1970 it stands still.
func clock(now time.Time) int64 { return max(0, now.Unix()) }
