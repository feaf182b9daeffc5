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
			"To see where: go test -run '^$' -bench . -memprofilerate 1 -memprofile mem.out ./internal/sale, and go tool pprof -sample_index=alloc_objects mem.out.\n"+
			"Keep it on the stack, or in what the caller has already.", name)
	}
}

// hostInto is host in a list that is there already.
func (s *stall) hostInto(buyers []sale.Buyer, n int) []sale.Buyer {
	buyers[0].Key, buyers[1].Key, buyers[2].Key = numbered(s.m, '6', n), numbered(s.m, '5', n), numbered(s.m, '4', n)
	return buyers
}

func BenchmarkQuote(b *testing.B) {
	s := openStall(b, usual, 0)
	for name, buyers := range map[string][]sale.Buyer{"address": s.address(0), "host": s.host(0, 0, 0)} {
		b.Run(name, func(b *testing.B) {
			s.buy(opening, buyers)
			b.ReportAllocs()
			for b.Loop() {
				if s.prices.Quote(opening, s.m, buyers).Price == 0 {
					b.Fatal("sold out")
				}
			}
		})
	}
}

func BenchmarkRedeem(b *testing.B) {
	run := func(name string, f func(s *stall, n int) sale.Sale, want sale.Sale) {
		b.Run(name, func(b *testing.B) {
			s, n := openStall(b, usual, 0), 0
			b.ReportAllocs()
			for b.Loop() {
				n++
				if sale := f(s, n); sale != want && n > 1 {
					b.Fatal(sale)
				}
			}
		})
	}
	one := []sale.Buyer{{Key: 1, Crowds: 1 << 31}}
	host := []sale.Buyer{{Key: 1, Crowds: 1 << 31}, {Key: 2, Crowds: 1 << 31}, {Key: 3, Crowds: 1 << 31}}
	// Days later for each, so that all has leaked and no tally stays.
	sell := func(buyers []sale.Buyer) func(s *stall, n int) sale.Sale {
		return func(s *stall, n int) sale.Sale {
			now := opening.Add(time.Duration(n%1e4) * 48 * time.Hour)
			return s.prices.Redeem(now, s.m, buyers, limiter.Key(n)*0x9e3779b97f4a7c15, now.Add(time.Hour), usual.Work)
		}
	}
	sold := sale.Sale{Granted: true, Price: usual.Work}
	run("sold", sell(one), sold)
	run("sold-in-networks", sell(host), sold)
	run("held", func(s *stall, _ int) sale.Sale { return s.redeem(opening, one, 7, usual.Work) }, sale.Sale{Granted: true, Held: true})
	run("under-the-price", func(s *stall, _ int) sale.Sale { return s.redeem(opening, one, 7, 1) }, sale.Sale{Price: usual.Work})
}
