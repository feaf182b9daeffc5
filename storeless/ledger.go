package storeless

import "time"

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

// opens returns the Unix second at which a family is for sale again.
func (l *ledger) opens(p *Prices, crowds int64) int64 {
	left := l.sold()
	for ago := int64(saleSlots - 1); ago >= 0; ago-- {
		if left -= l.in(ago); p.at(left, crowds) > 0 {
			return (l.slot + saleSlots - ago) * p.slot
		}
	}
	return (l.slot + saleSlots) * p.slot
}
