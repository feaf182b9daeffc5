// SPDX-License-Identifier: Apache-2.0

package shop_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/shop"
)

// block is the address 0, to a client in a block of its ports.
func (s *stall) block(n int) []shop.Buyer {
	all := s.address(0)
	all[0].Block = uint8(n)
	return all
}

// A blockDiary is what the ledgers of an address should say, in floating point: the levels
// leak evenly, each live one as fast as the others, and no faster than with three others.
type blockDiary struct {
	levels [17]float64
	at     time.Time
}

func (d *blockDiary) sum() (level float64) {
	for _, l := range d.levels {
		level += l
	}
	return level
}

func (d *blockDiary) until(tariff shop.Tariff, now time.Time) {
	left := float64(now.Unix() - d.at.Unix())
	d.at = now
	for left > 0 && d.sum() > 0 {
		live, least := 0.0, math.Inf(1)
		for _, l := range d.levels {
			if l > 0 {
				live, least = live+1, min(least, l)
			}
		}
		rate := float64(tariff.SalesPerHour) / 3600 / max(4, live)
		step := min(left, least/rate)
		for i, l := range d.levels {
			if d.levels[i] = l - rate*step; d.levels[i] < 1e-9 {
				d.levels[i] = 0
			}
		}
		left -= step
	}
}

// price is what a tally costs in a block, if each level is higher by so much.
func (d *blockDiary) price(tariff shop.Tariff, n int, more float64) float64 {
	sum, own := d.sum()+16*more, d.levels[n]+more
	return priceAt(tariff, max(sum, 8*own))
}

// Whatever the timing and whichever the blocks: the price is that of the rule, and all
// blocks together sell no more than an address without them.
func TestBlocksCostTheFormula(t *testing.T) {
	closed, apart := 0, 0
	seeds(t, 40, func(t *testing.T, r *rand.Rand) {
		c := newCampaign(t, r)
		s, d := c.shops[0], blockDiary{at: c.now}
		own := r.Perm(16)[:[]int{1, 2, 4, 7, 16}[r.IntN(5)]]
		sold := 0.0
		for range 600 {
			n := 1 + own[r.IntN(len(own))]
			c.pass(s, s.block(n))
			d.until(c.tariff, c.now)
			q := s.quote(c.now, s.block(n))
			// Each sale, and each block that has run dry, may have rounded up once; a
			// block that runs dry leaves the others its part a second late.
			late := 4 * float64(c.tariff.SalesPerHour) / 3600
			most := d.price(c.tariff, n, 17*sold/(1<<15)+late)
			if q.Price == 0 {
				closed++
				require.Greater(t, most*(1+1e-9), float64(shop.MaxPrice))
				s.requireExactWait(c.now, s.block(n))
				require.False(t, s.offer(c.now, s.block(n), math.MaxInt64).Granted)
				continue
			}
			require.GreaterOrEqual(t, float64(q.Price), d.price(c.tariff, n, 0)*(1-1e-9))
			require.LessOrEqual(t, float64(q.Price), most*(1+1e-9)+1)
			if 8*d.levels[n] > d.sum() {
				apart++
			}
			least := s.leastOfBlock(c.now, n)
			require.False(t, s.offer(c.now, s.block(n), least-1).Granted)
			require.Equal(t, shop.Sale{Granted: true, Price: q.Price}, s.offer(c.now, s.block(n), least))
			c.log = append(c.log, record{c.now.Unix(), c.lives[0], least})
			d.levels[n]++
			sold++
		}
		c.requireBound(t)
		require.NotEmpty(t, c.log)
	})
	require.Greater(t, closed, 10, "the highest price is reached")
	require.Greater(t, apart, 100, "and a block pays for itself")
}

// Buyers that spend as well as they can, in so many blocks: always in the cheapest, up to
// any price. All of them stay below the formula of an address; with one block, of a
// quarter of the leak and an eighth of the crowds.
func TestGreedyBuyersInBlocks(t *testing.T) {
	for _, tariff := range []shop.Tariff{plain(1), plain(8), usual, {Work: 1 << 18, Crowd: 8, SalesPerHour: 32}, {Work: 16, Crowd: 32, SalesPerHour: 7680}} {
		for _, blocks := range []int{1, 4, 7, 16} {
			nearest := 0.0
			for _, most := range []float64{1, 1.5, 4, 64, 1 << 12, 1 << 14} { // times Work
				s := openStall(t, tariff, 1<<14) // with room for every sale: in 1<<12 one run of a hundred had none
				paid, n := 0.0, 0
				step := max(time.Second, time.Hour/time.Duration(4*tariff.SalesPerHour))
				for at := time.Duration(0); at <= 3*fourCrowds(tariff); at += step {
					for {
						cheapest, price := 0, int64(math.MaxInt64)
						for i := 1; i <= blocks; i++ {
							if q := s.quote(opening.Add(at), s.block(i)); q.Price > 0 && q.Price < price {
								cheapest, price = i, q.Price
							}
						}
						if float64(price) > most*float64(tariff.Work) {
							break
						}
						work := s.leastOfBlock(opening.Add(at), cheapest)
						require.True(t, s.offer(opening.Add(at), s.block(cheapest), work).Granted)
						paid += float64(work)
						n++
					}
					formula := mostTallies(tariff, paid, at)
					if blocks == 1 {
						formula = float64(tariff.SalesPerHour)/4*at.Hours() + float64(tariff.Crowd)/8*math.Log2(most) + 1
					}
					require.LessOrEqual(t, float64(n), formula*(1+1e-9), "%d blocks, %v W", blocks, most)
					nearest = max(nearest, float64(n)/formula)
				}
			}
			require.Greater(t, nearest, 0.5, "%d blocks", blocks)
			t.Logf("%+v, %d blocks: %.2f of the formula", tariff, blocks, nearest)
		}
	}
}

// One block fills its ledger before the next is touched: the dearest state there is.
func TestFullBlocksStayBelowTheFormula(t *testing.T) {
	for _, crowd := range []int64{1, 8, 64} {
		s, paid, n := openStall(t, shop.Tariff{Work: 16, Crowd: crowd, SalesPerHour: 1}, 1<<14), 0.0, 0
		for i := 1; i <= 16; i++ {
			for {
				q := s.quote(opening, s.block(i))
				if q.Price == 0 {
					break
				}
				least := s.leastOfBlock(opening, i)
				require.True(t, s.offer(opening, s.block(i), least).Granted)
				paid, n = paid+float64(least), n+1
				require.LessOrEqual(t, float64(n), mostTallies(s.tariff, paid, 0)*(1+1e-9))
			}
		}
		require.Greater(t, float64(n), 0.9*mostTallies(s.tariff, paid, 0), "and come near it")
	}
}

// What one block holds at any price costs the others the eighth root of it.
func TestOneBlockHardlyMovesTheOthers(t *testing.T) {
	s := openStall(t, usual, 0)
	n := s.buyOut(opening, s.block(3))
	require.EqualValues(t, 14*64/8+1, n, "fourteen doublings of an eighth of a Crowd, and one")
	require.Zero(t, s.quote(opening, s.block(3)).Price)
	for _, other := range []int{1, 2, 4, 16} {
		require.EqualValues(t, priceAt(usual, float64(n)), s.quote(opening, s.block(other)).Price)
	}
	require.EqualValues(t, usual.Work, s.quote(opening, s.address(0)).Price, "without a block is counted apart")
	require.Equal(t, s.quote(opening, s.block(16)), s.quote(opening, s.block(255)))
}

// The prices of the ladder, to the hash: eight levels a sale in the own block, one elsewhere.
func TestBlockLadder(t *testing.T) {
	s := openStall(t, plain(8), 0)
	var own, other []int64
	for range 5 {
		own = append(own, s.buy(opening, s.block(1)))
		other = append(other, s.quote(opening, s.block(2)).Price)
	}
	require.Equal(t, []int64{1000, 2000, 4000, 8000, 16000}, own)
	require.Equal(t, []int64{1125, 1250, 1375, 1500, 1625}, other)
	s = openStall(t, plain(8), 0)
	for i := range 16 {
		require.EqualValues(t, priceAt(s.tariff, float64(i)), s.buy(opening, s.block(1+i)), "the sum of all")
	}
}

// A block has a quarter of the leak at most, and less where more than four are live.
func TestBlocksShareTheLeak(t *testing.T) {
	for live, part := range map[int]int{1: 4, 2: 4, 4: 4, 8: 8, 16: 16} {
		s := openStall(t, plain(8), 0)
		for i := range live {
			s.buy(opening, s.block(1+i))
			s.buy(opening, s.block(1+i))
		}
		before := s.quote(opening, s.block(1)).Price
		// Two sales each leak in two parts of an hour over the whole leak, 32.
		dry := opening.Add(2 * time.Hour / 32 * time.Duration(part))
		require.Less(t, s.quote(opening.Add(time.Minute), s.block(1)).Price, before, "%d live", live)
		require.Equal(t, int64(1000), s.quote(dry, s.block(1)).Price, "%d live", live)
		require.Greater(t, s.quote(dry.Add(-time.Second), s.block(1)).Price, int64(1000), "%d live", live)
	}
	// One that runs dry leaves its part to the others.
	s := openStall(t, plain(8), 0)
	for i := range 8 {
		s.buy(opening, s.block(1+i))
	}
	s.buy(opening, s.block(1))
	s.quote(opening, s.block(1))
	all := opening.Add(time.Hour/32*8 + time.Hour/32*4) // one sale by eighths, the second by quarters
	require.Greater(t, s.quote(all.Add(-time.Minute), s.block(1)).Price, int64(1000))
	require.Equal(t, int64(1000), s.quote(all.Add(time.Second), s.block(1)).Price)
}

// A block that has run dry had its part of the leak, also where strangers have taken all
// cells that are free since.
func TestDryBlocksHadTheirPart(t *testing.T) {
	var prices [2][]int64
	for i, busy := range []bool{false, true} {
		s := openStall(t, plain(8), 1)
		for n := range 5 {
			s.prices.Redeem(opening, s.m, s.block(1+n), s.ware(), time.Unix(1, 0), 1<<40)
		}
		for range 3 {
			s.prices.Redeem(opening, s.m, s.block(1), s.ware(), time.Unix(1, 0), 1<<40)
		}
		later := opening.Add(31 * time.Minute) // four are dry after ten, the first after 32
		if busy {
			proof := limiter.Candidate{Key: 1, Proof: proofOf(0, 2*time.Hour)}
			for n := range 16 {
				proof.Proof.Key = numbered(s.m, 'x', n)
				s.m.Take(later.Add(-time.Minute), perMinute(t, 100), &proof, 1)
			}
		}
		for n := range 16 {
			prices[i] = append(prices[i], s.quote(later, s.block(1+n)).Price)
		}
	}
	require.Greater(t, prices[0][1], int64(1000))
	require.Equal(t, prices[0], prices[1])
}

// A clock that steps back makes nothing cheaper, what is sold meanwhile counts when it is
// back, and what has leaked meanwhile is gone.
func TestBlocksWhenTheClockSteps(t *testing.T) {
	for _, back := range []time.Duration{time.Second, 7 * time.Second, 10 * time.Minute, time.Hour, 24 * time.Hour} {
		t.Run(back.String(), func(t *testing.T) {
			s := openStall(t, plain(8), 0)
			for i := range 6 {
				s.buy(opening, s.block(1+i))
				s.buy(opening, s.block(1+i))
			}
			price, other := s.quote(opening, s.block(1)).Price, s.quote(opening, s.block(8)).Price
			require.Equal(t, []int64{4000, 3000}, []int64{price, other})
			behind := opening.Add(-back)
			require.Equal(t, price, s.quote(behind, s.block(1)).Price)
			require.Equal(t, price, s.quote(opening, s.block(1)).Price, "and forward")
			s.quote(behind, s.block(1))
			require.Equal(t, other, s.buy(behind, s.block(7)))
			require.EqualValues(t, 3250, s.quote(behind, s.block(8)).Price)
			require.EqualValues(t, 3250, s.quote(opening, s.block(8)).Price, "when the clock is back")
			require.Equal(t, price, s.quote(opening, s.block(1)).Price, "when the clock is back")
			require.EqualValues(t, 1000, s.quote(opening.Add(2*time.Hour), s.block(1)).Price)
		})
	}
	s := openStall(t, plain(8), 0)
	s.buy(opening, s.block(1))
	s.buy(opening, s.block(2))
	behind := opening.Add(-24 * time.Hour)
	s.quote(behind, s.block(1))
	require.EqualValues(t, 1000, s.quote(behind.Add(time.Hour), s.block(1)).Price, "leaked")
	require.EqualValues(t, 1000, s.quote(opening, s.block(1)).Price, "and does not come back with the clock")

	s = openStall(t, plain(8), 0)
	s.buy(opening, s.block(1))
	far := opening.Add(-400 * 24 * time.Hour)
	s.quote(far, s.block(1))
	require.EqualValues(t, 1000, s.quote(far.Add(time.Hour), s.block(1)).Price, "no year is waited for")
}

// A sale that waited for the lock while another was made later is counted.
func TestBlockSaleThatWaitedForTheLock(t *testing.T) {
	s := openStall(t, plain(8), 1)
	require.EqualValues(t, 1000, s.buy(opening, s.block(1)))
	require.EqualValues(t, 1125, s.buy(opening.Add(-lateSlack), s.block(2)))
	require.EqualValues(t, 2000, s.quote(opening, s.block(1)).Price)
	require.EqualValues(t, 1250, s.quote(opening, s.block(3)).Price)
	dry := opening.Add(time.Hour / 8)
	require.Greater(t, s.quote(dry.Add(-time.Second), s.block(3)).Price, int64(1000), "the leak is from the latest on")
	require.EqualValues(t, 1000, s.quote(dry, s.block(3)).Price)
}

// Another tariff knows what an older one has sold, and asks for no more than its own ladder.
func TestTariffOfBlocksChanges(t *testing.T) {
	leaks := []int64{1, 32, 2000}
	for _, from := range leaks {
		for _, to := range leaks {
			s := openStall(t, shop.Tariff{Work: 1000, Crowd: 8, SalesPerHour: from}, 1<<12)
			s.buy(opening, s.block(1))
			s.buy(opening, s.block(1))
			s.buy(opening, s.block(2))
			tariff := shop.Tariff{Work: 500, Crowd: 4, SalesPerHour: to}
			prices, err := tariff.Compile()
			require.NoError(t, err)
			require.EqualValues(t, 500<<4, prices.Quote(opening, s.m, s.block(1)).Price, "%v to %v", from, to)
			require.EqualValues(t, 875, prices.Quote(opening, s.m, s.block(3)).Price, "%v to %v", from, to)
			require.EqualValues(t, 500, prices.Quote(opening.Add(fourCrowds(tariff)), s.m, s.block(1)).Price, "%v to %v", from, to)
		}
	}
	// Levels that are higher than the new tariff's highest are cut down to it, together.
	s := openStall(t, shop.Tariff{Work: 1000, Crowd: 255, SalesPerHour: 1020}, 1<<16)
	for i := range 16 {
		s.buyOut(opening, s.block(1+i))
	}
	prices, err := plain(1).Compile()
	require.NoError(t, err)
	for i := range 16 {
		require.LessOrEqual(t, prices.Quote(opening, s.m, s.block(1+i)).Wait, time.Hour)
	}
}

// A sale with a block is written down as a whole, or not at all, and one that fails changes
// nothing of the other blocks.
func TestBlockSaleIsAllOrNothing(t *testing.T) {
	for room := range 3 {
		s := openStall(t, plain(8), 1)
		s.fillPaid(room)
		sold := room == 2
		require.Equal(t, shop.Sale{Granted: sold, Price: 1000, Saturated: !sold}, s.redeem(opening, s.block(1), 7, 1000))
		require.Equal(t, sold, s.redeem(opening, s.block(1), 7, 1).Held)
		require.Equal(t, sold, s.quote(opening, s.block(1)).Price > 1000)
	}
	s := openStall(t, plain(8), 1)
	s.fillPaid(4)
	s.buy(opening, s.block(1)) // two cells
	later := opening.Add(time.Minute)
	price := s.quote(later, s.block(1)).Price
	proof := limiter.Candidate{Key: numbered(s.m, 'f', 0), Proof: proofOf(numbered(s.m, 'x', 99), time.Hour)}
	_, v := s.m.Take(later, perMinute(t, 100), &proof, 1) // one more
	require.True(t, v.Admitted)
	require.True(t, s.redeem(later, s.block(2), 8, 2000).Saturated, "no room for the second block")
	require.Equal(t, price, s.quote(later, s.block(1)).Price)
	require.False(t, s.redeem(later, s.block(2), 8, 0).Held)
}

// Two devices of one subscriber fetch a challenge each, and both proofs are good, though one sale in a block of an
// address at which nobody else buys doubles its price.
func TestTwoDevicesInOneBlock(t *testing.T) {
	s := openStall(t, plain(8), 1<<12)
	for range 2 {
		require.True(t, s.offer(opening, s.block(3), 1000).Granted)
	}
	require.Equal(t, shop.Sale{Price: 4000}, s.offer(opening, s.block(3), 1000))
}
