// SPDX-License-Identifier: Apache-2.0

package sale_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
)

// A clock that steps back makes nothing cheaper, and dearer for no longer than the
// level takes to leak from then on: however far it went.
func TestSaleClockStepsBack(t *testing.T) {
	for _, memory := range []time.Duration{time.Minute, time.Hour} {
		for _, back := range []time.Duration{time.Second, 7 * time.Second, memory / 3, memory / 2, time.Hour, 25 * time.Hour, 400 * 24 * time.Hour} {
			for _, bought := range []int{3, 13, 16} {
				s := openStall(t, sale.Tariff{Work: 1000, Crowd: 4, SalesPerHour: int64(16 * time.Hour / memory)}, 1<<12)
				one, leak := s.address(0), memory/16
				before := opening.Add(memory / 5)
				for range bought {
					s.buy(before, one)
				}
				price := s.quote(before, one).Price
				now := before.Add(-back)
				require.Equal(t, price, s.quote(now, one).Price, "back %v", back)
				half := now.Add(min(back, lateSlack) + time.Duration(bought)*leak/2)
				require.Less(t, s.quote(half, one).Price, price, "back %v: it leaks meanwhile", back)
				gone := now.Add(time.Duration(bought)*leak + time.Second)
				if !gone.Before(before) || back <= lateSlack { // the clock is back where it was
					gone = before.Add(time.Duration(bought)*leak + time.Second)
				}
				require.Equal(t, int64(1000), s.quote(gone, one).Price, "back %v: as it was before", back)
			}
		}
	}
}

// lateSlack is how much older than the last sale a request may be.
const lateSlack = 5 * time.Second

// Once a clock that was far ahead is right again, what was sold under it counts, and no
// stranger takes its cell for one that will never be looked at again.
func TestSaleWhenTheClockWasFarAhead(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, 25 * time.Hour, 400 * 24 * time.Hour} {
		s := openStall(t, plain(1), 1)
		for range 3 {
			s.buy(opening.Add(ahead), s.address(0))
		}
		require.EqualValues(t, 8000, s.quote(opening, s.address(0)).Price)
		for n := range 100 {
			s.offer(opening, s.address(1+n), 1000)
		}
		require.Positive(t, s.m.Saturations(), "the workload fills the memory")
		require.EqualValues(t, 8000, s.quote(opening, s.address(0)).Price, "%v ahead", ahead)
	}
}

// What is sold while the clock is behind counts as well when it is back; what has
// leaked meanwhile is gone for good.
func TestSaleWhileTheClockIsBehind(t *testing.T) {
	s := openStall(t, plain(8), 1<<12)
	s.spend(opening, s.address(0), 60_000)
	price := s.quote(opening, s.address(0)).Price
	behind := opening.Add(-24 * time.Hour)
	s.quote(behind, s.address(0))
	require.Equal(t, price, s.buy(behind, s.address(0)))
	dearer := s.quote(behind, s.address(0)).Price
	require.Greater(t, dearer, price)
	require.Equal(t, dearer, s.quote(opening, s.address(0)).Price, "when the clock is back")
	require.Less(t, s.quote(opening.Add(10*time.Minute), s.address(0)).Price, price)

	s = openStall(t, plain(8), 1<<12)
	s.spend(opening, s.address(0), 60_000)
	s.quote(behind, s.address(0))
	require.Equal(t, int64(1000), s.quote(behind.Add(3*time.Hour), s.address(0)).Price, "leaked")
	require.Equal(t, int64(1000), s.quote(opening, s.address(0)).Price, "and does not come back with the clock")
}

// Stepping back again and again buys little.
func TestSaleClockWanders(t *testing.T) {
	s := openStall(t, plain(2), 1<<12)
	now, sold := opening, 0
	for n := range 500 {
		sold += s.spend(now, s.address(0), 30_000)
		now = now.Add(time.Duration(n%7-4) * 5 * time.Minute)
		if n%50 == 0 {
			now = now.Add(-24 * time.Hour)
		}
	}
	// 2·log2(1 + 15·500) and what leaks in the time that goes forward, some 18 hours.
	require.Less(t, sold, 26+18*8)
}

// A sale that waited for the lock while another was made later is counted, and
// steps no clock back.
func TestSaleThatWaitedForTheLock(t *testing.T) {
	s := openStall(t, plain(1), 1)
	require.Equal(t, int64(1000), s.buy(opening, s.address(0)))
	require.Equal(t, int64(2000), s.buy(opening.Add(-lateSlack), s.address(0)))
	require.Equal(t, int64(4000), s.quote(opening.Add(-2*time.Second), s.address(0)).Price, "no time has passed")
	require.Equal(t, int64(4000), s.buy(opening, s.address(0)))
	require.Equal(t, int64(4000), s.quote(opening.Add(15*time.Minute), s.address(0)).Price, "the leak is from the latest on")
}

// Tallies that are held, and proofs that are spent, stay so when the clock goes back.
func TestHeldWhenTheClockStepsBack(t *testing.T) {
	s := openStall(t, plain(1), 1)
	ends := opening.Add(time.Hour)
	s.prices.Redeem(opening, s.m, s.address(0), 7, ends, 1000)
	for _, back := range []time.Duration{time.Second, time.Hour, 48 * time.Hour} {
		require.True(t, s.prices.Redeem(opening.Add(-back), s.m, s.address(0), 7, ends, 0).Held)
	}
	s.requireCount(opening, s.address(0)[0], 1)

	f := limiter.Candidate{Key: 1, Proof: proofOf(7, 10*time.Second)}
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
	s := openStall(t, plain(2), 1) // no cell of it may be taken for free
	sold := 0
	for n := range 100 {
		now := time.Time{}.Add(time.Duration(n) * 24 * time.Hour)
		sold += s.buyOut(now, s.address(0))
		sold += s.buyOut(time.Unix(-int64(n), 0), s.address(0))
	}
	require.Equal(t, 45, sold, "22 doublings, and a rest")
	for n := range 100 { // a stranger that buys takes no cell that is in use
		s.offer(time.Time{}, s.address(1+n), 1000)
	}
	require.Zero(t, s.quote(time.Time{}, s.address(0)).Price)
	require.Equal(t, int64(1000), s.quote(opening, s.address(0)).Price)
}

// Another tariff, over sales that an older one has made, knows as many of them: it
// neither forgets any at once nor asks for more than its own ladder.
func TestTariffChanges(t *testing.T) {
	leaks := []int64{1, 16, 100, 2000}
	for _, from := range leaks {
		for _, to := range leaks {
			s := openStall(t, sale.Tariff{Work: 1000, Crowd: 4, SalesPerHour: from}, 1<<12)
			for range 8 {
				s.buy(opening, s.address(0))
			}
			for crowd, price := range map[int64]int64{1: 500 << 8, 2: 500 << 4, 8: 500 << 1, 16: 750} {
				prices, err := sale.Tariff{Work: 500, Crowd: crowd, SalesPerHour: to}.Compile()
				require.NoError(t, err)
				require.Equal(t, price, prices.Quote(opening, s.m, s.address(0)).Price, "%v to %v", from, to)
				gone := opening.Add(8*time.Hour/time.Duration(to) + time.Second)
				require.Equal(t, int64(500), prices.Quote(gone, s.m, s.address(0)).Price)
			}
		}
	}
	// A level that is higher than the new tariff's highest is cut down to it.
	s := openStall(t, sale.Tariff{Work: 1000, Crowd: 255, SalesPerHour: 1020}, 1<<16)
	s.buyOut(opening, s.address(0))
	prices, err := plain(1).Compile()
	require.NoError(t, err)
	require.LessOrEqual(t, prices.Quote(opening, s.m, s.address(0)).Wait, 15*time.Minute)
}
