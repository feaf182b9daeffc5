package storeless_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/storeless"
)

// A record is a sale as an onlooker writes it down.
type record struct {
	second int64
	life   int // of which instance
	work   int64
}

// A campaign is an attack on the prices of one identity: any timing, several
// instances, restarts. Every sale is on record.
type campaign struct {
	*rand.Rand
	tariff storeless.Tariff
	shops  []*shop
	lives  []int // the life that each instance lives
	born   int
	now    time.Time
	log    []record
}

func newCampaign(t *testing.T, r *rand.Rand) *campaign {
	c := &campaign{Rand: r, now: opening.Add(time.Duration(r.Int64N(int64(24 * time.Hour))))}
	c.tariff = storeless.Tariff{
		Work:   16 + r.Int64N(1<<20),
		Crowd:  1 + r.Int64N(9),
		Memory: []time.Duration{time.Minute, 61 * time.Second, 10 * time.Minute, time.Hour, 24 * time.Hour}[r.IntN(5)],
	}
	for range 1 + r.IntN(3) {
		c.born++
		c.shops, c.lives = append(c.shops, openShop(t, c.tariff, 1<<12)), append(c.lives, c.born)
	}
	return c
}

// pass lets time pass: nothing, a moment, some hours, to the edge of a slot.
func (c *campaign) pass(s *shop, buyers []storeless.Buyer) {
	switch c.IntN(8) {
	case 0:
		c.now = c.now.Add(time.Duration(c.Int64N(int64(c.tariff.Memory) / 8)))
	case 1:
		c.now = c.now.Add(time.Duration(c.Int64N(int64(c.tariff.Memory) * 3 / 2)))
	case 2: // the last second of a slot, or the first
		slot := int64(s.slot() / time.Second)
		c.now = time.Unix((c.now.Unix()/slot+1)*slot-1+c.Int64N(2), 0)
	case 3:
		if q := s.quote(c.now, buyers); q.Price == 0 && c.IntN(2) == 0 {
			c.now = c.now.Add(q.Wait)
		}
	}
}

// buy tries to buy once: below the price, at it, or above.
func (c *campaign) buy(t *testing.T, i int) {
	s, buyers := c.shops[i], c.shops[i].address(0)
	q := s.quote(c.now, buyers)
	c.requirePriceOfRecord(t, i, q.Price)
	if q.Price == 0 {
		s.requireExactWait(c.now, buyers)
		require.False(t, s.offer(c.now, buyers, math.MaxInt64).Granted)
		return
	}
	require.False(t, s.offer(c.now, buyers, q.Price-1-c.Int64N(q.Price)).Granted)
	work := q.Price
	if c.IntN(4) == 0 {
		work += c.Int64N(3 * work)
	}
	require.Equal(t, storeless.Sale{Granted: true, Price: q.Price}, s.offer(c.now, buyers, work))
	c.log = append(c.log, record{c.now.Unix(), c.lives[i], work})
}

// requirePriceOfRecord checks a price against the log: every sale of the last
// Memory counts, and none that is older by more than a third, rounded up.
func (c *campaign) requirePriceOfRecord(t *testing.T, i int, price int64) {
	slot := int64(c.shops[i].slot() / time.Second)
	ladder := func(reach int64) int64 {
		n := int64(0)
		for _, r := range c.log {
			if r.life == c.lives[i] && c.now.Unix()-r.second <= reach {
				n++
			}
		}
		if n >= 4*c.tariff.Crowd {
			return math.MaxInt64
		}
		return c.tariff.Work << (n / c.tariff.Crowd)
	}
	if price == 0 {
		price = math.MaxInt64
	}
	require.GreaterOrEqual(t, price, ladder(int64(c.tariff.Memory/time.Second)), "a sale is remembered for Memory")
	require.LessOrEqual(t, price, ladder(4*slot-1), "and for a third longer at most")
}

// leastWork is what F families on N instances cost at least, by the formula.
func leastWork(tariff storeless.Tariff, families, instances int) float64 {
	crowd := float64(instances) * float64(tariff.Crowd)
	return crowd * float64(tariff.Work) * (math.Pow(2, float64(families)/crowd) - 1)
}

// requireBound checks every span of up to Memory, of each life and of all.
func (c *campaign) requireBound(t *testing.T) {
	for last, end := range c.log {
		own, families, paid := 0, map[int]bool{}, 0.0
		ownPaid := 0.0
		for first := last; first >= 0; first-- {
			r := c.log[first]
			if end.second-r.second > int64(c.tariff.Memory/time.Second) {
				break
			}
			families[r.life] = true
			paid += float64(r.work)
			require.GreaterOrEqual(t, paid*(1+1e-9), leastWork(c.tariff, last-first+1, len(families)))
			if r.life == end.life {
				own++
				ownPaid += float64(r.work)
				require.GreaterOrEqual(t, ownPaid*(1+1e-9), leastWork(c.tariff, own, 1))
			}
		}
		require.LessOrEqual(t, int64(own), 4*c.tariff.Crowd, "sold within one Memory")
	}
}

// Whatever the timing: F families within any span of Memory cost at least what
// the formula says, on each instance and on all together, and there are never
// more than four crowds of them on one.
func TestFamiliesCostTheFormula(t *testing.T) {
	dearest, soldOut := 0, 0
	seeds(t, 40, func(t *testing.T, r *rand.Rand) {
		c := newCampaign(t, r)
		for range 600 {
			i := c.IntN(len(c.shops))
			if c.IntN(200) == 0 { // a restart forgets
				c.born++
				c.shops[i], c.lives[i] = openShop(t, c.tariff, 1<<12), c.born
			}
			c.pass(c.shops[i], c.shops[i].address(0))
			q := c.shops[i].quote(c.now, c.shops[i].address(0))
			if q.Price == 0 {
				soldOut++
			}
			if q.Price == 8*c.tariff.Work {
				dearest++
			}
			c.buy(t, i)
		}
		c.requireBound(t)
		require.Greater(t, len(c.log), 20)
	})
	require.Greater(t, soldOut, 100, "the attack reaches the cap")
	require.Greater(t, dearest, 100)
}

// The whole ladder, to the hash: four crowds cost fifteen crowds of base work.
func TestFourCrowdsCostFifteen(t *testing.T) {
	s, paid := openShop(t, plain(8), 1<<12), int64(0)
	for n := range 32 {
		paid += s.buy(opening, s.address(0))
		require.GreaterOrEqual(t, float64(paid), leastWork(s.tariff, n+1, 1)*(1-1e-9))
	}
	require.Equal(t, int64(15*8*1000), paid)
	require.InDelta(t, float64(paid), leastWork(s.tariff, 32, 1), 1e-6)
}

// A sale is forgotten when its slot is: after Memory at the earliest, after 4/3
// of it at the latest.
func TestSalesAreForgotten(t *testing.T) {
	for _, memory := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		third := memory / 3
		for _, into := range []time.Duration{0, time.Second, third / 2, third - time.Second} {
			s := openShop(t, storeless.Tariff{Work: 1000, Crowd: 1, Memory: memory}, 1<<12)
			now := opening.Add(into)
			s.buy(now, s.address(0))
			forgotten := opening.Add(memory + third)
			require.Equal(t, int64(2000), s.quote(forgotten.Add(-time.Nanosecond), s.address(0)).Price)
			require.Equal(t, int64(1000), s.quote(forgotten, s.address(0)).Price)
			require.Greater(t, forgotten.Sub(now), memory)
			require.LessOrEqual(t, forgotten.Sub(now), memory*4/3)
		}
	}
}

// Buyers who wait at the boundary of a slot gain nothing: what was sold in its
// last second counts for a whole Memory more.
func TestNoBargainAtTheBoundary(t *testing.T) {
	s := openShop(t, plain(2), 1<<12)
	last := opening.Add(s.slot() - time.Second)
	require.Equal(t, 8, s.buyOut(last, s.address(0)))
	for d := time.Duration(0); d <= s.tariff.Memory; d += time.Second {
		require.Zero(t, s.quote(last.Add(d), s.address(0)).Price)
	}
	require.Equal(t, s.tariff.Memory+time.Second, s.requireExactWait(last, s.address(0)))
}

// The wait of several levels is that of the one that opens last.
func TestWaitOfTheLastToOpen(t *testing.T) {
	for first := range 2 {
		s := openShop(t, plain(1), 1<<10)
		buyers := s.host(0, 0, 0)
		s.buyOut(opening, buyers[first:first+1])
		later := opening.Add(s.slot())
		s.buyOut(later, buyers[1-first:2-first])
		now := later.Add(time.Minute)
		require.Equal(t, 5*s.slot()-now.Sub(opening), s.requireExactWait(now, buyers))
		require.Equal(t, 4*s.slot()-now.Sub(opening), s.requireExactWait(now, buyers[first:first+1]))
	}

	// Sold in three slots, it opens when the oldest of them is forgotten.
	s := openShop(t, plain(4), 1<<10)
	one := s.address(0)
	for slot, n := range []int{0: 3, 1: 6, 3: 7} {
		for range n {
			s.buy(opening.Add(time.Duration(slot)*s.slot()), one)
		}
	}
	now := opening.Add(3*s.slot() + 7*time.Second)
	require.Equal(t, s.slot()-7*time.Second, s.requireExactWait(now, one))
	now = now.Add(s.slot() - 7*time.Second)
	require.Equal(t, 3, s.buyOut(now, one), "those of the oldest slot")
}
