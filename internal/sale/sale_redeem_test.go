// SPDX-License-Identifier: Apache-2.0

package sale_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
	"github.com/tallystick/tallystick/proof/kit"
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
	prices := kit.Must(plain(1).Compile())(t)
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

// All levels are checked and counted in one step: with any number of buyers, and any
// decisions in the same stripes, no level sells more than the work buys, none loses a
// sale, and no buyer waits for ever.
func TestLevelsAreAtomic(t *testing.T) {
	for name, row := range map[string]struct{ n64, n56, tries, want int }{
		"the /64s are too dear": {20, 20, 20, 20 * 3},
		"the /56s are too dear": {40, 4, 6, 4 * 24},
		"the /48 is too dear":   {100, 20, 4, 2*64 + 56 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStall(t, plain(1), 1<<12)
			p := perMinute(t, 1<<30)
			var granted atomic.Int64
			kit.Together(8, func(worker int) {
				for n := worker; n < row.n64*row.tries; n += 8 {
					i := n % row.n64
					buyers := s.host(i, i%row.n56, 0)
					candidate := limiter.Candidate{
						Key:      buyers[0].Key,
						Networks: []limiter.Network{{Key: buyers[1].Key, Policy: p}, {Key: buyers[2].Key, Policy: p}},
						Proof:    &limiter.Proof{Key: numbered(s.m, 'p', n), Expires: opening.Add(time.Minute)},
					}
					s.m.Take(opening, p, &candidate, 1)
					s.prices.Quote(opening, s.m, buyers)
					if s.redeem(opening, buyers, numbered(s.m, 'x', n), 4000).Granted {
						granted.Add(1)
					}
				}
			})
			require.Equal(t, int64(row.want), granted.Load())
			s.requireCount(opening, s.host(0, 0, 0)[2], row.want)
			sum := int64(0)
			for n := range row.n56 {
				sum += s.count(opening, s.host(0, n, 0)[1])
			}
			require.EqualValues(t, row.want, sum)
			sum = 0
			for n := range row.n64 {
				sum += s.count(opening, s.host(n, 0, 0)[0])
			}
			require.EqualValues(t, row.want, sum)
			require.Zero(t, s.m.Saturations())
		})
	}
}

// A buyer named twice, and one in the stripe of the tally, is locked once.
func TestLocksOfTheSameStripe(t *testing.T) {
	s := openStall(t, plain(2), 1) // one stripe
	b := s.address(0)[0]
	require.True(t, s.redeem(opening, []sale.Buyer{b, b, b}, b.Key, 1000).Granted)
	require.Equal(t, int64(1), s.count(opening, b))
	large := openStall(t, plain(2), 1<<16) // and many
	for n := range 2000 {
		require.True(t, large.redeem(opening, large.host(n, n, n), large.ware(), 1000).Granted)
	}
}

// TestRedeemsAtOnce sells to one buyer from several goroutines, each with tallies
// of its own, until the price is above what they have worked: a sale that is lost is
// one too many.
func TestRedeemsAtOnce(t *testing.T) {
	s := openStall(t, sale.Tariff{Work: 1000, Crowd: 255, SalesPerHour: 1020}, 1<<16)
	buyers := s.address(0)
	for round := range 20 {
		now := opening.Add(time.Duration(round) * time.Hour)
		var sold atomic.Int64
		kit.Together(4, func(g int) {
			for n := range 600 {
				if s.redeem(now, buyers, numbered(s.m, byte(g), round<<16+n), 4000).Granted {
					sold.Add(1)
				}
			}
		})
		require.EqualValues(t, 2*255+223+1, sold.Load(), "two crowds, and 7/8 of one, to the tally that costs 7500")
	}
}

// Everything that takes locks, at once and over few keys, in a memory of one
// stripe, where all is in the way of all, and in one of many, where the order of
// locks matters. No caller waits for ever, no proof buys two requests, no tally
// of a memory with room gets more than its quota, and no buyer more than is
// sold.
func TestEverythingInParallel(t *testing.T) {
	const workers, rounds, keys, quota = 16, 300, 10, 40
	for name, tallies := range map[string]int{"one full stripe": 1, "many stripes": 8000} {
		t.Run(name, func(t *testing.T) {
			s := openStall(t, plain(1), tallies)
			p := perMinute(t, quota)
			wide := p.Scale(3)
			var admitted, networks, bought, spent [keys]atomic.Int64
			kit.Together(workers, func(worker int) {
				r := rand.New(rand.NewPCG(uint64(worker), 4))
				for range rounds {
					a, b, c := r.IntN(keys), r.IntN(keys), r.IntN(keys)
					f := limiter.Candidate{Key: numbered(s.m, 'f', a), Provider: uint64(r.IntN(3))}
					if r.IntN(2) == 0 {
						f.Networks = []limiter.Network{{Key: numbered(s.m, 'n', b), Policy: wide}, {Key: numbered(s.m, 'n', c), Policy: wide}}[:1+min(1, max(b-c, c-b))]
					}
					if r.IntN(3) == 0 {
						f.Proof = &limiter.Proof{Key: numbered(s.m, 'p', c), Expires: opening.Add(time.Minute)}
					}
					buyers := []sale.Buyer{{Key: numbered(s.m, 'a', a), Crowds: 1}, {Key: numbered(s.m, 'a', b), Crowds: 2}, {Key: numbered(s.m, 'a', c), Crowds: 3}}
					switch r.IntN(5) {
					case 0:
						// Each uint64(worker) sells wares of its own, and one of all.
						tally := numbered(s.m, 'w', worker*rounds+b)
						if sale := s.prices.Redeem(opening, s.m, buyers[:1], tally, opening.Add(time.Hour), 8000); sale.Granted && !sale.Held {
							bought[a].Add(1)
						}
						s.prices.Redeem(opening, s.m, buyers[1:2], buyers[2].Key, opening.Add(time.Hour), 16)
					case 1:
						s.prices.Quote(opening, s.m, buyers)
					case 2:
						s.m.Peek(opening, p, &f, 1)
					default:
						_, v := s.m.Take(opening, p, &f, 1)
						if !v.Admitted {
							continue
						}
						admitted[a].Add(1)
						if f.Proof != nil {
							spent[c].Add(1)
						}
						for i := range f.Networks {
							networks[[]int{b, c}[i]].Add(1)
						}
					}
				}
			})
			for n := range keys {
				require.LessOrEqual(t, spent[n].Load(), int64(1), "proof %d", n)
				require.LessOrEqual(t, bought[n].Load(), int64(5), "buyer %d: 8000 is half of what the fifth costs", n)
			}
			if tallies == 1 {
				require.Positive(t, s.m.Saturations(), "the workload fills the memory")
			} else {
				require.Zero(t, s.m.Saturations())
				requireCounts(t, s.m, p, 'f', &admitted, quota)
				requireCounts(t, s.m, wide, 'n', &networks, 3*quota)
			}
			requireNoLockHeld(t, s, p)
		})
	}
}

// requireCounts checks that what was admitted is what the memory holds.
func requireCounts(t *testing.T, m *limiter.Memory, p *limiter.Policy, kind byte, admitted *[10]atomic.Int64, quota int64) {
	t.Helper()
	total := int64(0)
	for n := range admitted {
		got := admitted[n].Load()
		require.LessOrEqual(t, got, quota, "%c%d", kind, n)
		require.Equal(t, quota-got, m.Peek(opening, p, &limiter.Candidate{Key: numbered(m, kind, n)}, 0).Limits[0].Remaining, "%c%d", kind, n)
		total += got
	}
	require.Greater(t, total, quota, "the workload admits")
}

// requireNoLockHeld passes through every stripe of both tables, or hangs.
func requireNoLockHeld(t *testing.T, s *stall, p *limiter.Policy) {
	t.Helper()
	for n := range 2000 {
		f := limiter.Candidate{Key: numbered(s.m, 'x', n), Proof: &limiter.Proof{Key: numbered(s.m, 'y', n), Expires: opening.Add(time.Minute)}}
		s.m.Take(opening, p, &f, 1)
	}
}

// A sale waits for each of its stripes: its check and its records, for all buyers, are one step.
func TestEveryStripeIsHeld(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s := openStall(t, sale.Tariff{Work: 16, Crowd: 8, SalesPerHour: 32}, 1<<16)
	all := s.m.Paid().Stripes
	at := func(stripe int) limiter.Key {
		return limiter.Key(stripe)<<32*limiter.Key(1<<32/len(all)) | 1<<20
	}
	buyers := []sale.Buyer{{Key: at(2), Crowds: 1}, {Key: at(8), Crowds: 8}, {Key: at(4), Crowds: 64}}
	for i, key := range []limiter.Key{at(2), at(8), at(4), at(6)} {
		lock := &all[all.Of(uint64(key))]
		if i < len(buyers) {
			kit.Waits(t, lock, func() { s.quote(opening, buyers) }, fmt.Sprint("Quote, key ", i))
		}
		kit.Waits(t, lock, func() { s.redeem(opening, buyers, at(6), 16) }, fmt.Sprint("Redeem, key ", i))
	}
}
