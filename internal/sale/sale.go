// SPDX-License-Identifier: Apache-2.0

// Package sale says which clients may buy a tally, and at what price. It knows no HTTP, does no I/O and
// reads no clock. A [limiter.Memory] remembers the sales.
//
// Clients that share an address share its tally. A client can buy a tally of its own: it
// pays with work that the caller has verified (package pow), and [Prices.Redeem] sells. Each
// buyer has a level. A sale raises it by one. It leaks evenly, by SalesPerHour, down to
// zero. The price is
//
//	Work·2^k·(1+f)      k the whole and f the rest of level/Crowd
//
// rounded up. It is continuous, so a buyer gains nothing by waiting for a step. An IPv6
// identity pays the highest price of its /64, /56 and /48, which may be [Buyer]s of several
// crowds. The price is taken at redemption, whatever the challenge asked for. A proof is good
// while the price is at most 15/8 of its work: the price may rise by 7/8 while an honest
// client works. In a time T, an amount of work buys at most
//
//	SalesPerHour·T + Crowd·log2(1 + 15/8·work/(Crowd·Work))
//
// tallies on one instance; a restart counts as one more instance. The proof: the i-th of n sales is
// made at a level of at least i − 1 − SalesPerHour·T. There the price is at least Work, and at least
// Work·2^(level/Crowd). So all n cost Crowd·Work·(2^((n − SalesPerHour·T)/Crowd) − 1), and the buyer
// paid at least 8/15 of it. The leak needs no relation to the Crowd for that.
//
// A tally is sold once ([Sale.Held]) and can be redeemed any number of times until it ends.
//
// There is no cap below [MaxPrice]. A cap of four Crowds was tried: a fast neighbour
// buys them all for 15·Crowd·Work hashes, 0.3 s of a processor at the usual price,
// and no other client behind the address can buy for an hour. Above MaxPrice nothing
// is for sale, and [Sale.Wait] is the exact wait.
//
// A level is kept in parts of 2⁻¹⁵ of a sale. What leaks is rounded down, so no price is
// below the formula's. The level counts sales, not money or time: another [Tariff] finds
// the same sales at its own price. When the clock steps back, the level stays, and leaks by
// the new time. When the clock steps forward again within a day, the level goes on from
// there, plus the sales made meanwhile.
//
// A [Buyer.Provider] reaches its share when it has taken an eighth of the cells
// for sales, and a quarter of all that was taken, within the time in which two
// Crowds leak, or ten minutes if that is longer. Then its newcomers get no
// cells of their own. They share a ledger in each set, found by their widest
// network, and pay as one identity. Each set holds the last of their sales.
// These two cells in 16 are another eighth. A buyer with a ledger keeps it. So
// no price is lower than by a ledger of its own.
//
// No client is promised a tally. In the long run an address lets in what leaks. A
// neighbour that always pays more than others can gets all of it.
package sale

import (
	"time"

	"github.com/tallystick/tallystick/internal/cells"
	"github.com/tallystick/tallystick/internal/gossip"
	"github.com/tallystick/tallystick/internal/limiter"
)

// A Buyer is an identity that buys a tally, or a network it belongs to.
type Buyer struct {
	Key limiter.Key

	// Crowds is how many times an identity's crowd it hides: 1 for an identity. Less
	// counts as 1. It is cut to what a cell of the memory can count.
	Crowds int64

	// Provider is the network that assigned the identity's address, as in [limiter.Candidate];
	// only the first buyer's counts. Beyond its share of the cells for sales, its newcomers share
	// a ledger: see [Prices.Redeem].
	Provider uint64

	// Hasty has a sale not wait for peers, as in [limiter.Candidate].
	Hasty bool
}

// MaxBuyers is how many buyers a sale may have: an identity, its /56 and its /48.
const MaxBuyers = gossip.MaxBuyers

// A Sale is the outcome of [Prices.Redeem].
type Sale struct {
	// Granted says that the tally is open: sold now, or Held by this instance
	// already. A Held one is honoured however prices have risen.
	Granted, Held bool

	// Price is the price at this moment, in expected hashes: the highest of all
	// buyers' prices. It is 0 if the tally was Held. It is 0 above [MaxPrice] too:
	// then none is for sale, and Wait is how long until one is, in whole seconds.
	Price int64
	Wait  time.Duration

	// Saturated says that the memory had no room for the sale, so it was not
	// made.
	Saturated bool

	// Waits names what the sale has to wait for, until peers have heard of the last sale to the same buyer. Its Key is 0
	// otherwise.
	Waits gossip.Limit
}

// Quote returns the Price, or the Wait, of the next tally. buyers are the
// identity and its networks, at most [MaxBuyers]. m may be nil: then the price
// never rises.
func (p *Prices) Quote(now time.Time, m *limiter.Memory, buyers []Buyer) Sale {
	if m == nil {
		return Sale{Price: p.work}
	}
	t, locked := table{m.Paid()}, cells.Locks{}
	for _, b := range buyers {
		locked.Add(t.Of(uint64(b.Key)))
	}
	locked.Hold(t.Stripes)
	defer locked.Release(t.Stripes)
	s, _ := t.quote(clock(now), p, m, buyers)
	s.Waits = gossip.Limit{}
	return s
}

// Redeem opens a tally for proved work, if the price at this moment on this instance is at most
// 15/8 of it. The challenge's price does not bind: a stock of cheap challenges would buy any
// number of tallies. The 7/8 are for honest clients whose neighbours buy while they work. With a
// Crowd of 64, 56 neighbours may buy meanwhile; with a Crowd of 1 each sale doubles the price.
// Check and sale are one critical section.
//
// tally derives from the challenge alone. So a client that redeems again, or lost
// the answer, gets the same one: it is Held until ends.
//
// No provider takes more than a quarter of the cells for sales. After half of that its newcomers
// share a ledger in each set of 16 cells, with the crowd of one identity, and the last tally they
// bought in each set is Held.
func (p *Prices) Redeem(now time.Time, m *limiter.Memory, buyers []Buyer, tally limiter.Key, ends time.Time, work int64) Sale {
	if m == nil {
		return Sale{Granted: work >= enough(p.work), Price: p.work}
	}
	t, locked := table{m.Paid()}, cells.Locks{}
	locked.Add(t.Of(uint64(tally)))
	for _, b := range buyers {
		locked.Add(t.Of(uint64(b.Key)))
	}
	locked.Hold(t.Stripes)
	defer locked.Release(t.Stripes)

	second := clock(now)
	if t.holds(second, tally, 0) || len(buyers) > 0 && t.holds(second, tally, buyers[0].Provider) {
		return Sale{Granted: true, Held: true}
	}
	s, known := t.quote(second, p, m, buyers)
	if m.HeldElsewhere(tally) { // asked after quote: what is heard from here on counts in this sale
		return Sale{Granted: true, Held: true}
	}
	if s.Price == 0 || work < known.least {
		s.Waits = gossip.Limit{}
		return s
	}
	if s.Waits.Key != 0 {
		return s
	}
	s.Granted = t.sell(second, p, buyers, &known, tally, ends.Unix())
	if !s.Granted {
		s.Saturated = true
		t.Full.Add(1)
		return s
	}
	var keys [MaxBuyers]limiter.Key
	for i := range buyers {
		keys[i] = buyers[i].Key
	}
	m.Sold(now, tally, ends, keys[:len(buyers)])
	return s
}

// enough returns the least work that opens a tally at a price. At half the
// price, a stock of challenges would buy one tally more than a Crowd of eight
// at the old price. At two thirds, 200 newcomers behind one address would lose
// one proof in eight.
func enough(price int64) int64 { return (8*price + 14) / 15 }

// Books are the ledgers of all buyers.
type books struct {
	ledgers [MaxBuyers]ledger
	own     [MaxBuyers]bool // the ledger is this buyer's alone
	least   int64           // the least work that opens a tally

	provider uint64 // of the first; 0: none
	full     bool   // it has its share of the cells
	shared   ledger // of its newcomers, in the set of the widest buyer
}

// open returns the books of some buyers, without their ledgers. The stripes are
// locked.
//
// The newcomers of a provider that has its share use one ledger, as counts are
// shared in a full set; see [limiter.Candidate]. They find it by the widest
// buyer, a /48, so that hosts cannot choose among many, and pay as one
// identity. A newcomer starts at its level also when the provider has room
// again, so no level falls. Half of the share is for such ledgers and the
// tallies held of such sales: two cells of 16 in each set.
//
// Rejected: to refuse further buyers of a provider, which would shut out a whole phone carrier; and
// one ledger for all of them, which does the same in the end.
func (t table) open(now int64, p *Prices, buyers []Buyer) (known books) {
	known.shared = ledger{at: now}
	if len(buyers) == 0 {
		return known
	}
	known.provider = buyers[0].Provider
	if known.provider == 0 {
		return known
	}
	known.full = t.Claims.Busy(now/p.counted(), cells.Provider(known.provider, t.Salt), len(t.Cells)/2)
	known.shared = p.read(now, t.Find(uint64(buyers[len(buyers)-1].Key), cells.SalesID, known.provider), p.crowdOf(1))
	return known
}

// live reports whether a cell is in use.
func live(now int64, c *cells.Cell) bool { return c != nil && int64(c.Expires) > now }

// holds reports whether a tally was sold: it has a cell of its own, or its provider's newcomers share
// one.
func (t table) holds(now int64, tally limiter.Key, provider uint64) bool {
	c := t.Find(uint64(tally), cells.HeldID, provider)
	return live(now, c) && c.Value == uint64(tally)
}

// sell records a sale, all of it or nothing. A sale that is not recorded would
// leave the price where it was.
func (t table) sell(now int64, p *Prices, buyers []Buyer, known *books, tally limiter.Key, ends int64) bool {
	var (
		taken  [2 + MaxBuyers]*cells.Cell
		before [2 + MaxBuyers]cells.Cell
		n      int
		own    uint64 // of these, the unshared cells
	)
	take := func(k limiter.Key, id uint32, shared bool, reach int64) *cells.Cell {
		provider := known.provider
		if !shared {
			provider = 0
		}
		c := t.Claim(now, uint64(k), id, provider, t.Horizon(reach))
		if c != nil {
			taken[n], before[n] = c, *c
			n++
			if !shared {
				own++
			}
		}
		return c
	}
	write := func(c *cells.Cell, l *ledger, k leak) bool {
		if c == nil {
			return false
		}
		l.record(now, k)
		l.store(c, k)
		return true
	}
	held := take(tally, cells.HeldID, known.full, ends-now+cells.FarFuture)
	sold, newcomer := held != nil, false
	if sold {
		held.Expires, held.Value = uint32(ends), uint64(tally)
	}
	for i := 0; sold && i < len(buyers); i++ {
		b, l, crowd := &buyers[i], &known.ledgers[i], p.crowdOf(buyers[i].Crowds)
		if known.full && !known.own[i] {
			newcomer = true
			continue
		}
		sold = write(take(b.Key, cells.SalesID, false, ledgerReach(p, crowd)), l, p.leakOf(crowd))
	}
	if sold && newcomer {
		one := p.crowdOf(1)
		sold = write(take(buyers[len(buyers)-1].Key, cells.SalesID, true, ledgerReach(p, one)), &known.shared, p.leakOf(one))
	}
	if !sold {
		for i, c := range taken[:n] {
			c.Expires, c.Value = before[i].Expires, before[i].Value
		}
		return false
	}
	if known.provider != 0 {
		t.Claims.Add(now/p.counted(), cells.Provider(known.provider, t.Salt), own)
	}
	return true
}

// quote asks every buyer's ledger. The stripes are locked.
func (t table) quote(now int64, p *Prices, m *limiter.Memory, buyers []Buyer) (s Sale, known books) {
	known = t.open(now, p, buyers)
	var opens int64
	for i, b := range buyers {
		crowd := p.crowdOf(b.Crowds)
		l := &known.ledgers[i]
		c := t.Find(uint64(b.Key), cells.SalesID, 0)
		known.own[i] = live(now, c)
		*l = p.read(now, c, crowd)
		sold, last, waits := m.SoldElsewhere(b.Key)
		if waits.Key != 0 && !b.Hasty {
			s.Waits = waits
		}
		if sold > 0 && !known.full {
			if c = t.Claim(now, uint64(b.Key), cells.SalesID, 0, t.Horizon(ledgerReach(p, crowd))); c != nil {
				l.hear(sold, last, p.leakOf(crowd), p.top(crowd)+salePart)
				l.store(c, p.leakOf(crowd))
				known.own[i] = true
			}
		}
		if k := p.leakOf(crowd); !known.own[i] && (known.full || known.shared.now(now, k) > l.now(now, k)) {
			*l = known.shared
		}
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
