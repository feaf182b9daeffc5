// SPDX-License-Identifier: Apache-2.0

package storeless_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/storeless"
)

// All levels are checked and counted in one step: however many buy at once, and
// whatever is decided beside it in the same stripes, no level sells more than so much
// work buys, none loses a sale, and nobody waits for ever.
func TestLevelsAreAtomic(t *testing.T) {
	for name, row := range map[string]struct{ n64, n56, tries, want int }{
		"the /64s are too dear": {20, 20, 20, 20 * 3},
		"the /56s are too dear": {40, 4, 6, 4 * 24},
		"the /48 is too dear":   {100, 20, 4, 2*64 + 56 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, plain(1), 1<<12)
			p, err := storeless.Compile("p", []storeless.Limit{{Quota: 1 << 30, Window: time.Hour}})
			require.NoError(t, err)
			var granted atomic.Int64
			var group sync.WaitGroup
			for worker := range 8 {
				group.Go(func() {
					for n := worker; n < row.n64*row.tries; n += 8 {
						i := n % row.n64
						buyers := s.host(i, i%row.n56, 0)
						candidate := storeless.Candidate{
							Key:      buyers[0].Key,
							Networks: []storeless.Network{{Key: buyers[1].Key, Policy: p}, {Key: buyers[2].Key, Policy: p}},
							Proof:    &storeless.Proof{Key: numbered(s.m, 'p', n), Expires: opening.Add(time.Minute)},
						}
						s.m.Take(opening, p, &candidate, 1)
						s.m.Quote(opening, s.prices, buyers)
						if s.redeem(opening, buyers, numbered(s.m, 'x', n), 4000).Granted {
							granted.Add(1)
						}
					}
				})
			}
			group.Wait()
			require.Equal(t, int64(row.want), granted.Load())
			s.requireCount(opening, s.host(0, 0, 0)[2], row.want)
			sum := int64(0)
			for n := range row.n56 {
				sum += s.count(opening, s.host(0, n, 0)[1])
			}
			require.EqualValues(t, row.want, sum)
			sum = 0
			for n := range row.n64 {
				sum += s.count(opening, s.host(n, 0, 0)[0])
			}
			require.EqualValues(t, row.want, sum)
			require.Zero(t, s.m.Saturations())
		})
	}
}

// A buyer named twice, and one in the stripe of the tally, is locked once.
func TestLocksOfTheSameStripe(t *testing.T) {
	s := openShop(t, plain(2), 1) // one stripe
	b := s.address(0)[0]
	require.True(t, s.redeem(opening, []storeless.Buyer{b, b, b}, b.Key, 1000).Granted)
	require.Equal(t, int64(1), s.count(opening, b))
	large := openShop(t, plain(2), 1<<16) // and many
	for n := range 2000 {
		require.True(t, large.redeem(opening, large.host(n, n, n), large.ware(), 1000).Granted)
	}
}

// TestRedeemsAtOnce sells to one buyer from several goroutines, each with tallies
// of its own, until the price is above what they have worked: a sale that is lost is
// one too many.
func TestRedeemsAtOnce(t *testing.T) {
	s := openShop(t, storeless.Tariff{Work: 1000, Crowd: 255, Memory: time.Hour}, 1<<16)
	buyers := s.address(0)
	for round := range 20 {
		now := opening.Add(time.Duration(round) * s.tariff.Memory)
		var sold atomic.Int64
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for n := range 600 {
					if s.redeem(now, buyers, numbered(s.m, byte(g), round<<16+n), 4000).Granted {
						sold.Add(1)
					}
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 2*255+223+1, sold.Load(), "two crowds, and 7/8 of one, to the tally that costs 7500")
	}
}
