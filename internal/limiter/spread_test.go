// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/chance"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// spreading returns a policy of a quota a minute and what each of n instances admits of it.
func spreading(t *testing.T, quota, n int64) (p, share *Policy) {
	p, err := Compile("shop", []storeless.Limit{{Quota: quota, Window: time.Minute}})
	require.NoError(t, err)
	return p, p.Spread(n)
}

// admits returns what is admitted of requests of a cost by what admits a share.
func (r *rule) admits(cost int64) int64 { return r.limit.Quota + r.moreFor(cost) }

// TestSpread: what a sum over every outcome says for all n instances, for each class of costs.
func TestSpread(t *testing.T) {
	for _, test := range []struct{ quota, n, cost, want int64 }{
		{5, 3, 1, 5}, {5, 10, 1, 4}, {20, 3, 1, 13}, {20, 10, 1, 7}, {100, 3, 1, 45}, {100, 10, 1, 19}, {1000, 10, 1, 122},
		{100, 2, 1, 61}, {64, 10, 1, 14}, {100, 10, 50, 100}, {100, 10, 100, 100}, {100, 10, 2, 25}, {100, 1, 1, 100}, {3, 10, 1, 3},
	} {
		_, share := spreading(t, test.quota, test.n)
		require.Equal(t, test.want, share.rules[0].admits(test.cost), "%+v", test)
	}
	step := int64(7)
	if kit.Brief() {
		step = 97
	}
	for quota := int64(1); quota < 400; quota += step {
		for n := int64(1); n < 100; n++ {
			p, share := spreading(t, quota, n)
			require.Equal(t, p.Capacity(), share.Capacity(), "what fits the tally fits its share")
			r, most := &share.rules[0], int64(0)
			for cost := int64(1); cost <= quota; cost *= 2 {
				q := r.admits(cost)
				if want := chance.Spread(quota, n, cost); q != want || q < most || q < cost || q > quota || q < chance.Share(quota, n, cost) {
					require.Equal(t, want, q, "%d on %d, at %d", quota, n, cost)
					require.GreaterOrEqual(t, q, max(most, cost, chance.Share(quota, n, cost)))
					require.LessOrEqual(t, q, quota)
				}
				most = q
			}
		}
	}
}

// TestSpreadOfAlgorithms: windows are shared, and count in aligned ones; buckets are not.
func TestSpreadOfAlgorithms(t *testing.T) {
	p, err := Compile("shop", []storeless.Limit{
		{Name: "minute", Quota: 100, Window: time.Minute},
		{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 60, Window: time.Minute, Burst: 20},
		{Name: "meter", Algorithm: storeless.LeakyBucket, Quota: 60, Window: time.Minute},
	})
	require.NoError(t, err)
	share := p.Spread(10)
	require.Equal(t, storeless.FixedWindow, share.Limit(0).Algorithm)
	require.Equal(t, p.rules[1:], share.rules[1:])
	for i := range 3 {
		require.Equal(t, p.ID(i), share.ID(i))
	}
	require.Panics(t, func() { p.Spread(0) })

	late := p.Charging(func(i int) bool { return i > 0 }).Spread(10)
	require.True(t, late.rules[0].later && !late.rules[1].later)
}

// TestSpreadIsFair: a client that uses all of a quota in each window, each request on one of n instances by chance,
// and all of one cost, has no more than one in 2,000 refused.
func TestSpreadIsFair(t *testing.T) {
	requests := 400_000
	if kit.Brief() {
		requests = 40_000
	}
	for _, quota := range []int64{5, 20, 100, 1000} {
		for _, n := range []int64{2, 3, 10, 30} {
			for _, cost := range []int64{1, 2, 5, 10} {
				if cost > quota {
					continue
				}
				_, share := spreading(t, quota, n)
				r := rand.New(rand.NewPCG(uint64(quota), uint64(n)))
				shares := make([]Tally, n)
				refused, each := 0, int(quota/cost)
				for i := range requests {
					now := time.Unix(1_800_000_000, 0).Add(time.Duration(i/each) * time.Minute)
					at, v := r.Int64N(n), storeless.Verdict{}
					if shares[at], v = share.Step(now, shares[at], cost); !v.Admitted {
						refused++
					}
				}
				most := float64(requests) / 2000
				require.LessOrEqual(t, float64(refused), most+5*math.Sqrt(most), "%d on %d, at %d", quota, n, cost)
			}
		}
	}
}

// TestSpreadOfMixedCosts: what docs/bounds.md says of a client that pays half of its quota in requests that cost 1, and
// half in those that cost 10: the cheap ones find the dear ones before them.
func TestSpreadOfMixedCosts(t *testing.T) {
	_, share := spreading(t, 100, 10)
	r := rand.New(rand.NewPCG(1, 2))
	var costs []int64
	for i := range 55 {
		costs = append(costs, 1+9*int64(i/50))
	}
	shares, refused := make([]Tally, 10), map[int64]int{}
	const windows = 1000
	for window := range windows {
		r.Shuffle(len(costs), func(i, j int) { costs[i], costs[j] = costs[j], costs[i] })
		now := time.Unix(1_800_000_000, 0).Add(time.Duration(window) * time.Minute)
		for _, cost := range costs {
			at, v := r.IntN(10), storeless.Verdict{}
			if shares[at], v = share.Step(now, shares[at], cost); !v.Admitted {
				refused[cost]++
			}
		}
	}
	require.InDelta(t, 0.03, float64(refused[1])/(50*windows), 0.005)
	require.LessOrEqual(t, refused[10], 5*windows/2000+2)
}

// TestSpreadOfMemories: one that drops its tokens gets a share of each instance and of each that starts anew, by its
// dearest request, in whatever requests it asks.
func TestSpreadOfMemories(t *testing.T) {
	for _, costs := range [][]int64{{1}, {1, 2}, {8, 1}, {1, 2, 3, 50}, {100}} {
		for _, n := range []int64{3, 10} {
			t.Run(fmt.Sprint(costs, " on ", n), func(t *testing.T) {
				p, share := spreading(t, 100, n)
				q, r := int64(0), rand.New(rand.NewPCG(1, uint64(n)))
				for _, cost := range costs {
					q = max(q, share.rules[0].admits(cost))
				}
				now := time.Unix(1_800_000_000, 0)
				memories := make([]*Memory, n)
				for i := range memories {
					memories[i] = NewMemory(64, 1)
				}
				admitted := int64(0)
				play := func() {
					for range 100 * n {
						m, cost := memories[r.Int64N(n)], costs[r.IntN(len(costs))]
						f := Candidate{Key: 7, Networks: []Network{{Key: 8, Policy: share}}}
						_, v := m.Take(now, p, &f, cost)
						if v.Admitted {
							admitted += cost
							require.GreaterOrEqual(t, v.Limits[0].Remaining, 100-q, "what is left is told of the tally")
							continue
						}
						require.False(t, v.Impossible)
						if _, own := m.Take(now, p, &Candidate{Key: 7}, 0); own.Limits[0].Remaining >= cost {
							require.Equal(t, time.Second, v.Wait)
							require.Equal(t, time.Second, v.Limits[0].Reset)
							require.True(t, v.Limits[0].Blocked)
						}
					}
				}
				play()
				require.LessOrEqual(t, admitted, n*q)
				if len(costs) == 1 {
					require.Equal(t, n*(q/costs[0])*costs[0], admitted)
				}
				memories[0] = NewMemory(64, 1)
				play()
				require.LessOrEqual(t, admitted, (n+1)*q, "C = 1")
			})
		}
	}
}
