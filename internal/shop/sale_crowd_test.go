// SPDX-License-Identifier: Apache-2.0

package shop_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/shop"
	"github.com/tallystick/tallystick/storeless"
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
func (c *solver) act(s *stall, buyers []shop.Buyer) {
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
func market(s *stall, buyers []shop.Buyer, until time.Time, all []*solver) {
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

var usual = shop.Tariff{Work: 1 << 18, Crowd: 8, Memory: time.Hour}

// Twenty honest clients behind one address, beside one that floods it and solves
// nothing: each gets a tally, and none pays more than six times the base.
func TestTwentyBesideAFlooder(t *testing.T) {
	for _, gap := range []time.Duration{0, time.Second, time.Minute} {
		s := openStall(t, usual, 0)
		p, err := limiter.Compile("p", []storeless.Limit{{Quota: 5, Window: time.Minute}})
		require.NoError(t, err)
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
		require.LessOrEqual(t, dearest, 6*usual.Work)
		require.Greater(t, dearest, 2*usual.Work)
		t.Logf("one every %v: the last has its tally after %v", gap, clients[19].ready.Sub(opening))
	}
}

// Twenty honest clients, of a million hashes a second, beside one that buys as fast as it
// can: nobody is told to come back, and when the buyer is gone all have a tally.
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
