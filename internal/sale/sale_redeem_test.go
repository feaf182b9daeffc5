// SPDX-License-Identifier: Apache-2.0

package sale_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
)

// together runs f a thousand times at once, and returns what the calls returned.
func together(f func(i int) sale.Sale) []sale.Sale {
	sales := make([]sale.Sale, 1000)
	start := make(chan struct{})
	var group sync.WaitGroup
	for i := range sales {
		group.Go(func() {
			<-start
			sales[i] = f(i)
		})
	}
	close(start)
	group.Wait()
	return sales
}

// A challenge that is redeemed again gives the same tally, and it is sold once.
func TestRedeemTwiceSellsOnce(t *testing.T) {
	s := openStall(t, plain(1), 1<<12)
	sold := 0
	for _, got := range together(func(int) sale.Sale {
		return s.redeem(opening, s.address(0), 7, 1000)
	}) {
		require.True(t, got.Granted)
		if !got.Held {
			sold++
			require.Equal(t, int64(1000), got.Price)
		} else {
			require.Equal(t, sale.Sale{Granted: true, Held: true}, got)
		}
	}
	require.Equal(t, 1, sold)
	s.requireCount(opening, s.address(0)[0], 1)
}

// A stock of proofs, fetched while they were cheap, buys a crowd, and no more: then the price has doubled.
func TestStockBuysOneCrowd(t *testing.T) {
	s := openStall(t, plain(8), 1<<12)
	granted := 0
	for _, got := range together(func(i int) sale.Sale {
		return s.redeem(opening, s.address(0), numbered(s.m, 'x', i), 1000)
	}) {
		if got.Granted {
			granted++
		} else {
			require.Equal(t, int64(2000), got.Price, "price-risen")
		}
	}
	require.Equal(t, 8, granted)
	s.requireCount(opening, s.address(0)[0], 8)
}

// Proofs of any worth at once: what is accepted pays for what is sold.
func TestMixedStockPaysTheFormula(t *testing.T) {
	for _, most := range []int64{1, 2, 4, 8, 16, 1 << 20} {
		s := openStall(t, plain(8), 1<<12)
		work := func(i int) int64 { return 500 * (1 + int64(i*i)%most) }
		granted, paid := 0, int64(0)
		for i, sale := range together(func(i int) sale.Sale {
			return s.redeem(opening, s.address(0), numbered(s.m, 'x', i), work(i))
		}) {
			if sale.Granted {
				granted++
				paid += work(i)
				require.GreaterOrEqual(t, work(i), leastFor(sale.Price))
			}
		}
		require.LessOrEqual(t, int64(granted), mostTallies(s.tariff, paid, 0))
		s.requireCount(opening, s.address(0)[0], granted)
	}
}

// The price of the moment binds, not the challenge's, and 8/15 of it are enough. A
// refusal counts as no sale and opens nothing.
func TestProofUnderThePrice(t *testing.T) {
	s := openStall(t, plain(2), 1<<12)
	for range 3 {
		s.buy(opening, s.address(0))
	}
	for range 100 {
		for _, work := range []int64{-1 << 40, -1, 0, 1, 1000, 1599} {
			require.Equal(t, sale.Sale{Price: 3000}, s.redeem(opening, s.address(0), 7, work))
		}
	}
	require.Equal(t, sale.Sale{Granted: true, Price: 3000}, s.redeem(opening, s.address(0), 7, 1600), "not Held by a refusal")
	s.requireCount(opening, s.address(0)[0], 4)

	odd := openStall(t, sale.Tariff{Work: 1001, Crowd: 2, SalesPerHour: 8}, 1<<12)
	require.False(t, odd.offer(opening, odd.address(0), 533).Granted, "it is rounded up")
	require.True(t, odd.offer(opening, odd.address(0), 534).Granted)
}

// A tally that was sold is honoured however prices rise, until it ends.
func TestHeldUntilItEnds(t *testing.T) {
	s := openStall(t, plain(2), 1<<12)
	ends := opening.Add(time.Hour)
	redeem := func(now time.Time) sale.Sale {
		return s.prices.Redeem(now, s.m, s.address(0), 7, ends, 1000)
	}
	require.Equal(t, sale.Sale{Granted: true, Price: 1000}, redeem(opening))
	s.buy(opening, s.address(0))
	s.buy(opening, s.address(0))
	require.Equal(t, sale.Sale{Granted: true, Held: true}, redeem(opening), "when the price has risen")
	s.buyOut(opening, s.address(0))
	held := sale.Sale{Granted: true, Held: true}
	require.Equal(t, held, redeem(opening), "when all is sold")
	require.Equal(t, held, redeem(ends.Add(-time.Second)))
	require.Equal(t, held, redeem(ends.Add(-time.Nanosecond)), "to the last moment")
	require.False(t, redeem(ends).Granted, "and then no more")
	require.Equal(t, held, s.prices.Redeem(opening, s.m, s.host(1, 1, 1), 7, ends, 0), "whoever shows it")
}

// Without a memory the base price is all there is, and nothing is remembered.
func TestSaleWithoutMemory(t *testing.T) {
	prices, err := plain(1).Compile()
	require.NoError(t, err)
	one := []sale.Buyer{{Key: 1, Crowds: 1}}
	for range 100 {
		require.Equal(t, sale.Sale{Price: 1000}, prices.Quote(opening, nil, one))
		require.Equal(t, sale.Sale{Granted: true, Price: 1000}, prices.Redeem(opening, nil, one, 7, opening.Add(time.Hour), 1000))
		require.Equal(t, sale.Sale{Price: 1000}, prices.Redeem(opening, nil, one, 7, opening.Add(time.Hour), 499))
	}
}

// Buyers, policies and tallies of the same key are different things.
func TestSalesAreNoCounts(t *testing.T) {
	s := openStall(t, plain(1), 1<<12)
	p := perMinute(t, 5)
	one := []sale.Buyer{{Key: 7, Crowds: 1}}
	f := limiter.Candidate{Key: 7, Proof: &limiter.Proof{Key: 7, Expires: opening.Add(time.Minute)}}
	_, v := s.m.Take(opening, p, &f, 1)
	require.True(t, v.Admitted)
	require.Equal(t, sale.Sale{Granted: true, Price: 1000}, s.redeem(opening, one, 7, 1000))
	require.Equal(t, int64(2000), s.quote(opening, one).Price)
	_, v = s.m.Take(opening, p, &limiter.Candidate{Key: 7}, 0)
	require.Equal(t, int64(4), v.Limits[0].Remaining)
	require.True(t, s.redeem(opening, one, 7, 0).Held)
}
