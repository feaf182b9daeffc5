// SPDX-License-Identifier: Apache-2.0

package sale_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/gossip"
	"github.com/tallystick/tallystick/internal/sale"
)

// hearing returns n stalls that hear each other, with what carries all that they have to tell. The clock of each is
// ahead by its skew.
func hearing(t *testing.T, tariff sale.Tariff, skews ...time.Duration) (all []*stall, tell func(now time.Time)) {
	var records []*gossip.Records
	pace := opening
	for i := range skews {
		s, r := openStall(t, tariff, 1024), gossip.New(gossip.Config{Name: uint64(i + 1), Records: 1024})
		for j := range skews {
			r.Joined(pace, uint64(j+1))
		}
		r.Ready()
		s.m.Join(r, "p")
		all, records = append(all, s), append(records, r)
	}
	return all, func(now time.Time) {
		pace = pace.Add(time.Second)
		for i, r := range records {
			for j, to := range records {
				if batch := r.Batch(pace, uint64(j+1)); batch != nil {
					_, err := to.Hear(now.Add(skews[j]), uint64(i+1), batch)
					require.NoError(t, err)
					r.Answered(pace, uint64(j+1))
				}
			}
		}
	}
}

// A sale by a process whose clock is behind is told at midnight too, when its peers count in the next day.
func TestASaleAtMidnightIsTold(t *testing.T) {
	all, tell := hearing(t, plain(1), 2*time.Second, -time.Second)
	midnight := opening.Add(24 * time.Hour)
	ahead, behind := midnight.Add(2*time.Second), midnight.Add(-time.Second)
	all[0].buy(ahead, all[0].address(1))
	tell(midnight)
	for n := int64(2); n <= 4; n++ {
		all[1].buy(behind, all[1].address(1))
		tell(midnight)
		alone := openStall(t, plain(1), 1024)
		for range n {
			alone.buy(ahead, alone.address(1))
		}
		require.Equal(t, alone.quote(ahead, alone.address(1)), all[0].quote(ahead, all[0].address(1)), "after %d sales", n)
	}
}

// A proof counts as a sale at each process that it is shown to, and each sale counts at all of them. So one behind an address that
// drives its price up needs an N-th of the proofs.
func TestAProofCountsWhereverItIsShown(t *testing.T) {
	all, tell := hearing(t, plain(8), 0, 0, 0)
	alone, buyers := openStall(t, plain(8), 1024), all[0].address(1)
	for range 8 {
		work, tally := all[0].quote(opening, buyers).Price, all[0].ware()
		for _, s := range all {
			s.redeem(opening, buyers, tally, work)
			alone.buy(opening, buyers)
			tell(opening)
		}
	}
	require.Equal(t, alone.quote(opening, buyers), all[0].quote(opening, buyers))
}
