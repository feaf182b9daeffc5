// SPDX-License-Identifier: Apache-2.0

package sale_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
)

// A solver is a client that buys tallies: it asks for a price, works for it, and
// redeems; if the price has risen meanwhile, it begins again.
type solver struct {
	rate   int64     // hashes a second
	many   bool      // buys for ever
	ready  time.Time // when its work is done
	price  int64     // that it works for; 0: it has not asked yet
	paid   int64
	bought int
	waits  []time.Duration
}

// act does what is next, at s.ready.
func (c *solver) act(s *stall, buyers []sale.Buyer) {
	now := c.ready
	if c.price > 0 {
		if sale := s.offer(now, buyers, c.price); sale.Granted {
			c.bought++
			c.paid = c.price
			if !c.many {
				return
			}
		}
	}
	q := s.quote(now, buyers)
	c.price = q.Price
	if q.Price == 0 {
		s.requireExactWait(now, buyers)
		c.waits = append(c.waits, q.Wait)
		c.ready = now.Add(q.Wait)
		return
	}
	c.ready = now.Add(time.Duration(q.Price * int64(time.Second) / c.rate))
}

// market lets all act in the order of time until then, or until all have bought
// who want but one; at a tie the earlier in the list.
func market(s *stall, buyers []sale.Buyer, until time.Time, all []*solver) {
	for {
		var next *solver
		for _, c := range all {
			if (c.many || c.bought == 0) && (next == nil || c.ready.Before(next.ready)) {
				next = c
			}
		}
		if next == nil || next.ready.After(until) {
			return
		}
		next.act(s, buyers)
	}
}

func honest(n int, gap time.Duration) (all []*solver) {
	for i := range n {
		all = append(all, &solver{rate: 1_000_000, ready: opening.Add(time.Duration(i) * gap)})
	}
	return all
}

// usual is what the middleware has by default.
var usual = sale.Tariff{Work: 1 << 18, Crowd: 64, SalesPerHour: 32}

// Twenty honest clients behind one address, beside one that floods it and solves
// nothing: each gets a tally, and none pays more than a third more than the base.
func TestTwentyBesideAFlooder(t *testing.T) {
	for _, gap := range []time.Duration{0, time.Second, time.Minute} {
		s := openStall(t, usual, 0)
		p := perMinute(t, 5)
		clients := honest(20, gap)
		for i, c := range clients {
			for range 100 { // the flood: requests, guesses, cheap proofs
				s.m.Take(c.ready, p, &limiter.Candidate{Key: s.address(0)[0].Key}, 1)
				require.False(t, s.offer(c.ready, s.address(0), usual.Work/2-1).Granted)
			}
			market(s, s.address(0), opening.Add(30*time.Minute), clients[:i+1])
		}
		market(s, s.address(0), opening.Add(30*time.Minute), clients)
		dearest := int64(0)
		for i, c := range clients {
			require.Equal(t, 1, c.bought, "client %d", i)
			require.Empty(t, c.waits)
			dearest = max(dearest, c.paid)
		}
		require.LessOrEqual(t, 3*dearest, 4*usual.Work)
		require.Greater(t, dearest, usual.Work)
		t.Logf("one every %v: the last has its tally after %v", gap, clients[19].ready.Sub(opening))
	}
}

// Twenty honest clients, of a million hashes a second, beside one that buys as fast as it
// can: none is told to come back, and when the buyer is gone all have a tally.
func TestTwentyBesideABuyer(t *testing.T) {
	for _, rate := range []int64{1_000_000, 14_000_000, 1_000_000_000} {
		s := openStall(t, usual, 0)
		buyer := &solver{rate: rate, many: true, ready: opening}
		clients := honest(20, 0)
		market(s, s.address(0), opening.Add(time.Minute), append(clients, buyer))
		through := 0
		for _, c := range clients {
			through += c.bought
			require.Empty(t, c.waits)
		}
		if rate <= 1_000_000 {
			require.Equal(t, 20, through)
		}
		t.Logf("beside %d hashes a second: %d of 20 have a tally within a minute, the buyer %d", rate, through, buyer.bought)

		// The buyer is gone: what leaks is theirs.
		market(s, s.address(0), opening.Add(3*time.Hour), clients)
		for i, c := range clients {
			require.Equal(t, 1, c.bought, "client %d", i)
		}
	}
}

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

// A leak that changes twenty times within a second keeps the level.
func TestLeakChangedTwentyTimes(t *testing.T) {
	leaks := []int64{1920, 32, 1, 192, 275}
	s := openStall(t, plain(8), 1<<12)
	work, sold := int64(15*8*1000), 0
	for n := range 21 {
		tariff := s.tariff
		tariff.SalesPerHour = leaks[n%len(leaks)]
		prices, err := tariff.Compile()
		require.NoError(t, err)
		s.prices = prices
		sold += s.spend(opening.Add(time.Duration(n)*50*time.Millisecond), s.address(0), work)
	}
	require.LessOrEqual(t, int64(sold), mostTallies(s.tariff, 21*work/2, 0)+2, "one ladder, and a second's leak")
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
