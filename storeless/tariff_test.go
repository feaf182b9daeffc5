package storeless_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/storeless"
)

// Every refusal names its field, and all come at once.
func TestTariffRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*storeless.Tariff)
		want   []string
	}{
		"good":                {func(*storeless.Tariff) {}, nil},
		"least":               {func(f *storeless.Tariff) { *f = storeless.Tariff{Work: 16, Crowd: 1, Memory: time.Minute} }, nil},
		"most":                {func(f *storeless.Tariff) { *f = storeless.Tariff{Work: 1 << 29, Crowd: 255, Memory: 24 * time.Hour} }, nil},
		"no work":             {func(f *storeless.Tariff) { f.Work = 0 }, []string{"Work"}},
		"too little work":     {func(f *storeless.Tariff) { f.Work = 15 }, []string{"Work"}},
		"negative work":       {func(f *storeless.Tariff) { f.Work = -1 << 20 }, []string{"Work"}},
		"too much work":       {func(f *storeless.Tariff) { f.Work = 1<<29 + 1 }, []string{"Work"}},
		"no crowd":            {func(f *storeless.Tariff) { f.Crowd = 0 }, []string{"Crowd"}},
		"negative crowd":      {func(f *storeless.Tariff) { f.Crowd = -8 }, []string{"Crowd"}},
		"too large a crowd":   {func(f *storeless.Tariff) { f.Crowd = 256 }, []string{"Crowd"}},
		"no memory":           {func(f *storeless.Tariff) { f.Memory = 0 }, []string{"Memory"}},
		"negative memory":     {func(f *storeless.Tariff) { f.Memory = -time.Hour }, []string{"Memory"}},
		"too short a memory":  {func(f *storeless.Tariff) { f.Memory = 59 * time.Second }, []string{"Memory"}},
		"too long a memory":   {func(f *storeless.Tariff) { f.Memory = 24*time.Hour + time.Second }, []string{"Memory"}},
		"half a second":       {func(f *storeless.Tariff) { f.Memory = time.Hour + time.Second/2 }, []string{"Memory"}},
		"all of them at once": {func(f *storeless.Tariff) { *f = storeless.Tariff{} }, []string{"Work", "Crowd", "Memory"}},
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
				var c *storeless.ConfigError
				require.True(t, errors.As(e, &c))
				require.Contains(t, c.Problem, "must be")
				got = append(got, c.Field)
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// The price of each level doubles with every further crowd of it, to eight times
// the base; then nothing is for sale, and a hash too few buys nothing.
func TestPriceLadder(t *testing.T) {
	for name, level := range map[string]struct {
		crowds int
		buyers func(s *shop, n int) []storeless.Buyer
	}{
		"address": {1, func(s *shop, _ int) []storeless.Buyer { return s.address(0) }},
		"/64":     {1, func(s *shop, _ int) []storeless.Buyer { return s.host(0, 0, 0) }},
		"/56":     {8, func(s *shop, n int) []storeless.Buyer { return s.host(n, 0, 0) }},
		"/48":     {64, func(s *shop, n int) []storeless.Buyer { return s.host(n, n, 0) }},
	} {
		for _, crowd := range []int{1, 3, 8} {
			t.Run(name, func(t *testing.T) {
				s := openShop(t, plain(int64(crowd)), 1<<16)
				for n := range storeless.MaxCrowds * crowd * level.crowds {
					price := int64(1000) << (n / (crowd * level.crowds))
					buyers := level.buyers(s, n)
					require.Equal(t, storeless.Sale{Price: price}, s.offer(opening, buyers, price-1), "sale %d", n)
					require.Equal(t, price, s.buy(opening, buyers), "sale %d", n)
				}
				buyers := level.buyers(s, 1<<20)
				sale := s.offer(opening, buyers, 1<<40)
				require.Equal(t, storeless.Sale{Wait: 80 * time.Minute}, sale, "no work buys more")
				s.requireExactWait(opening, buyers)
			})
		}
	}
}

// Of the levels the dearest counts, whichever it is, and one that is sold out
// closes the shop until it opens.
func TestHighestPriceCounts(t *testing.T) {
	const crowd = 2
	for _, row := range []struct{ sold64, sold56, sold48, price int64 }{
		{0, 0, 0, 1000},
		{2, 0, 0, 2000},
		{4, 0, 0, 4000},
		{6, 0, 0, 8000},
		{8, 0, 0, 0},
		{0, 16, 0, 2000},
		{0, 48, 0, 8000},
		{0, 64, 0, 0},
		{0, 0, 128, 2000},
		{0, 0, 383, 4000},
		{0, 0, 512, 0},
		{2, 32, 0, 4000},
		{6, 16, 128, 8000},
		{7, 63, 511, 8000},
		{7, 63, 512, 0},
		{7, 64, 511, 0},
		{8, 63, 511, 0},
	} {
		s := openShop(t, plain(crowd), 1<<12)
		buyers := s.host(0, 0, 0)
		for i, sold := range []int64{row.sold64, row.sold56, row.sold48} {
			for range sold {
				s.buy(opening, buyers[i:i+1])
			}
		}
		require.Equal(t, row.price, s.quote(opening, buyers).Price, "%+v", row)
		require.Equal(t, row.price > 0, s.offer(opening, buyers, max(row.price, 1)).Granted)
		for i, sold := range []int64{row.sold64, row.sold56, row.sold48} {
			if row.price > 0 {
				sold++
			}
			s.requireCount(opening, buyers[i], int(sold))
		}
	}
}

// A network may be expected to hold any number of crowds. What a ledger cannot
// count it does not sell: a count that wrapped would begin the ladder anew.
func TestLedgerNeverWraps(t *testing.T) {
	for _, slots := range []int{1, 3} {
		s := openShop(t, storeless.Tariff{Work: 1000, Crowd: 255, Memory: time.Hour}, 1<<10)
		huge := []storeless.Buyer{{Key: 1, Crowds: 1<<31 - 1}}
		now, sold := opening, 0
		for n := range slots {
			now = opening.Add(time.Duration(n) * s.slot())
			for range (1<<16 + 10) / slots {
				if s.m.Redeem(now, s.prices, huge, 7, now, 1000).Granted {
					sold++
				}
			}
		}
		require.Equal(t, 1<<16-1, sold)
		require.False(t, s.offer(now, huge, 1<<40).Granted)
		s.requireExactWait(now, huge)
	}
}

// A buyer of no crowds can buy nothing: a mistake must not be a free pass.
func TestBuyerOfNoCrowds(t *testing.T) {
	s := openShop(t, plain(8), 1)
	for _, crowds := range []int64{0, -1, -1 << 40} {
		sale := s.offer(opening, []storeless.Buyer{{Key: 1, Crowds: crowds}}, 1<<40)
		require.False(t, sale.Granted)
		require.Zero(t, sale.Price)
		require.Positive(t, sale.Wait)
	}
	require.False(t, s.offer(opening, nil, 1<<40).Granted, "nor can nobody")
}
