// SPDX-License-Identifier: Apache-2.0

package shop_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A clock that steps back by up to a day, is looked at, and steps forward again
// forgets no sale: 120 W buy as many tallies as they did, and then 120 W more buy the
// few that their price allows.
func TestStepBackAndForwardForgetsNothing(t *testing.T) {
	for _, back := range []time.Duration{10 * time.Second, time.Hour, 24 * time.Hour} {
		s := openStall(t, plain(8), 1<<12)
		first := s.spend(opening, s.address(0), 120*1000)
		price := s.quote(opening, s.address(0)).Price
		s.quote(opening.Add(-back), s.address(0))
		s.quote(opening.Add(-back+time.Second), s.address(0))
		require.Equal(t, price, s.quote(opening, s.address(0)).Price, "back %v and forward", back)
		second := s.spend(opening, s.address(0), 120*1000)
		require.Less(t, second, first/2, "back %v and forward: %d after %d", back, second, first)
	}
}

// A PriceMemory that changes twenty times within a second keeps the level.
func TestMemoryChangedTwentyTimes(t *testing.T) {
	spans := []time.Duration{time.Minute, time.Hour, 24 * time.Hour, 10 * time.Minute, 7 * time.Minute}
	s := openStall(t, plain(8), 1<<12)
	work, sold := int64(15*8*1000), 0
	for n := range 21 {
		tariff := s.tariff
		tariff.Memory = spans[n%len(spans)]
		prices, err := tariff.Compile()
		require.NoError(t, err)
		s.prices = prices
		sold += s.spend(opening.Add(time.Duration(n)*50*time.Millisecond), s.address(0), work)
	}
	require.LessOrEqual(t, float64(sold), mostTallies(s.tariff, float64(21*work)/2, 0)+2, "one ladder, and a second's leak")
}

// An attacker behind an address, with work for 100 W an hour (0.3 s of a processor with
// AVX-512), waits for every tally that costs less than what a phone can pay in a minute.
// A newcomer every five minutes is let in all the same, for six hours.
func TestShuttingAnAddressOutCostsWork(t *testing.T) {
	const phone = 160 // W, in a minute
	for _, row := range []struct {
		budget int64 // W an hour
		in     int   // of 72
	}{{100, 72}, {1700, 36}} {
		s := openStall(t, usual, 0)
		in, work := 0, row.budget*usual.Work
		for second := range 6 * 3600 {
			now := opening.Add(time.Duration(second) * time.Second)
			if second%3600 == 0 {
				work = row.budget * usual.Work
			}
			if q := s.quote(now, s.address(0)); q.Price > 0 && q.Price <= phone*usual.Work && leastFor(q.Price) <= work {
				work -= leastFor(q.Price)
				require.True(t, s.offer(now, s.address(0), leastFor(q.Price)).Granted)
			}
			if second%300 == 299 {
				if q := s.quote(now, s.address(0)); q.Price > 0 && q.Price <= phone*usual.Work {
					in++
					s.buy(now, s.address(0))
				}
			}
		}
		require.GreaterOrEqual(t, in, row.in, "with %d W an hour", row.budget)
		t.Logf("with %d W an hour: %d of 72 newcomers get in", row.budget, in)
	}
}
