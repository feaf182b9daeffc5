// SPDX-License-Identifier: Apache-2.0

package price

import (
	"time"

	"github.com/tallystick/tallystick/internal/gossip"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
)

// stalls returns n that hear each other, or not, and what carries all that they have to tell.
func stalls(n int, tariff sale.Tariff, hear bool) (all []*stall, tell func(now int64)) {
	var records []*gossip.Records
	for i := range n {
		s, r := open(tariff, few), gossip.New(gossip.Config{Name: uint64(i + 1), Records: few})
		if hear {
			s.memory.Join(r, "contact")
		}
		s.issued = uint64(i) << 32
		for j := range n {
			r.Joined(at(0), uint64(j+1))
		}
		r.Ready()
		all, records = append(all, s), append(records, r)
	}
	pace := at(0)
	return all, func(now int64) {
		pace = pace.Add(time.Second)
		for i, r := range records {
			for j, to := range records {
				if batch := r.Batch(pace, uint64(j+1)); batch != nil {
					_, _ = to.Hear(at(now), uint64(i+1), batch)
					r.Answered(pace, uint64(j+1))
				}
			}
		}
	}
}

// burst is what a client gets of stalls in one moment, with as many hashes for each: the tallies, and the requests of
// a use that it makes of them, at all stalls. It asks all of them again and again while any answers, and they hear of each other in between. Of
// each tally it spends all but one request at the first stall, so that each of the others admits one before it has heard of another.
func burst(all []*stall, tell func(int64), u *use, purse int64) (tallies, requests int64) {
	buyers := make([]attacker, len(all))
	for i := range buyers {
		buyers[i] = attacker{place: oneAddress, purse: purse, stock: true}
	}
	for before := int64(-1); before < tallies; tell(0) {
		before, tallies = tallies, 0
		for i, s := range all {
			buyers[i].look(s, 0)
			tallies += buyers[i].bought
		}
	}
	ask := func(stalls []*stall) {
		for _, seller := range all {
			for _, tally := range seller.sold {
				for _, s := range stalls {
					f := limiter.Candidate{Key: tally, Ends: at(u.life)}
					if _, v := s.memory.Take(at(0), u.pass, &f, 1); v.Admitted {
						requests++
					}
				}
			}
		}
		tell(0)
	}
	for range u.pass.Limit(0).Quota - 1 {
		ask(all[:1])
	}
	for before := int64(-1); before < requests; {
		before = requests
		ask(all)
	}
	return tallies, requests
}
