// SPDX-License-Identifier: Apache-2.0

package gossip

import "time"

// A tally that was sold has a record (rule 15). It is told with the keys of its buyers, and whatever process hears of
// it first counts one sale for each. So what is counted is a set of tallies: one that is told by many, or
// twice, counts once. A buyer's record is not told.

// buyerKept is for how many seconds a buyer's record is kept after the last sale.
const buyerKept = 24 * 60 * 60

// Sell counts a tally that this process has sold.
func (r *Records) Sell(now time.Time, tally Limit, buyers []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	us := r.asked(now)
	at := r.claim(us, tally.Key, 0, tally.Number)
	heard := r.all[at].sum() > 0 // since Sold was asked
	r.all[at].sales = &sales{buyers: buyers}
	r.add(at, 1, 1)
	for _, b := range buyers {
		s := r.buyer(us, b)
		if s.tally = tally.Key; heard && s.sold > 0 {
			s.sold-- // the caller counts it
		}
	}
}

// Sold reports whether a tally was sold, by whatever process.
func (r *Records) Sold(tally Limit) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.find(tally.Key)
	return at >= 0 && r.all[at].sum() > 0
}

// SoldTo returns how many tallies others have sold to a buyer since it was last asked, and the Unix second of
// the last; and the tally that this process has sold to it and a live peer has not acknowledged, if there is
// one.
func (r *Records) SoldTo(buyer uint64) (sold, last uint32, unacked Limit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.find(buyer)
	if at < 0 || r.all[at].sales == nil {
		return 0, 0, unacked
	}
	s := r.all[at].sales
	sold, last, s.sold = s.sold, s.last, 0
	if at = r.find(s.tally); at >= 0 && r.unacked(&r.all[at]) > 0 {
		unacked.Key = s.tally
	}
	return sold, last, unacked
}

// buyer returns the sales of a buyer's record, which may be a new one.
func (r *Records) buyer(now int64, key uint64) *sales {
	rec := &r.all[r.claim(now, key, 0, 0)]
	rec.number = uint32(now/1_000_000) + buyerKept
	if rec.sales == nil {
		rec.sales = new(sales)
	}
	return rec.sales
}
