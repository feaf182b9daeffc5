// SPDX-License-Identifier: Apache-2.0

package sale_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
	"github.com/tallystick/tallystick/proof/kit"
)

// host4 is the n-th IPv4 address of a provider.
func (s *stall) host4(provider, n int) []sale.Buyer {
	return []sale.Buyer{{Key: numbered(s.m, 'a', provider<<32|n), Crowds: 1, Provider: uint64(provider)}}
}

// host6 is a host in the n-th /48 of a provider.
func (s *stall) host6(provider, n int) []sale.Buyer {
	n |= provider << 32
	return []sale.Buyer{
		{Key: numbered(s.m, '6', n), Crowds: 1, Provider: uint64(provider)},
		{Key: numbered(s.m, '5', n), Crowds: 2},
		{Key: numbered(s.m, '4', n), Crowds: 8},
	}
}

// flood buys a tally for each of n hosts, if it costs no more than the first, and returns how many were sold.
func (s *stall) flood(now time.Time, n int, host func(n int) []sale.Buyer) (sold int) {
	for i := range n {
		if s.prices.Redeem(now, s.m, host(i), s.ware(), now.Add(20*time.Second), s.tariff.Work).Granted {
			sold++
		}
	}
	return sold
}

// One network shuts out no client from elsewhere, with any purchases: 723 sales from one IPv6 /29 did, of
// a memory for 4,096 clients. Four of them have what there is, for as long as sales are held.
func TestOneNetworkLeavesTheSalesToOthers(t *testing.T) {
	for name, row := range map[string]struct {
		clients, networks, hosts int
		wide                     bool
		newcomers, least         int // from elsewhere, and how many of them buy
	}{
		"nobody":                      {4096, 0, 0, true, 1000, 940},
		"723 hosts of a /29":          {4096, 1, 723, true, 1000, 820},
		"20,000 hosts of a /29":       {4096, 1, 20_000, true, 1000, 820},
		"20,000 hosts of a /16":       {4096, 1, 20_000, false, 1000, 820},
		"few newcomers, two /16s":     {4096, 2, 20_000, false, 300, 260},
		"few newcomers, a small site": {1024, 1, 20_000, false, 150, 120},
		"a /29, by default":           {65_536, 1, 100_000, true, 1000, 995},
		"three /16s, by default":      {65_536, 3, 50_000, false, 1000, 650},
		"four /16s, by default":       {65_536, 4, 50_000, false, 1000, 50},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStall(t, usual, row.clients)
			sold := 0
			for network := range row.networks {
				host := s.host4
				if row.wide {
					host = s.host6
				}
				sold += s.flood(opening, row.hosts, func(n int) []sale.Buyer { return host(1+network, n) })
			}
			in := s.flood(opening, row.newcomers, func(n int) []sale.Buyer { return s.host4(100+n%50, n) })
			t.Logf("%d sales, and %d of %d newcomers", sold, in, row.newcomers)
			require.GreaterOrEqual(t, in, row.least)
		})
	}
}

// In a network that has its part an honest newcomer meets a price, and no wall: it pays as if it were behind one
// address with the others that share its set. A buyer with a ledger goes on with it, and a proof that is shown again
// is the same sale.
func TestInANetworkThatHasItsPart(t *testing.T) {
	for name, wide := range map[string]bool{"IPv4": false, "IPv6": true} {
		t.Run(name, func(t *testing.T) {
			s := openStall(t, plain(8), 4096)
			host := func(n int) []sale.Buyer { return s.host4(1, n) }
			if wide {
				host = func(n int) []sale.Buyer { return s.host6(1, n) }
			}
			s.flood(opening, 5000, host)
			known, dear := s.quote(opening, host(0)), int64(0)
			require.EqualValues(t, 1125, known.Price, "its own ledger: one was sold")
			for n := range 1000 {
				q := s.quote(opening, host(10_000+n))
				require.Positive(t, q.Price)
				require.LessOrEqual(t, q.Price, int64(2000), "more the flood has not paid")
				dear = max(dear, q.Price)
			}
			require.Greater(t, dear, int64(1500))

			newcomer := host(20_000)
			before, tally := s.quote(opening, newcomer).Price, s.ware()
			require.True(t, s.redeem(opening, newcomer, tally, before).Granted)
			after := s.quote(opening, newcomer).Price
			require.Greater(t, after, before, "it pays for what it has bought")
			require.True(t, s.redeem(opening, newcomer, tally, 0).Held, "a lost answer")
			require.False(t, s.redeem(opening, newcomer, s.ware(), 0).Granted, "another is another")
			require.Equal(t, after, s.quote(opening, newcomer).Price)
			elsewhere := s.quote(opening, s.host4(2, 1))
			require.EqualValues(t, 1000, elsewhere.Price)

			if wide { // another host of its /48
				other := append(s.host6(1, 30_000)[:1], newcomer[1:]...)
				require.Equal(t, after, s.quote(opening, other).Price, "all of a network pay as one identity")
			}
			for range 30 {
				s.buy(opening, newcomer)
			}
			require.Greater(t, s.quote(opening, newcomer).Price, 8*after, "as one identity")
			after = s.quote(opening, newcomer).Price

			later := opening.Add(10 * time.Minute)
			require.Less(t, s.quote(later, newcomer).Price, after, "it leaks")
			require.Greater(t, s.quote(later, newcomer).Price, int64(1000), "and is not forgotten")
			rooms := opening.Add(31 * time.Minute) // the network has room again
			require.Greater(t, s.quote(rooms, newcomer).Price, int64(map[bool]int{false: 4000, true: 1000}[wide]), "nor then")
			s.buy(rooms, newcomer)
			require.EqualValues(t, 1000, s.quote(rooms.Add(2*time.Hour), newcomer).Price)
		})
	}
}

// A buyer that had a ledger, and has let it end, is a newcomer like others: it has no cell of its own again while its
// network has its part.
func TestADeadLedgerIsNoRoom(t *testing.T) {
	s := openStall(t, plain(8), 4096)
	host := func(from int) func(int) []sale.Buyer {
		return func(n int) []sale.Buyer { return s.host4(1, from+n) }
	}
	s.flood(opening, 5000, host(0))
	later := opening.Add(10 * time.Minute)
	s.flood(later, 5000, host(10_000))
	for n := range 50 {
		require.Greater(t, s.quote(later, host(0)(n)).Price, int64(1000), "it pays what newcomers of its set pay")
	}
}

// Whether its network has room or not, no identity buys more than its own ledger would sell.
func TestSharingSellsNobodyMore(t *testing.T) {
	seeds(t, 12, func(t *testing.T, r *rand.Rand) {
		s := openStall(t, plain(4), 256)
		alone := openStall(t, plain(4), 1<<16) // where it has no neighbours
		now, n := opening, 0
		mine := func(s *stall) []sale.Buyer { return s.host6(1, 1<<30) }
		for range 400 {
			switch r.IntN(8) {
			case 0:
				now = now.Add(time.Duration(r.Int64N(int64(5 * time.Minute))))
			case 1:
				s.flood(now, 200, func(i int) []sale.Buyer { return s.host6(1, n+i) })
				n += 200
			default:
				work := 1000 + r.Int64N(6000)
				if s.offer(now, mine(s), work).Granted {
					require.True(t, alone.offer(now, mine(alone), work).Granted)
				}
			}
		}
	})
}

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
