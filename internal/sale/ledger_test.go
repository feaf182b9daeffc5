// SPDX-License-Identifier: Apache-2.0

package sale_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
	"github.com/tallystick/tallystick/proof/kit"
)

// usual is what the middleware has by default.
var usual = sale.Tariff{Work: 1 << 18, Crowd: 64, SalesPerHour: 32}

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

// Once a clock that was far ahead is right again, what was sold under it counts, and no
// stranger takes its cell for one that will never be looked at again.
func TestSaleWhenTheClockWasFarAhead(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, 25 * time.Hour, 400 * 24 * time.Hour} {
		s := openStall(t, plain(1), 1)
		for range 3 {
			s.buy(opening.Add(ahead), s.address(0))
		}
		require.EqualValues(t, 8000, s.quote(opening, s.address(0)).Price)
		for n := range 100 {
			s.offer(opening, s.address(1+n), 1000)
		}
		require.Positive(t, s.m.Saturations(), "the workload fills the memory")
		require.EqualValues(t, 8000, s.quote(opening, s.address(0)).Price, "%v ahead", ahead)
	}
}

// What is sold while the clock is behind counts as well when it is back; what has
// leaked meanwhile is gone for good.
func TestSaleWhileTheClockIsBehind(t *testing.T) {
	s := openStall(t, plain(8), 1<<12)
	s.spend(opening, s.address(0), 60_000)
	price := s.quote(opening, s.address(0)).Price
	behind := opening.Add(-24 * time.Hour)
	s.quote(behind, s.address(0))
	require.Equal(t, price, s.buy(behind, s.address(0)))
	dearer := s.quote(behind, s.address(0)).Price
	require.Greater(t, dearer, price)
	require.Equal(t, dearer, s.quote(opening, s.address(0)).Price, "when the clock is back")
	require.Less(t, s.quote(opening.Add(10*time.Minute), s.address(0)).Price, price)

	s = openStall(t, plain(8), 1<<12)
	s.spend(opening, s.address(0), 60_000)
	s.quote(behind, s.address(0))
	require.Equal(t, int64(1000), s.quote(behind.Add(3*time.Hour), s.address(0)).Price, "leaked")
	require.Equal(t, int64(1000), s.quote(opening, s.address(0)).Price, "and does not come back with the clock")
}

// Tallies that are held, and proofs that are spent, stay so when the clock goes back.
func TestHeldWhenTheClockStepsBack(t *testing.T) {
	s := openStall(t, plain(1), 1)
	ends := opening.Add(time.Hour)
	s.prices.Redeem(opening, s.m, s.address(0), 7, ends, 1000)
	for _, back := range []time.Duration{time.Second, time.Hour, 48 * time.Hour} {
		require.True(t, s.prices.Redeem(opening.Add(-back), s.m, s.address(0), 7, ends, 0).Held)
	}
	s.requireCount(opening, s.address(0)[0], 1)

	f := limiter.Candidate{Key: 1, Proof: proofOf(7, 10*time.Second)}
	_, v := s.m.Take(opening, perMinute(t, 100), &f, 1)
	require.True(t, v.Admitted)
	for _, back := range []time.Duration{time.Second, time.Hour, 48 * time.Hour} {
		_, v = s.m.Take(opening.Add(-back), perMinute(t, 100), &f, 1)
		require.True(t, v.Spent && !v.Admitted)
	}
}

// Before 1970 time stands still: a clock that was never set sells a ladder, and
// then no more.
func TestSaleBefore1970(t *testing.T) {
	s := openStall(t, plain(2), 1) // no cell of it may be taken for free
	sold := 0
	for n := range 100 {
		now := time.Time{}.Add(time.Duration(n) * 24 * time.Hour)
		sold += s.buyOut(now, s.address(0))
		sold += s.buyOut(time.Unix(-int64(n), 0), s.address(0))
	}
	require.Equal(t, 45, sold, "22 doublings, and a rest")
	for n := range 100 { // a stranger that buys takes no cell that is in use
		s.offer(time.Time{}, s.address(1+n), 1000)
	}
	require.Zero(t, s.quote(time.Time{}, s.address(0)).Price)
	require.Equal(t, int64(1000), s.quote(opening, s.address(0)).Price)
}

// Another tariff, over sales that an older one has made, knows as many of them: it
// neither forgets any at once nor asks for more than its own ladder.
func TestTariffChanges(t *testing.T) {
	leaks := []int64{1, 16, 100, 2000}
	for _, from := range leaks {
		for _, to := range leaks {
			s := openStall(t, sale.Tariff{Work: 1000, Crowd: 4, SalesPerHour: from}, 1<<12)
			for range 8 {
				s.buy(opening, s.address(0))
			}
			for crowd, price := range map[int64]int64{1: 500 << 8, 2: 500 << 4, 8: 500 << 1, 16: 750} {
				prices := kit.Must(sale.Tariff{Work: 500, Crowd: crowd, SalesPerHour: to}.Compile())(t)
				require.Equal(t, price, prices.Quote(opening, s.m, s.address(0)).Price, "%v to %v", from, to)
				gone := opening.Add(8*time.Hour/time.Duration(to) + time.Second)
				require.Equal(t, int64(500), prices.Quote(gone, s.m, s.address(0)).Price)
			}
		}
	}
	// A level that is higher than the new tariff's highest is cut down to it.
	s := openStall(t, sale.Tariff{Work: 1000, Crowd: 255, SalesPerHour: 1020}, 1<<16)
	s.buyOut(opening, s.address(0))
	prices := kit.Must(plain(1).Compile())(t)
	require.LessOrEqual(t, prices.Quote(opening, s.m, s.address(0)).Wait, 15*time.Minute)
}

// A diary is the oracle of a ledger, in exact fractions.
type diary struct {
	crowds int64
	level  *big.Rat
	sales  int64
	at     int64 // when it was written
	ahead  int64 // when it was written under a clock that has stepped back; 0: none
	vague  bool  // all has leaked while the clock was behind, but for what was rounded
}

// look returns the level at now, by the rules for a clock that steps.
func (d *diary) look(tariff sale.Tariff, now int64) *big.Rat {
	if d.level == nil {
		d.level, d.at = new(big.Rat), now
	}
	if d.ahead != 0 && now >= d.ahead { // it is back where it was
		d.at, d.ahead = d.ahead, 0
	}
	if now < d.at-5 {
		d.at, d.ahead = now, max(d.at, d.ahead)
	}
	if d.ahead > now+86400 {
		d.ahead = 0
	}
	leak := big.NewRat(max(0, now-d.at)*tariff.SalesPerHour*d.crowds, 3600)
	level := new(big.Rat).Sub(d.level, leak)
	if level.Sign() <= 0 {
		if d.ahead != 0 {
			d.vague = d.vague || level.Cmp(big.NewRat(-d.sales, 1<<15)) > 0
			d.level, d.at, d.ahead = new(big.Rat), max(d.at, now), 0
		}
		return new(big.Rat)
	}
	return level
}

// prices are the least and the most that a tally may cost: each sale may have rounded the level up.
func (d *diary) prices(tariff sale.Tariff, now int64) (least, most int64) {
	level := d.look(tariff, now)
	return priceOf(tariff, d.crowds, level), priceOf(tariff, d.crowds, new(big.Rat).Add(level, big.NewRat(d.sales, 1<<15)))
}

// sell notes a sale.
func (d *diary) sell(tariff sale.Tariff, now int64) {
	d.level = new(big.Rat).Add(d.look(tariff, now), big.NewRat(1, 1))
	d.at = max(d.at, now)
	d.sales++
}

// priceOf is the price at a level, rounded up.
func priceOf(tariff sale.Tariff, crowds int64, level *big.Rat) int64 {
	crowd := new(big.Rat).SetInt64(tariff.Crowd * crowds)
	price := new(big.Rat).SetInt64(tariff.Work)
	for level.Cmp(crowd) >= 0 {
		level = new(big.Rat).Sub(level, crowd)
		price.Add(price, price)
	}
	price.Mul(price, new(big.Rat).Add(big.NewRat(1, 1), new(big.Rat).Quo(level, crowd)))
	up := new(big.Int).Add(price.Num(), new(big.Int).Sub(price.Denom(), big.NewInt(1)))
	return up.Quo(up, price.Denom()).Int64()
}

// FuzzLedger sells to two /64s of a /56 of a /48, under any tariff and a clock
// that goes anywhere, and keeps a diary. The first two bytes are the tariff, every
// further pair an act.
func FuzzLedger(f *testing.F) {
	f.Add([]byte{0, 0, 4, 0, 4, 0, 4, 0, 4, 0})
	f.Fuzz(func(t *testing.T, acts []byte) {
		if len(acts) < 2 || len(acts) > 2000 {
			return
		}
		leak := []int64{400, 397, 144, 8, 1}[acts[1]%5]
		s := openStall(t, sale.Tariff{Work: 1 << 20, Crowd: 1 + int64(acts[0]%4), SalesPerHour: leak}, 4096)
		wide := []*diary{{crowds: 2}, {crowds: 3}} // small networks, so that they become dear
		diaries := [2][]*diary{{{crowds: 1}, wide[0], wide[1]}, {{crowds: 1}, wide[0], wide[1]}}
		now := opening
		sell := func(who int, parts int64) { // parts: quarters of the price
			buyers := s.host(who, 0, 0)
			buyers[1].Crowds, buyers[2].Crowds = 2, 3
			least, most, behind := int64(0), int64(0), false
			for _, d := range diaries[who] {
				low, high := d.prices(s.tariff, now.Unix())
				least, most = max(least, low), max(most, high)
				behind = behind || d.ahead != 0
				if d.vague {
					t.Skip("whether the level comes back with the clock is a matter of rounding")
				}
			}
			q := s.quote(now, buyers)
			if q.Price == 0 {
				require.Greater(t, most, int64(sale.MaxPrice))
				if !behind { // else the wait may end where the clock was
					s.requireExactWait(now, buyers)
				}
			} else {
				require.GreaterOrEqual(t, q.Price, least)
				require.LessOrEqual(t, q.Price, most)
			}
			// A tally that has ended is not Held.
			work := (q.Price*parts + 3) / 4
			q.Granted = q.Price > 0 && work >= leastFor(q.Price)
			require.Equal(t, q, s.prices.Redeem(now, s.m, buyers, 7, time.Unix(1, 0), work))
			if !q.Granted {
				return
			}
			for _, d := range diaries[who] {
				d.sell(s.tariff, now.Unix())
			}
		}
		// Every ledger takes its cell, perhaps the one the ended tally had left; the
		// last sale finds the tally another. None is taken from another later, so a
		// clock that steps back finds what the diaries say.
		sell(0, 4)
		sell(1, 4)
		sell(0, 4)
		for ; len(acts) >= 4; acts = acts[2:] {
			act, n := acts[2], int64(acts[3])
			switch act % 8 {
			case 0:
				now = now.Add(time.Duration(n) * time.Second)
			case 1:
				now = now.Add(time.Duration(n) * fourCrowds(s.tariff) / 64)
			case 2:
				now = now.Add(-time.Duration(n) * time.Second)
			case 3: // up to two days and two hours
				now = now.Add(-time.Duration(n) * 707 * time.Second)
			case 4, 5: // enough
				sell(int(act/8%2), 3+n%8)
			case 6: // not enough
				sell(int(act/8%2), n%2)
			case 7: // forward as far
				now = now.Add(time.Duration(n) * 707 * time.Second)
			}
		}
	})
}

func TestLedgerSeedsExist(t *testing.T) {
	kit.Seeds(t, 6, "FuzzLedger")
}

// Nothing that runs for each request allocates: not what is granted, held, refused
// or too dear, nor what is spent, nor a newcomer to a full set.
func TestSaleAllocations(t *testing.T) {
	s := openStall(t, plain(8), 1<<12)
	policy := perMinute(t, 1<<30)
	wide := policy.Scale(8)
	buyers, dear := s.host(0, 0, 0), s.address(0)
	s.buyOut(opening, dear)
	n := 0
	fresh := func() limiter.Key { n++; return numbered(s.m, 'x', n) }
	proof := limiter.Proof{Expires: opening.Add(time.Minute)}
	candidate := limiter.Candidate{Key: 1, Networks: []limiter.Network{{Key: 2, Policy: wide}, {Key: 3, Policy: wide}}, Proof: &proof}
	full := limiter.NewMemory(1, 1)
	guest := limiter.Candidate{Provider: 7}
	for name, f := range map[string]func(){
		"Quote":                   func() { s.prices.Quote(opening, s.m, buyers) },
		"Quote, too dear":         func() { s.prices.Quote(opening, s.m, dear) },
		"Quote, nil":              func() { s.prices.Quote(opening, nil, buyers) },
		"Redeem":                  func() { n++; s.redeem(opening, s.hostInto(buyers, n), fresh(), 1<<40) },
		"Redeem, held":            func() { s.redeem(opening, buyers, 7, 1<<40) },
		"Redeem, under the price": func() { s.redeem(opening, buyers, 8, 1) },
		"Redeem, too dear":        func() { s.redeem(opening, dear, 8, 1<<40) },
		"Take, proof":             func() { proof.Key = fresh(); s.m.Take(opening, policy, &candidate, 1) },
		"Take, proof spent":       func() { proof.Key = 9; s.m.Take(opening, policy, &candidate, 1) },
		"Take, full":              func() { guest.Key = fresh(); full.Take(opening, policy, &guest, 1) },
	} {
		require.Zero(t, testing.AllocsPerRun(100, f), "%s allocates, and each request that asks for a price or pays one does it. "+
			"To see where: go test -run TestSaleAllocations -memprofilerate 1 -memprofile mem.out ./internal/sale, and go tool pprof -sample_index=alloc_objects mem.out.\n"+
			"Keep it on the stack, or in what the caller has already.", name)
	}
}

// hostInto is host in a list that is there already.
func (s *stall) hostInto(buyers []sale.Buyer, n int) []sale.Buyer {
	buyers[0].Key, buyers[1].Key, buyers[2].Key = numbered(s.m, '6', n), numbered(s.m, '5', n), numbered(s.m, '4', n)
	return buyers
}
