// SPDX-License-Identifier: Apache-2.0

package sale_test

import (
	"errors"
	"github.com/tallystick/tallystick/internal/limiter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/sale"
	"github.com/tallystick/tallystick/proof/kit"
)

// Every refusal names its field, and all come at once.
func TestTariffRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*sale.Tariff)
		want   []string
	}{
		"good":                {func(*sale.Tariff) {}, nil},
		"least":               {func(f *sale.Tariff) { *f = sale.Tariff{Work: 16, Crowd: 1, SalesPerHour: 1} }, nil},
		"most":                {func(f *sale.Tariff) { *f = sale.Tariff{Work: 1 << 29, Crowd: 255, SalesPerHour: 100_000} }, nil},
		"no work":             {func(f *sale.Tariff) { f.Work = 0 }, []string{"Work"}},
		"too little work":     {func(f *sale.Tariff) { f.Work = 15 }, []string{"Work"}},
		"negative work":       {func(f *sale.Tariff) { f.Work = -1 << 20 }, []string{"Work"}},
		"too much work":       {func(f *sale.Tariff) { f.Work = 1<<29 + 1 }, []string{"Work"}},
		"no crowd":            {func(f *sale.Tariff) { f.Crowd = 0 }, []string{"Crowd"}},
		"negative crowd":      {func(f *sale.Tariff) { f.Crowd = -8 }, []string{"Crowd"}},
		"too large a crowd":   {func(f *sale.Tariff) { f.Crowd = 256 }, []string{"Crowd"}},
		"no leak":             {func(f *sale.Tariff) { f.SalesPerHour = 0 }, []string{"SalesPerHour"}},
		"negative leak":       {func(f *sale.Tariff) { f.SalesPerHour = -32 }, []string{"SalesPerHour"}},
		"too large a leak":    {func(f *sale.Tariff) { f.SalesPerHour = 100_001 }, []string{"SalesPerHour"}},
		"all of them at once": {func(f *sale.Tariff) { *f = sale.Tariff{} }, []string{"Work", "Crowd", "SalesPerHour"}},
	} {
		t.Run(name, func(t *testing.T) {
			tariff := plain(8)
			tt.change(&tariff)
			prices, err := tariff.Compile()
			if tt.want == nil {
				require.NoError(t, err)
				require.NotNil(t, prices)
				return
			}
			require.Nil(t, prices)
			var got []string
			for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
				var c *limiter.Problem
				require.True(t, errors.As(e, &c))
				require.Contains(t, c.Problem, "must be")
				got = append(got, c.Field)
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// The price of each level rises in a straight line from one doubling to the next, a
// doubling for every crowd of it, and a hash below what is enough for it buys nothing.
func TestPriceLadder(t *testing.T) {
	for name, level := range map[string]struct {
		crowds int
		buyers func(s *stall, n int) []sale.Buyer
	}{
		"address": {1, func(s *stall, _ int) []sale.Buyer { return s.address(0) }},
		"/64":     {1, func(s *stall, _ int) []sale.Buyer { return s.host(0, 0, 0) }},
		"/56":     {8, func(s *stall, n int) []sale.Buyer { return s.host(n, 0, 0) }},
		"/48":     {64, func(s *stall, n int) []sale.Buyer { return s.host(n, n, 0) }},
	} {
		for _, crowd := range []int{1, 3, 8} {
			t.Run(name, func(t *testing.T) {
				s := openStall(t, plain(int64(crowd)), 1<<16)
				whole := int64(crowd * level.crowds)
				for n := range 5 * whole {
					doubled := int64(1000) << (n / whole)
					price := doubled + (doubled*(n%whole)+whole-1)/whole
					buyers := level.buyers(s, int(n))
					require.Equal(t, sale.Sale{Price: price}, s.offer(opening, buyers, leastFor(price)-1), "sale %d", n)
					require.Equal(t, price, s.buy(opening, buyers), "sale %d", n)
				}
			})
		}
	}
}

// Of the levels the dearest counts, whichever it is.
func TestHighestPriceCounts(t *testing.T) {
	const crowd = 2
	for _, row := range []struct{ sold64, sold56, sold48, price int64 }{
		{0, 0, 0, 1000},
		{1, 0, 0, 1500},
		{2, 0, 0, 2000},
		{8, 0, 0, 16000},
		{0, 16, 0, 2000},
		{0, 24, 0, 3000},
		{0, 64, 0, 16000},
		{0, 0, 128, 2000},
		{0, 0, 383, 7969},
		{2, 32, 0, 4000},
		{6, 16, 128, 8000},
		{7, 63, 512, 16000},
		{7, 64, 511, 16000},
		{8, 63, 511, 16000},
	} {
		s := openStall(t, plain(crowd), 1<<12)
		buyers := s.host(0, 0, 0)
		for i, sold := range []int64{row.sold64, row.sold56, row.sold48} {
			for range sold {
				s.buy(opening, buyers[i:i+1])
			}
		}
		require.Equal(t, row.price, s.quote(opening, buyers).Price, "%+v", row)
		require.False(t, s.offer(opening, buyers, leastFor(row.price)-1).Granted)
		require.True(t, s.offer(opening, buyers, leastFor(row.price)).Granted)
		for i, sold := range []int64{row.sold64, row.sold56, row.sold48} {
			s.requireCount(opening, buyers[i], int(sold+1))
		}
	}
}

// A network may be expected to hold any number of crowds. More than a cell can count
// are as few as it can: a level that wrapped would begin the ladder anew.
func TestLevelNeverWraps(t *testing.T) {
	for _, tariff := range []sale.Tariff{
		{Work: 16, Crowd: 255, SalesPerHour: 1}, // the ledger that lasts longest
		{Work: 16, Crowd: 255, SalesPerHour: 100_000}, {Work: 1 << 18, Crowd: 64, SalesPerHour: 32}, {Work: 1 << 29, Crowd: 255, SalesPerHour: 42},
	} {
		for _, crowds := range []int64{1<<63 - 1, 1<<31 - 1, 2184} {
			if kit.Brief() && crowds != 1<<63-1 {
				continue
			}
			s := openStall(t, tariff, 1<<10)
			huge := []sale.Buyer{{Key: 1, Crowds: crowds}}
			price := int64(0)
			for n := 0; ; n++ {
				sale := s.prices.Redeem(opening, s.m, huge, 7, time.Unix(1, 0), 1<<40)
				if !sale.Granted {
					require.Zero(t, sale.Price)
					break
				}
				require.GreaterOrEqual(t, sale.Price, price, "sale %d", n)
				price = sale.Price
				require.Less(t, n, 1<<16)
			}
			require.Greater(t, price, int64(sale.MaxPrice*9/10))
			require.LessOrEqual(t, s.requireExactWait(opening, huge), time.Hour/time.Duration(tariff.SalesPerHour)+time.Second)
			all := time.Duration(30*tariff.Crowd) * time.Hour / time.Duration(tariff.SalesPerHour)
			for n := range 100 { // no stranger takes its cell for one that a wrong clock has written
				s.prices.Redeem(opening, s.m, s.address(n), s.ware(), opening.Add(time.Minute), 1<<40)
			}
			require.Zero(t, s.quote(opening, huge).Price)
			require.Equal(t, tariff.Work, s.quote(opening.Add(all), huge).Price)
		}
	}
}

// A buyer of no crowds is one of one: a mistake is no free pass. Without buyers there
// is no sale.
func TestBuyerOfNoCrowds(t *testing.T) {
	for _, crowds := range []int64{0, -1, -1 << 63} {
		s := openStall(t, plain(8), 1<<10)
		none := []sale.Buyer{{Key: 1, Crowds: crowds}}
		require.Equal(t, s.spend(opening, s.address(0), 120_000), s.spend(opening, none, 120_000))
	}
	require.False(t, openStall(t, plain(8), 1).offer(opening, nil, 1<<40).Granted)
}
