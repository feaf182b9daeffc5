package storeless_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/storeless"
)

// A clock that steps back makes nothing cheaper for a whole Memory, and locks
// nobody out for more than two thirds longer: however far it went, and whether
// or not anybody looks meanwhile. The wait stays exact.
func TestSaleClockStepsBack(t *testing.T) {
	for _, memory := range []time.Duration{time.Minute, time.Hour} {
		for _, back := range []time.Duration{time.Second, 7 * time.Second, memory / 3, memory / 2, time.Hour, 25 * time.Hour, 400 * 24 * time.Hour} {
			for _, bought := range []int{3, 13, 16} {
				for _, looks := range []time.Duration{time.Second, memory / 7, 2 * memory} {
					s := openShop(t, storeless.Tariff{Work: 1000, Crowd: 4, Memory: memory}, 1<<12)
					one := s.address(0)
					before := opening.Add(memory / 5)
					for range bought {
						s.buy(before, one)
					}
					price := s.quote(before, one).Price

					now := before.Add(-back)
					require.Equal(t, price, s.quote(now, one).Price)
					if price == 0 {
						require.LessOrEqual(t, s.requireExactWait(now, one), memory*5/3, "back %v", back)
					}
					for d := looks; d < memory; d += looks {
						require.Equal(t, price, s.quote(now.Add(d), one).Price, "back %v, after %v: neither cheaper nor dearer", back, d)
					}
					require.Equal(t, int64(1000), s.quote(now.Add(memory*5/3), one).Price, "back %v: as it was before", back)
				}
			}
		}
	}
}

// Stepping back again and again buys nothing either.
func TestSaleClockWanders(t *testing.T) {
	s := openShop(t, plain(2), 1<<12)
	now, sold := opening, 0
	for n := range 500 {
		sold += s.buyOut(now, s.address(0))
		now = now.Add(time.Duration(n%7-4) * 5 * time.Minute)
		if n%50 == 0 {
			now = now.Add(-24 * time.Hour)
		}
	}
	require.Equal(t, 8, sold, "as many as in one Memory: the clock went back more than forward")
}

// A sale that waited for the lock while another began the next slot is counted.
func TestSaleBetweenSlots(t *testing.T) {
	s := openShop(t, plain(1), 1)
	next := opening.Add(s.slot())
	require.Equal(t, int64(1000), s.buy(next, s.address(0)))
	require.Equal(t, int64(2000), s.buy(next.Add(-time.Second), s.address(0)))
	require.Equal(t, int64(4000), s.buy(next, s.address(0)))
	s.requireCount(next, s.address(0)[0], 3)
}

// Families that are held, and proofs that are spent, stay so when the clock goes back.
func TestHeldWhenTheClockStepsBack(t *testing.T) {
	s := openShop(t, plain(1), 1)
	ends := opening.Add(time.Hour)
	s.m.Redeem(opening, s.prices, s.address(0), 7, ends, 1000)
	for _, back := range []time.Duration{time.Second, time.Hour, 48 * time.Hour} {
		require.True(t, s.m.Redeem(opening.Add(-back), s.prices, s.address(0), 7, ends, 0).Held)
	}
	s.requireCount(opening, s.address(0)[0], 1)

	f := storeless.Candidate{Key: 1, Proof: proofOf(7, 10*time.Second)}
	_, v := s.m.Take(opening, perMinute(t, 100), &f, 1)
	require.True(t, v.Admitted)
	for _, back := range []time.Duration{time.Second, time.Hour, 48 * time.Hour} {
		_, v = s.m.Take(opening.Add(-back), perMinute(t, 100), &f, 1)
		require.True(t, v.Spent && !v.Admitted)
	}
}

// Before 1970 time stands still: a clock that was never set sells a ladder, and
// then no more.
func TestSaleBefore1970(t *testing.T) {
	s := openShop(t, plain(2), 1) // no cell of it may be taken for free
	sold := 0
	for n := range 100 {
		now := time.Time{}.Add(time.Duration(n) * 24 * time.Hour)
		sold += s.buyOut(now, s.address(0))
		sold += s.buyOut(time.Unix(-int64(n), 0), s.address(0))
	}
	require.Equal(t, 8, sold)
	for n := range 100 { // who else buys takes no cell that is in use
		s.offer(time.Time{}, s.address(1+n), 1000)
	}
	require.Zero(t, s.quote(time.Time{}, s.address(0)).Price)
	require.Equal(t, int64(1000), s.quote(opening, s.address(0)).Price)
}

// A tariff with a shorter or longer memory, over sales that another has made,
// neither panics nor locks anybody out for longer than its own or the other's.
func TestTariffChanges(t *testing.T) {
	spans := []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour}
	for _, from := range spans {
		for _, to := range spans {
			s := openShop(t, storeless.Tariff{Work: 1000, Crowd: 4, Memory: from}, 1<<12)
			s.buyOut(opening, s.address(0))
			prices, err := storeless.Tariff{Work: 500, Crowd: 2, Memory: to}.Compile()
			require.NoError(t, err)
			q := s.m.Quote(opening, prices, s.address(0))
			require.LessOrEqual(t, q.Wait, 2*max(from, to))
			require.Equal(t, int64(500), s.m.Quote(opening.Add(2*max(from, to)), prices, s.address(0)).Price)
		}
	}
}
