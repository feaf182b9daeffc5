// SPDX-License-Identifier: Apache-2.0

package sale_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/truth"
)

// opening is when every stall opens.
var opening = time.Unix(19800*86400, 0)

// A stall sells tallies on one instance.
type stall struct {
	t      testing.TB
	tariff sale.Tariff
	prices *sale.Prices
	m      *limiter.Memory
	wares  int
}

func openStall(t testing.TB, tariff sale.Tariff, tallies int) *stall {
	t.Helper()
	prices := kit.Must(tariff.Compile())(t)
	return &stall{t: t, tariff: tariff, prices: prices, m: limiter.NewMemory(tallies, 1)}
}

// plain is a tariff whose prices are easy to read.
func plain(crowd int64) sale.Tariff {
	return sale.Tariff{Work: 1000, Crowd: crowd, SalesPerHour: 4 * crowd}
}

// fourCrowds is the time in which four crowds leak.
func fourCrowds(tariff sale.Tariff) time.Duration {
	return time.Duration(4*tariff.Crowd) * time.Hour / time.Duration(tariff.SalesPerHour)
}

// numbered is the n-th key of a kind.
func numbered(m *limiter.Memory, kind byte, n int) limiter.Key {
	id := [9]byte{kind}
	binary.LittleEndian.PutUint64(id[1:], uint64(n))
	return m.Key(id[:])
}

func proofOf(key limiter.Key, life time.Duration) *limiter.Proof {
	return &limiter.Proof{Key: key, Expires: opening.Add(life)}
}

func perMinute(t testing.TB, quota int64) *limiter.Policy {
	t.Helper()
	return kit.Must(limiter.Compile("p", []limiter.Limit{{Quota: quota, Window: time.Minute}}))(t)
}

// address is an identity that belongs to no network.
func (s *stall) address(n int) []sale.Buyer {
	return []sale.Buyer{{Key: numbered(s.m, 'a', n), Crowds: 1}}
}

// host is an IPv6 identity: the n-th /64 of a /56 of a /48.
func (s *stall) host(n64, n56, n48 int) []sale.Buyer {
	return []sale.Buyer{
		{Key: numbered(s.m, '6', n64), Crowds: 1},
		{Key: numbered(s.m, '5', n56), Crowds: 8},
		{Key: numbered(s.m, '4', n48), Crowds: 64},
	}
}

// ware is a fresh tally.
func (s *stall) ware() limiter.Key {
	s.wares++
	return numbered(s.m, 'w', s.wares)
}

func (s *stall) quote(now time.Time, buyers []sale.Buyer) sale.Sale {
	return s.prices.Quote(now, s.m, buyers)
}

// offer redeems work for a new tally.
func (s *stall) offer(now time.Time, buyers []sale.Buyer, work int64) sale.Sale {
	return s.redeem(now, buyers, s.ware(), work)
}

func (s *stall) redeem(now time.Time, buyers []sale.Buyer, tally limiter.Key, work int64) sale.Sale {
	return s.prices.Redeem(now, s.m, buyers, tally, now.Add(2*time.Hour), work)
}

// buy pays what a new tally costs, which must be for sale, and returns the price.
func (s *stall) buy(now time.Time, buyers []sale.Buyer) int64 {
	s.t.Helper()
	q := s.quote(now, buyers)
	require.Positive(s.t, q.Price, "for sale")
	require.Equal(s.t, sale.Sale{Granted: true, Price: q.Price}, s.offer(now, buyers, q.Price))
	return q.Price
}

// buyOut buys until nothing is for sale, and returns how many were.
func (s *stall) buyOut(now time.Time, buyers []sale.Buyer) (n int) {
	s.t.Helper()
	for s.quote(now, buyers).Price > 0 {
		s.buy(now, buyers)
		n++
		require.Less(s.t, n, 100_000)
	}
	return n
}

// requireExactWait checks that nothing is for sale now, nor a second before the
// wait is over, and that something is when it is. It returns the wait.
func (s *stall) requireExactWait(now time.Time, buyers []sale.Buyer) time.Duration {
	s.t.Helper()
	q := s.quote(now, buyers)
	require.Zero(s.t, q.Price)
	require.GreaterOrEqual(s.t, q.Wait, time.Second)
	require.Zero(s.t, q.Wait%time.Second)
	require.Zero(s.t, s.quote(now.Add(q.Wait-time.Second), buyers).Price, "a second earlier")
	then := s.quote(now.Add(q.Wait), buyers)
	require.Positive(s.t, then.Price, "when the wait is over")
	require.Zero(s.t, then.Wait)
	return q.Wait
}

// spend buys the tallies that work pays for, at the price of now.
func (s *stall) spend(now time.Time, buyers []sale.Buyer, work int64) (n int) {
	s.t.Helper()
	for {
		q := s.quote(now, buyers)
		if q.Price == 0 || q.Price > work {
			return n
		}
		work -= q.Price
		s.buy(now, buyers)
		n++
	}
}

// count returns how many sales of a buyer have not leaked, rounded down, without
// selling: it asks at the prices of a crowd that is larger than they are.
func (s *stall) count(now time.Time, b sale.Buyer) int64 {
	s.t.Helper()
	const work, crowd, crowds = 1 << 27, 255, 8
	prices, err := sale.Tariff{Work: work, Crowd: crowd, SalesPerHour: s.tariff.SalesPerHour}.Compile()
	require.NoError(s.t, err)
	q := prices.Quote(now, s.m, []sale.Buyer{{Key: b.Key, Crowds: crowds}})
	require.GreaterOrEqual(s.t, q.Price, int64(work))
	require.Less(s.t, q.Price, int64(2*work), "too many to count")
	return (q.Price - work) * crowd * crowds / work
}

// requireCount checks how many sales of a buyer have not leaked.
func (s *stall) requireCount(now time.Time, b sale.Buyer, count int) {
	s.t.Helper()
	require.EqualValues(s.t, count, s.count(now, b))
}

// seeds runs f under a few fixed seeds, fewer where time is short.
func seeds(t *testing.T, n int, f func(t *testing.T, r *rand.Rand)) {
	t.Helper()
	if kit.Brief() {
		n = (n + 3) / 4
	}
	for seed := range uint64(n) {
		t.Run("seed "+strconv.FormatUint(seed, 10), func(t *testing.T) { f(t, rand.New(rand.NewPCG(seed, 0x5a1e))) })
	}
}

// leastFor is the least work whose 15/8 cover the price.
func leastFor(price int64) (work int64) {
	work = price / 15 * 8
	for 15*work < 8*price {
		work++
	}
	return work
}

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

// A challenge that is redeemed again gives the same tally, and it is sold once.
func TestRedeemTwiceSellsOnce(t *testing.T) {
	s := openStall(t, plain(1), 1<<12)
	var sales [1000]sale.Sale
	kit.Together(len(sales), func(i int) { sales[i] = s.redeem(opening, s.address(0), 7, 1000) })
	sold := map[sale.Sale]int{}
	for _, got := range sales {
		sold[got]++
	}
	require.Equal(t, map[sale.Sale]int{{Granted: true, Price: 1000}: 1, {Granted: true, Held: true}: len(sales) - 1}, sold)
	s.requireCount(opening, s.address(0)[0], 1)
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
	require.Equal(t, held, s.prices.Redeem(opening, s.m, s.host(1, 1, 1), 7, ends, 0), "from any client")
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
