// SPDX-License-Identifier: Apache-2.0

package sale_test

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
	"github.com/tallystick/tallystick/proof/kit"
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
