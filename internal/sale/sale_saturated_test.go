// SPDX-License-Identifier: Apache-2.0

package sale_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
)

// fill fills a memory of one set, but for some cells, with tallies that live for
// two hours.
func (s *stall) fill(but int) {
	s.t.Helper()
	p := perMinute(s.t, 1<<20)
	for n := range 16 - but {
		_, v := s.m.Take(opening, p, &limiter.Candidate{Key: numbered(s.m, 'f', n)}, 1)
		require.Zero(s.t, v.Inherited)
	}
}

// fillPaid takes all paid cells except but, by proofs that live for an hour.
// The stall is made for one tally.
func (s *stall) fillPaid(but int) {
	s.t.Helper()
	p := perMinute(s.t, 1<<20)
	for n := range 16 - but {
		f := limiter.Candidate{Key: numbered(s.m, 'f', 0), Proof: proofOf(numbered(s.m, 'x', n), time.Hour)}
		_, v := s.m.Take(opening, p, &f, 1)
		require.True(s.t, v.Admitted)
	}
}

// Filling the memory for nothing does not touch paid cells.
func TestStrangersLeaveRoomForSales(t *testing.T) {
	s := openStall(t, plain(2), 1)
	s.fill(0)
	require.Equal(t, sale.Sale{Granted: true, Price: 1000}, s.redeem(opening, s.address(0), 7, 1000))
	require.True(t, s.redeem(opening, s.address(0), 7, 0).Held)
	require.EqualValues(t, 1, s.count(opening, s.address(0)[0]))
}

// A ledger that lasts for longer than all that was sold before is no wrong clock's.
func TestStrangersLeaveLongLedgers(t *testing.T) {
	s := openStall(t, sale.Tariff{Work: 1000, Crowd: 4, SalesPerHour: 1}, 1)
	short, err := sale.Tariff{Work: 1000, Crowd: 1, SalesPerHour: 240}.Compile()
	require.NoError(t, err)
	require.True(t, short.Redeem(opening, s.m, s.address(1), s.ware(), opening.Add(time.Minute), 1000).Granted)
	for range 30 { // they leak in more than a day
		require.True(t, s.prices.Redeem(opening, s.m, s.address(0), 7, time.Unix(1, 0), 1<<40).Granted)
	}
	for n := range 100 {
		s.offer(opening, s.address(2+n), 1000)
	}
	require.Positive(t, s.m.Saturations(), "the workload fills the memory")
	require.EqualValues(t, 192_000, s.quote(opening, s.address(0)).Price)
}

// Where there is no room for a sale nothing is sold, or one proof would buy any
// number of tallies at the base price.
func TestSaleSaturated(t *testing.T) {
	s := openStall(t, plain(2), 1)
	s.fillPaid(0)
	before := s.m.Saturations()
	for n := range uint64(100) {
		require.Equal(t, sale.Sale{Price: 1000}, s.quote(opening, s.address(0)))
		require.Equal(t, sale.Sale{Price: 1000}, s.redeem(opening, s.address(0), 7, 499), "work is still due")
		require.Equal(t, before+n, s.m.Saturations())
		require.Equal(t, sale.Sale{Price: 1000, Saturated: true}, s.redeem(opening, s.address(0), 7, 1000))
	}
	require.Equal(t, before+100, s.m.Saturations())

	// When there is room again, all is as it should be.
	later := opening.Add(2 * time.Hour)
	require.Equal(t, 4, s.spend(later, s.address(0), 10_000), "1000, 1500, 2000 and 3000")
}

// A sale is written down as a whole, or not at all.
func TestSaleIsAllOrNothing(t *testing.T) {
	for room := range 5 {
		s := openStall(t, plain(1), 1)
		s.fillPaid(room)
		sold := room == 4 // the tally and three ledgers
		got := s.redeem(opening, s.host(0, 0, 0), 7, 1000)
		require.Equal(t, sale.Sale{Granted: sold, Price: 1000, Saturated: !sold}, got, "room for %d", room)
		for i, b := range s.host(0, 0, 0) {
			require.Equal(t, sold, s.count(opening, b) == 1, "room for %d, level %d", room, i)
			require.Equal(t, !sold, s.count(opening, b) == 0, "room for %d, level %d", room, i)
		}
		require.Equal(t, sold, s.redeem(opening, s.host(0, 0, 0), 7, 1).Held, "room for %d", room)
	}
}

// A ledger that was there before a sale that fails is as it was, not gone.
func TestFailedSaleForgetsNothing(t *testing.T) {
	s := openStall(t, plain(2), 1)
	known, stranger := s.address(0)[0], s.address(1)[0]
	require.True(t, s.offer(opening, []sale.Buyer{known}, 1000).Granted)
	s.fillPaid(3) // for the tally one cell stays, and none for a ledger
	got := s.redeem(opening, []sale.Buyer{known, stranger}, 7, 1500)
	require.Equal(t, sale.Sale{Price: 1500, Saturated: true}, got)
	require.Equal(t, int64(1), s.count(opening, known))
	require.Zero(t, s.count(opening, stranger))
}

// The same in tables of one to three sets, filled by chance; what was remembered
// of earlier sales is as it was after one that fails.
func TestFailedSaleChangesNothing(t *testing.T) {
	p := perMinute(t, 1000)
	lost := 0
	for n := range 400 {
		s := openStall(t, plain(1), 1+n%40)
		earlier := s.redeem(opening, s.host(1, 0, 0), 6, 1000).Granted
		for i := range n % 50 {
			f := limiter.Candidate{Key: 5, Proof: proofOf(numbered(s.m, 'x', i), time.Hour)}
			s.m.Take(opening, p, &f, 1)
		}
		buyers := s.host(0, 0, 0)
		var before []int64
		for _, b := range buyers {
			before = append(before, s.count(opening, b))
		}
		full, sale := s.m.Saturations(), s.redeem(opening, buyers, 7, 1000)
		require.NotEqual(t, sale.Granted, sale.Saturated)
		more := int64(0)
		if sale.Granted {
			more = 1
		} else {
			lost++
			full++
		}
		for i, b := range buyers {
			require.Equal(t, before[i]+more, s.count(opening, b), "level %d", i)
		}
		require.Equal(t, full, s.m.Saturations())
		require.Equal(t, sale.Granted, s.redeem(opening, buyers, 7, 1).Held)
		require.Equal(t, earlier, s.redeem(opening, s.host(1, 0, 0), 6, 0).Held)
	}
	require.Greater(t, lost, 20)
	require.Less(t, lost, 380)
}

// Cells of strangers that have expired are room for sales.
func TestSaleReusesExpiredCells(t *testing.T) {
	s := openStall(t, plain(1), 1)
	ends := opening.Add(time.Minute)
	one := []sale.Buyer{{Key: 5, Crowds: 64}}
	for n := range 15 { // beside the ledger
		sale := s.prices.Redeem(opening, s.m, one, numbered(s.m, 'h', n), ends, 1000)
		require.True(t, sale.Granted, "tally %d", n)
	}
	require.True(t, s.prices.Redeem(ends.Add(-time.Second), s.m, one, 7, ends, 1000).Saturated)
	require.False(t, s.prices.Redeem(ends, s.m, one, 8, ends.Add(time.Minute), 1000).Saturated)
	require.True(t, s.prices.Redeem(ends, s.m, one, 8, ends.Add(time.Minute), 0).Held)
}

// What is remembered for more than a day is not taken for what a wrong clock has
// written: ledgers of a long tariff, tallies and proofs of a long life.
func TestLongMemoryIsNoWrongClock(t *testing.T) {
	long := 30 * 24 * time.Hour
	for name, remember := range map[string]func(s *stall, n int) (again bool){
		"ledgers": func(s *stall, n int) bool {
			one := s.address(n)
			again := s.quote(opening, one).Price > 1000
			s.prices.Redeem(opening, s.m, one, 7, time.Unix(1, 0), 1000)
			return again
		},
		"tallies": func(s *stall, n int) bool {
			one := []sale.Buyer{{Key: 5, Crowds: 64}}
			return s.prices.Redeem(opening, s.m, one, numbered(s.m, 'h', n), opening.Add(long), 1000).Held
		},
		"proofs": func(s *stall, n int) bool {
			f := limiter.Candidate{Key: 5, Proof: proofOf(numbered(s.m, 'p', n), long)}
			_, v := s.m.Take(opening, perMinute(s.t, 1000), &f, 1)
			return v.Spent
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStall(t, sale.Tariff{Work: 1000, Crowd: 1, SalesPerHour: 1}, 1)
			for n := range 100 {
				remember(s, n)
			}
			for n := range 15 {
				require.True(t, remember(s, n), "of the first none is overwritten")
			}
		})
	}
}
