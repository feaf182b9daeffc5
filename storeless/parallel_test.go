// SPDX-License-Identifier: Apache-2.0

package storeless_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/storeless"
)

// Everything that takes locks, at once and over few keys, in a memory of one
// stripe, where all is in the way of all, and in one of many, where the order of
// locks matters. Nobody waits for ever, no proof buys two requests, no tally of
// a memory with room gets more than its quota, and no buyer more than is sold.
func TestEverythingInParallel(t *testing.T) {
	const workers, rounds, keys, quota = 16, 300, 10, 40
	for name, tallies := range map[string]int{"one full stripe": 1, "many stripes": 8000} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, plain(1), tallies)
			p := compile(t, storeless.Limit{Quota: quota, Window: hour})
			wide := p.Scale(3)
			var admitted, networks, bought, spent [keys]atomic.Int64
			var group sync.WaitGroup
			for worker := range uint64(workers) {
				group.Go(func() {
					r := rand.New(rand.NewPCG(worker, 4))
					for range rounds {
						a, b, c := r.IntN(keys), r.IntN(keys), r.IntN(keys)
						f := storeless.Candidate{Key: numbered(s.m, 'f', a), Provider: uint64(r.IntN(3))}
						if r.IntN(2) == 0 {
							f.Networks = []storeless.Network{{Key: numbered(s.m, 'n', b), Policy: wide}, {Key: numbered(s.m, 'n', c), Policy: wide}}[:1+min(1, max(b-c, c-b))]
						}
						if r.IntN(3) == 0 {
							f.Proof = &storeless.Proof{Key: numbered(s.m, 'p', c), Expires: opening.Add(minute)}
						}
						buyers := []storeless.Buyer{{Key: numbered(s.m, 'a', a), Crowds: 1}, {Key: numbered(s.m, 'a', b), Crowds: 2}, {Key: numbered(s.m, 'a', c), Crowds: 3}}
						switch r.IntN(5) {
						case 0:
							// Each worker sells wares of its own, and one of all.
							tally := numbered(s.m, 'w', int(worker)*rounds+b)
							if sale := s.m.Redeem(opening, s.prices, buyers[:1], tally, opening.Add(hour), 8000); sale.Granted && !sale.Held {
								bought[a].Add(1)
							}
							s.m.Redeem(opening, s.prices, buyers[1:2], buyers[2].Key, opening.Add(hour), 16)
						case 1:
							s.m.Quote(opening, s.prices, buyers)
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
			}
			group.Wait()
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

// What is settled of many tallies at once is all in the count of the network that they share.
func TestSettledInParallel(t *testing.T) {
	const workers, rounds, quota = 8, 5000, 1 << 20
	m := storeless.NewMemory(8000, 1)
	p := compile(t, storeless.Limit{Quota: quota, Window: hour})
	wide := p.Scale(workers)
	var group sync.WaitGroup
	for n := range workers {
		group.Go(func() {
			f := storeless.Candidate{Key: numbered(m, 'f', n), Networks: []storeless.Network{{Key: numbered(m, 'n', 0), Policy: wide}}}
			for range rounds {
				m.Record(opening, p, &f, 2)
				m.Restore(opening.Add(time.Second), opening, p, &f, 1)
			}
		})
	}
	group.Wait()
	for n := range workers {
		require.EqualValues(t, quota-rounds, take(m, p, opening, numbered(m, 'f', n), 0).Limits[0].Remaining)
	}
	require.EqualValues(t, workers*(quota-rounds), take(m, wide, opening, numbered(m, 'n', 0), 0).Limits[0].Remaining)
}

// requireCounts checks that what was admitted is what the memory holds.
func requireCounts(t *testing.T, m *storeless.Memory, p *storeless.Policy, kind byte, admitted *[10]atomic.Int64, quota int64) {
	t.Helper()
	total := int64(0)
	for n := range admitted {
		got := admitted[n].Load()
		require.LessOrEqual(t, got, quota, "%c%d", kind, n)
		require.Equal(t, quota-got, take(m, p, opening, numbered(m, kind, n), 0).Limits[0].Remaining, "%c%d", kind, n)
		total += got
	}
	require.Greater(t, total, quota, "the workload admits")
}

// requireNoLockHeld passes through every stripe of both tables, or hangs.
func requireNoLockHeld(t *testing.T, s *shop, p *storeless.Policy) {
	t.Helper()
	for n := range 2000 {
		f := storeless.Candidate{Key: numbered(s.m, 'x', n), Proof: &storeless.Proof{Key: numbered(s.m, 'y', n), Expires: opening.Add(time.Minute)}}
		s.m.Take(opening, p, &f, 1)
	}
}
