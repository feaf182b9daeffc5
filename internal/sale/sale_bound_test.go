// SPDX-License-Identifier: Apache-2.0

package sale_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/truth"
)

// A record is a sale as an onlooker writes it down.
type record struct {
	second int64
	life   int // of the instance
	work   int64
}

// A campaign is an attack on the prices of one identity: any timing, several
// instances, restarts. Every sale is on record.
type campaign struct {
	*rand.Rand
	tariff  sale.Tariff
	shops   []*stall
	lives   []int   // the life that each instance lives
	diaries []diary // of those lives
	born    int
	now     time.Time
	log     []record
}

func newCampaign(t *testing.T, r *rand.Rand) *campaign {
	c := &campaign{Rand: r, now: opening.Add(time.Duration(r.Int64N(int64(24 * time.Hour))))}
	c.tariff = sale.Tariff{
		Work:         16 + r.Int64N(1<<20),
		Crowd:        1 + r.Int64N(9),
		SalesPerHour: []int64{1, 4, 7, 32, 2000}[r.IntN(5)], // whatever the crowd
	}
	for range 1 + r.IntN(3) {
		c.born++
		c.shops, c.lives = append(c.shops, openStall(t, c.tariff, 1<<12)), append(c.lives, c.born)
		c.diaries = append(c.diaries, diary{crowds: 1})
	}
	return c
}

// pass lets time pass: nothing, a moment, some hours, until something is for sale.
func (c *campaign) pass(s *stall, buyers []sale.Buyer) {
	switch c.IntN(16) {
	case 0:
		c.now = c.now.Add(time.Duration(c.Int64N(int64(fourCrowds(c.tariff)) / 8)))
	case 1:
		c.now = c.now.Add(time.Duration(c.Int64N(int64(fourCrowds(c.tariff)) * 3 / 2)))
	case 2:
		c.now = c.now.Add(time.Hour / time.Duration(c.tariff.SalesPerHour))
	case 3:
		if q := s.quote(c.now, buyers); q.Price == 0 && c.IntN(2) == 0 {
			c.now = c.now.Add(q.Wait)
		}
	}
}

// buy tries to buy once: below half the price, at half of it, or above.
func (c *campaign) buy(t *testing.T, i int) {
	s, buyers := c.shops[i], c.shops[i].address(0)
	q := s.quote(c.now, buyers)
	d := &c.diaries[i]
	if least, most := d.prices(c.tariff, c.now.Unix()); q.Price == 0 {
		require.Greater(t, most, int64(sale.MaxPrice))
	} else {
		require.GreaterOrEqual(t, q.Price, least)
		require.LessOrEqual(t, q.Price, most)
	}
	if q.Price == 0 {
		s.requireExactWait(c.now, buyers)
		require.False(t, s.offer(c.now, buyers, math.MaxInt64).Granted)
		return
	}
	least := leastFor(q.Price)
	require.False(t, s.offer(c.now, buyers, least-1-c.Int64N(least)).Granted)
	work := least
	if c.IntN(4) == 0 {
		work += c.Int64N(3 * work)
	}
	require.Equal(t, sale.Sale{Granted: true, Price: q.Price}, s.offer(c.now, buyers, work))
	d.sell(c.tariff, c.now.Unix())
	c.log = append(c.log, record{c.now.Unix(), c.lives[i], work})
}

// priceAt is the formula, in floating point.
func priceAt(tariff sale.Tariff, level float64) float64 {
	k, f := math.Modf(level / float64(tariff.Crowd))
	return float64(tariff.Work) * math.Exp2(k) * (1 + f)
}

// mostTallies is how many tallies work buys on an instance in a time, at most.
func mostTallies(tariff sale.Tariff, work int64, in time.Duration) int64 {
	return truth.Tariff{Work: tariff.Work, Crowd: tariff.Crowd, Leak: tariff.SalesPerHour}.Most(work, int64(in/time.Second))
}

// requireBound checks every span, of each life, and returns how near the formula the
// attack came: 1 is all that it allows.
func (c *campaign) requireBound(t *testing.T) (nearest float64) {
	for last, end := range c.log {
		own, paid := int64(0), int64(0)
		for first := last; first >= 0; first-- {
			r := c.log[first]
			if r.life != end.life {
				continue
			}
			own++
			paid += r.work
			most := mostTallies(c.tariff, paid, time.Duration(end.second-r.second)*time.Second)
			require.LessOrEqual(t, own, most)
			if own > 50 {
				nearest = math.Max(nearest, float64(own)/float64(most))
			}
		}
	}
	return nearest
}

// With any timing, in a time T an amount of work buys at most
//
//	SalesPerHour·T + Crowd·log2(1 + 15/8·work/(Crowd·Work))
//
// tallies on an instance.
func TestTalliesCostTheFormula(t *testing.T) {
	closed, nearest := 0, 0.0
	seeds(t, 40, func(t *testing.T, r *rand.Rand) {
		c := newCampaign(t, r)
		for range 600 {
			i := c.IntN(len(c.shops))
			if c.IntN(200) == 0 { // a restart forgets
				c.born++
				c.shops[i], c.lives[i], c.diaries[i] = openStall(t, c.tariff, 1<<12), c.born, diary{crowds: 1}
			}
			c.pass(c.shops[i], c.shops[i].address(0))
			if c.shops[i].quote(c.now, c.shops[i].address(0)).Price == 0 {
				closed++
			}
			c.buy(t, i)
		}
		nearest = math.Max(nearest, c.requireBound(t))
		require.Greater(t, len(c.log), 20)
	})
	require.Greater(t, closed, 10, "the attack reaches the highest price")
	t.Logf("random buyers come to %.2f of the formula", nearest)
}

// Buyers that spend a budget as well as they can: at once, evenly, or only below a
// price. They come near the formula and not above it.
func TestGreedyBuyersCostTheFormula(t *testing.T) {
	nearest := 0.0
	for _, tariff := range []sale.Tariff{plain(1), plain(8), usual, {Work: 1 << 18, Crowd: 8, SalesPerHour: 1}, {Work: 16, Crowd: 32, SalesPerHour: 7680}} {
		for _, most := range []float64{1, 1.5, 4, 64, 1 << 12} { // times Work
			s := openStall(t, tariff, 1<<17)
			paid, n := int64(0), int64(0)
			step := max(time.Second, time.Hour/time.Duration(4*tariff.SalesPerHour))
			for d := time.Duration(0); d <= 6*fourCrowds(tariff); d += step {
				for {
					q := s.quote(opening.Add(d), s.address(0))
					if q.Price == 0 || float64(q.Price) > most*float64(tariff.Work) {
						break
					}
					work := leastFor(q.Price)
					require.True(t, s.offer(opening.Add(d), s.address(0), work).Granted)
					paid += work
					n++
				}
				require.LessOrEqual(t, n, mostTallies(tariff, paid, d))
			}
			nearest = math.Max(nearest, float64(n)/float64(mostTallies(tariff, paid, 6*fourCrowds(tariff))))
		}
	}
	require.Greater(t, nearest, 0.9, "the formula is not far from what there is")
	t.Logf("greedy buyers come to %.2f of the formula", nearest)
}

// A level falls by SalesPerHour in every hour, to the second and whatever the crowd, and with it the
// price.
func TestSalesLeakAway(t *testing.T) {
	for _, crowd := range []int64{1, 3, 64} {
		for _, leak := range []int64{1, 4, 32, 240, 3600} {
			s := openStall(t, sale.Tariff{Work: 3000, Crowd: crowd, SalesPerHour: leak}, 1<<12)
			for range 5 * crowd {
				s.buy(opening, s.address(0))
			}
			for n := range 1 + 5*crowd {
				then := opening.Add(time.Duration(n) * time.Hour / time.Duration(leak))
				price := int64(priceAt(s.tariff, float64(5*crowd-n)))
				require.InDelta(t, price, s.quote(then.Add(time.Second-time.Nanosecond).Truncate(time.Second), s.address(0)).Price, 1+float64(price)/float64(crowd)/60, "%d of %d", n, leak)
				if n > 0 {
					require.Greater(t, s.quote(then.Truncate(time.Second).Add(-time.Nanosecond), s.address(0)).Price, price)
				}
			}
		}
	}
}

// At the highest price there is, nothing more is for sale, and the wait says to the
// second when something is, for the level that opens last.
func TestWaitIsExactAboveTheHighestPrice(t *testing.T) {
	for _, tariff := range []sale.Tariff{plain(1), plain(8), usual, {Work: 1 << 29, Crowd: 255, SalesPerHour: 61_200}, {Work: 16, Crowd: 7, SalesPerHour: 1}} {
		s := openStall(t, tariff, 1<<17)
		one, host := s.address(0), s.host(0, 0, 0)
		dearest := int64(0)
		for s.quote(opening, one).Price > 0 {
			dearest = s.buy(opening, one)
		}
		require.LessOrEqual(t, dearest, int64(sale.MaxPrice))
		require.Greater(t, dearest, int64(sale.MaxPrice/4))
		wait := s.requireExactWait(opening, one)
		sale := time.Hour / time.Duration(tariff.SalesPerHour)
		require.LessOrEqual(t, wait, sale+time.Second, "one sale at most is above the highest price")

		s.buyOut(opening, host[:1])
		s.buyOut(opening, host[1:2])
		later := opening.Add(time.Second)
		s.buyOut(later, host[:1])
		require.Equal(t, max(s.quote(later, host[:1]).Wait, s.quote(later, host[1:2]).Wait), s.quote(later, host).Wait)
		if s.quote(later, host).Price == 0 {
			s.requireExactWait(later, host)
		}
	}
}

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
	short := kit.Must(sale.Tariff{Work: 1000, Crowd: 1, SalesPerHour: 240}.Compile())(t)
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
