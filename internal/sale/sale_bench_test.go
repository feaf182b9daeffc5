// SPDX-License-Identifier: Apache-2.0

package sale_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
)

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
