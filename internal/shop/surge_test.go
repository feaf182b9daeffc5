// SPDX-License-Identifier: Apache-2.0

package shop_test

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/shop"
	"github.com/tallystick/tallystick/proof/kit"
)

const surgeBase, surgeMost = 1000, 1 << 40

// rung is the work n steps of one and a half above the base.
func rung(n int) int64 {
	work := int64(surgeBase)
	for range n {
		work += work / 2
	}
	return work
}

// surgeAt is the time so many intervals after the opening.
func surgeAt(interval int) time.Time { return opening.Add(time.Duration(interval) * 10 * time.Second) }

// sold counts a sale to a network that has bought nothing before.
func sold(s *shop.Surge, now time.Time) {
	s.Sold(now, limiter.Key(surgeNetwork.Add(1)))
}

var surgeNetwork atomic.Uint64

// Sales of each interval of ten seconds, at a budget of ten, and how many steps
// above the base the work is when the next one begins.
func TestSurgeIntervals(t *testing.T) {
	for name, row := range map[string]struct {
		sold []int
		want []int
	}{
		"nothing":                  {[]int{0, 0, 0}, []int{0, 0, 0}},
		"within the budget":        {[]int{10, 10, 10, 10}, []int{0, 0, 0, 0}},
		"one too many":             {[]int{11}, []int{2}},
		"many too many":            {[]int{1000}, []int{2}},
		"two steps each":           {[]int{11, 11, 11, 11}, []int{2, 4, 6, 8}},
		"up to the top":            {[]int{11, 11, 11, 11, 11, 11, 11}, []int{2, 4, 6, 8, 10, 10, 10}},
		"down by one in three":     {[]int{11, 0, 0, 0, 0, 0, 0, 0}, []int{2, 2, 2, 1, 1, 1, 0, 0}},
		"less than half is quiet":  {[]int{11, 4, 4, 4}, []int{2, 2, 2, 1}},
		"half is not":              {[]int{11, 5, 5, 5, 5, 5, 5}, []int{2, 2, 2, 2, 2, 2, 2}},
		"three in a row":           {[]int{11, 0, 0, 5, 0, 0, 5, 0, 0, 0}, []int{2, 2, 2, 2, 2, 2, 2, 2, 2, 1}},
		"a wave between":           {[]int{11, 0, 0, 11, 0, 0, 0}, []int{2, 2, 2, 4, 4, 4, 3}},
		"calm at the base is none": {[]int{0, 0, 0, 0, 0, 0, 11, 0, 0, 0}, []int{0, 0, 0, 0, 0, 0, 2, 2, 2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := shop.NewSurge(60)
			for i, n := range row.sold {
				for range n {
					sold(s, surgeAt(i).Add(time.Second))
				}
				require.Equal(t, rung(row.want[i]), s.Work(surgeAt(i+1), surgeBase, surgeMost), "after interval %d", i)
			}
		})
	}
}

// The work rises with the sale that is one too many, not when the interval ends.
func TestSurgeRisesAtOnce(t *testing.T) {
	s := shop.NewSurge(60)
	now := opening.Add(time.Second)
	for n := range 100 {
		want := rung(0)
		if n > 10 {
			want = rung(2)
		}
		require.Equal(t, want, s.Work(now, surgeBase, surgeMost), "after %d", n)
		sold(s, now)
	}
	require.Equal(t, int64(57), rung(10)/surgeBase, "the top, as the doc has it")
}

// The budget is per minute, and at least one sale in an interval; four networks that buy
// one each are within any.
func TestSurgeBudget(t *testing.T) {
	for _, row := range []struct {
		perMinute int64
		within    int
	}{{-5, 4}, {0, 4}, {1, 4}, {6, 4}, {11, 4}, {12, 4}, {29, 4}, {30, 5}, {60, 10}, {6000, 1000}} {
		s := shop.NewSurge(row.perMinute)
		for range row.within {
			sold(s, opening)
			require.Equal(t, rung(0), s.Work(opening, surgeBase, surgeMost), "%d a minute", row.perMinute)
		}
		sold(s, opening)
		require.Equal(t, rung(2), s.Work(opening, surgeBase, surgeMost), "%d a minute", row.perMinute)
	}
}

// After hours of rest the work is the base again, and the first wave is a first.
func TestSurgeRests(t *testing.T) {
	for _, busy := range []int{0, 5, 11} {
		for _, rest := range []int{31, 360, 100_000} { // ten steps down take thirty intervals
			s := shop.NewSurge(60)
			for i := range 6 {
				for range 11 {
					sold(s, surgeAt(i))
				}
			}
			for range busy {
				sold(s, surgeAt(6))
			}
			require.Equal(t, rung(10), s.Work(surgeAt(6), surgeBase, surgeMost))
			require.Equal(t, rung(0), s.Work(surgeAt(6+rest), surgeBase, surgeMost), "busy %d, rest %d", busy, rest)
			for range 11 {
				sold(s, surgeAt(6+rest))
			}
			require.Equal(t, rung(2), s.Work(surgeAt(7+rest), surgeBase, surgeMost))
		}
	}
	// Partly rested: the interval that was busy is not a quiet one.
	s := shop.NewSurge(60)
	for range 11 {
		sold(s, opening)
	}
	require.Equal(t, rung(2), s.Work(surgeAt(3), surgeBase, surgeMost))
	require.Equal(t, rung(1), s.Work(surgeAt(4), surgeBase, surgeMost))
}

// Whatever the sales and the clock: never below what is asked for, nor above the
// most there may be, unless that is below.
func TestSurgeStaysWithin(t *testing.T) {
	seeds(t, 8, func(t *testing.T, r *rand.Rand) {
		s := shop.NewSurge(r.Int64N(100))
		now := opening
		for range 3000 {
			now = now.Add(time.Duration(r.Int64N(int64(12*time.Second)) - int64(time.Second)))
			if r.IntN(50) == 0 {
				now = now.Add(time.Duration(r.Int64N(int64(4*time.Hour)) - int64(2*time.Hour)))
			}
			for range r.IntN(30) {
				sold(s, now)
			}
			work, most := 16+r.Int64N(1<<29), r.Int64N(1<<33)
			got := s.Work(now, work, most)
			require.GreaterOrEqual(t, got, work)
			require.LessOrEqual(t, got, max(work, most))
			require.LessOrEqual(t, got, 58*work)
		}
	})
	s := shop.NewSurge(0)
	for i := range 10 {
		for range 5 {
			sold(s, surgeAt(i))
		}
	}
	require.Equal(t, int64(1500), s.Work(surgeAt(9), surgeBase, 1500), "the most")
	require.Equal(t, int64(surgeBase), s.Work(surgeAt(9), surgeBase, 10), "never less than was asked for")
	require.Equal(t, int64(16), s.Work(surgeAt(1000), 16, math.MaxInt64))
}

// A clock that steps back is no time of rest, and calms down from where it went.
func TestSurgeClockStepsBack(t *testing.T) {
	for _, back := range []time.Duration{time.Second, 9 * time.Second, 10 * time.Second, time.Minute, time.Hour, 400 * 24 * time.Hour} {
		s := shop.NewSurge(60)
		for range 11 {
			sold(s, surgeAt(5))
		}
		now := surgeAt(5).Add(-back)
		require.Equal(t, rung(2), s.Work(now, surgeBase, surgeMost), "back %v", back)
		for range 11 { // no interval is over twice
			sold(s, now)
		}
		require.LessOrEqual(t, s.Work(now, surgeBase, surgeMost), rung(4), "back %v", back)
		require.Equal(t, rung(0), s.Work(now.Add(3*time.Minute), surgeBase, surgeMost), "back %v", back)
	}
	s := shop.NewSurge(60)
	for range 11 {
		sold(s, opening)
	}
	for n := range 1000 {
		require.Equal(t, rung(2), s.Work(opening.Add(-time.Duration(n)*time.Minute), surgeBase, surgeMost), "stepping back only")
	}
	require.Equal(t, rung(0), s.Work(opening.Add(-999*time.Minute+time.Minute), surgeBase, surgeMost), "and a minute's rest")
}

// Requests that wait for the lock come in the wrong order. Around the end of an
// interval that must not look like many quiet ones.
func TestSurgeOutOfOrder(t *testing.T) {
	s := shop.NewSurge(60)
	for range 11 {
		sold(s, opening)
	}
	for n := range 1000 {
		now := surgeAt(1).Add(-time.Duration(n%2) * time.Second)
		require.Equal(t, rung(2), s.Work(now, surgeBase, surgeMost), "reading %d", n)
	}
	for range 11 { // of the new interval, whenever they began
		sold(s, surgeAt(1).Add(-time.Second))
	}
	require.Equal(t, rung(4), s.Work(surgeAt(1), surgeBase, surgeMost))
}

// Sales at once are each counted once.
func TestSurgeParallel(t *testing.T) {
	s := shop.NewSurge(6000)
	kit.Together(10, func(_ int) {
		for range 100 {
			sold(s, opening)
			s.Work(opening, surgeBase, surgeMost)
		}
	})
	require.Equal(t, rung(0), s.Work(opening, surgeBase, surgeMost), "as many as planned")
	sold(s, opening)
	require.Equal(t, rung(2), s.Work(opening, surgeBase, surgeMost), "and one more")
}

// What a redemption takes is what was asked for one rise ago, to the hash.
func TestSurgeWorthIsTheInverseOfWork(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for levels := 0; levels <= 10; levels += 2 {
		s, before := shop.NewSurge(60), shop.NewSurge(60)
		for i := range levels / 2 {
			for range 11 {
				sold(s, surgeAt(i))
				if i < levels/2-1 {
					sold(before, surgeAt(i))
				}
			}
		}
		now := surgeAt(max(0, levels/2-1))
		for range 2000 {
			price := 1 + random.Int64N(1<<uint(1+random.IntN(30)))
			asked := before.Work(now, price, surgeMost)
			require.Equal(t, price, s.Worth(now, asked, surgeMost), "level %d", levels)
			require.GreaterOrEqual(t, s.Worth(now, s.Work(now, price, surgeMost), surgeMost), price, "what is asked now suffices")
			require.Less(t, s.Worth(now, asked-1, surgeMost), price)
		}
		require.EqualValues(t, surgeMost, s.Worth(now, surgeMost, surgeMost), "nothing asks for more")
	}
}

func TestSurgeBudgetMayBeHuge(t *testing.T) {
	s := shop.NewSurge(math.MaxInt64)
	for range 100 {
		sold(s, opening)
	}
	require.EqualValues(t, surgeBase, s.Work(opening, surgeBase, surgeMost))
}

// A surgeAttack buys for an hour from one network, as often as makes the most of it, with
// work for a million W in all, and looks what others are asked.
type surgeAttack struct {
	sales        int
	paid, raised int64 // in W; and seconds in which others pay more than 1.4 W
	peak         int64 // in hundredths of W
}

func attackSurge(t *testing.T, perMinute int64, wide bool) (a surgeAttack) {
	s := openStall(t, usual, 1<<16)
	surge := shop.NewSurge(perMinute)
	perInterval := int(perMinute/6) + 1
	for second := range 3600 {
		now := opening.Add(time.Duration(second) * time.Second)
		for n := range perInterval {
			if second%10 != 0 {
				break
			}
			buyers := s.address(1)
			if wide {
				buyers = s.host(second*perInterval+n, (second*perInterval+n)/256, 0)
				buyers[1].Crowds, buyers[2].Crowds = 2, 8
			}
			asked := surge.Work(now, s.quote(now, buyers).Price, shop.MaxPrice)
			if a.paid+asked/usual.Work > 1_000_000 {
				break
			}
			sale := s.offer(now, buyers, surge.Worth(now, asked, shop.MaxPrice))
			if !sale.Granted {
				break
			}
			a.paid += asked / usual.Work
			a.sales++
			surge.Sold(now, buyers[len(buyers)-1].Key)
		}
		asked := surge.Work(now, s.quote(now, s.address(2)).Price, shop.MaxPrice)
		if asked*10 > 14*usual.Work {
			a.raised++
		}
		a.peak = max(a.peak, asked*100/usual.Work)
	}
	return a
}

// What a network has bought in one interval is not held against it in the next.
func TestSurgeCountsNetworksAnew(t *testing.T) {
	s := shop.NewSurge(60)
	for interval := range 4 {
		for sale := range 25 {
			s.Sold(surgeAt(interval), limiter.Key(sale%5))
		}
		require.Equal(t, rung(2*interval+2), s.Work(surgeAt(interval), surgeBase, surgeMost))
	}
}

// One network, however much it buys, does not raise what others pay.
func TestSurgeIsNotRaisedByOneNetwork(t *testing.T) {
	for _, perMinute := range []int64{6, 60, 600} {
		for name, wide := range map[string]bool{"one IPv4": false, "one /48": true} {
			a := attackSurge(t, perMinute, wide)
			t.Logf("budget %d, %s: %d sales for %d W; others pay more for %d s, at most %.1f W", perMinute, name, a.sales, a.paid, a.raised, float64(a.peak)/100)
			require.Zero(t, a.raised)
		}
	}
}
