// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/chance"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// TestShareAway: what a sum over every outcome says, and that a share is never more than the quota nor less than
// an even part. Of large quotas it is a little more than it need be.
func TestShareAway(t *testing.T) {
	for _, test := range []struct{ quota, instances, cost, want int64 }{
		{100, 10, 1, 19}, {100, 50, 1, 8}, {100, 2, 1, 60}, {100, 100, 1, 6}, {5, 50, 1, 3}, {1, 10, 1, 1}, {5, 10, 1, 4}, {1000, 10, 1, 121},
		{100, 1, 1, 100}, {storeless.MaxQuota, 1, 1, storeless.MaxQuota},
		{1000, 10, 10, 199}, // 19 requests of 100, and room for a part of one
		{1000, 10, 100, 599}, {1000, 10, 1000, 1000}, {100, 10, 64, 100},
		{1 << 20, 10, 1, 105_435}, {1_000_000, 10_000, 1, 123}, {storeless.MaxQuota, 1 << 20, 1, 2122}, {storeless.MaxQuota, 1 << 20, 1 << 30, storeless.MaxQuota},
	} {
		require.Equal(t, test.want, shareOf(test.quota, test.instances, test.instances-1, test.cost), "%+v", test)
	}
	step := int64(7)
	if kit.Brief() {
		step = 97
	}
	for quota := int64(1); quota < 400; quota += step {
		for n := int64(1); n < 100; n++ {
			most := shareOf(quota, n, n-1, 1)
			for cost := int64(1); cost <= quota; cost *= 2 {
				q := shareOf(quota, n, n-1, cost)
				if want := chance.Share(quota, n, cost); q != want || q > quota || q*n < quota || q < cost || q < most {
					require.Equal(t, want, q, "%d on %d, at %d", quota, n, cost)
					require.LessOrEqual(t, q, quota)
					require.GreaterOrEqual(t, q*n, quota)
					require.GreaterOrEqual(t, q, cost, "a request that fits at home fits")
					require.GreaterOrEqual(t, q, most)
				}
				most = q
			}
		}
	}
}

// TestAway: windows are shared, a bucket's rate is, its burst and a meter are not, what a pass has
// for life is.
func TestAway(t *testing.T) {
	p, err := Compile("shop", []storeless.Limit{
		{Name: "minute", Quota: 100, Window: time.Minute},
		{Name: "day", Quota: 5000, Window: 24 * time.Hour},
		{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 60, Window: time.Minute, Burst: 20},
		{Name: "meter", Algorithm: storeless.LeakyBucket, Quota: 60, Window: time.Minute},
	})
	require.NoError(t, err)
	pass := p.Pass(time.Hour)
	away := pass.Away(10, 1)
	require.EqualValues(t, 19, away.Limit(0).Quota)
	require.Equal(t, shareOf(pass.Limit(1).Quota, 10, 9, 1), away.Limit(1).Quota)
	require.Equal(t, pass.rules[1].life, away.rules[1].life, "it does not come back there either")
	require.Equal(t, pass.rules[2].capacity, away.rules[2].capacity)
	require.Equal(t, 8_132_774, int(away.rules[2].interval), "1.23 times the tenth part of 1 a second")
	require.Equal(t, pass.rules[3], away.rules[3])
	require.EqualValues(t, math.Ceil(1e6*chance.Slower(20, 10, 4)), pass.Away(10, 4).rules[2].interval, "3.0 times that part")
	for i := range 4 {
		require.Equal(t, pass.ID(i), away.ID(i))
	}
	require.Nil(t, pass.Away(1, 1), "nothing is held")
	require.Panics(t, func() { pass.Away(0, 1) })
	require.Panics(t, func() { pass.Away(1, 0) })
}

// TestTalliesAwayFromHome: on each instance that is not its home a tally gets its share, whatever it
// shows there; at home it gets its quota.
func TestTalliesAwayFromHome(t *testing.T) {
	p, err := Compile("shop", []storeless.Limit{{Quota: 100, Window: time.Hour}})
	require.NoError(t, err)
	pass := p.Pass(time.Hour)
	away := pass.Away(10, 1)
	now := time.Unix(1_800_000_000, 0)
	total := 0
	for instance := range 10 {
		m := NewMemory(64, 1)
		f := Candidate{Key: m.Key([]byte("tally"))}
		if instance > 0 {
			f.Networks = []Network{{Key: m.Key([]byte("tally, away")), Policy: away}}
		}
		admitted := 0
		for range 300 {
			_, v := m.Take(now, pass, &f, 1) // shows nothing, as one that drops does
			if v.Admitted {
				admitted++
			} else {
				require.Positive(t, v.Wait)
			}
		}
		if instance == 0 {
			require.Equal(t, 100, admitted)
		} else {
			require.Equal(t, 19, admitted)
		}
		total += admitted
	}
	require.Equal(t, 100+9*19, total)
}

// TestAwayOfTheSlowestBuckets: the product of the largest numbers that are permitted has more than 64
// bits. No share is faster than its bucket, or slower than a bucket may be.
func TestAwayOfTheSlowestBuckets(t *testing.T) {
	const day = 24 * time.Hour
	for _, l := range []storeless.Limit{
		{Quota: 1, Window: 150 * day, Burst: 2},
		{Quota: 1, Window: 183 * day, Burst: 2},
		{Quota: 7, Window: storeless.MaxWindow, Burst: 7},
		{Quota: 3, Window: 366 * day / 5 * 4, Burst: 3},
		{Quota: storeless.MaxQuota, Window: time.Second, Burst: storeless.MaxQuota},
	} {
		l.Algorithm = storeless.TokenBucket
		p, err := Compile("shop", []storeless.Limit{l})
		require.NoError(t, err)
		for _, instances := range []int64{2, 10, 1 << 10, 1 << 19, 1<<20 - 1, 1 << 20} {
			cost := min(max(1, l.Burst/4), 1<<20)
			away := p.Away(instances, cost)
			if away == nil {
				away = p // it is as slow as a bucket may be
			}
			of, r := p.rules[0], away.rules[0]
			slowest := max(of.interval, storeless.MaxWindow.Microseconds()/of.capacity)
			require.GreaterOrEqual(t, r.interval, of.interval, "%+v on %d", l, instances)
			require.LessOrEqual(t, r.interval, slowest, "%+v on %d", l, instances)
			slower := chance.Slower(of.capacity, instances, cost)
			require.InDelta(t, min(math.Ceil(float64(of.interval)*slower), float64(slowest)), float64(r.interval), 1, "%+v on %d", l, instances)
			require.Equal(t, r.interval*r.capacity, r.empties)
		}
	}
}

// refusedAway returns how many of so many requests the shares refuse, of a client whose balancer picks an instance by
// chance for each. The last one is the home, which refuses none here.
func refusedAway(away *Policy, instances int64, requests int, r *rand.Rand, at func(n int) time.Duration) (refused int) {
	shares := make([]Tally, instances-1)
	for n := range requests {
		i := r.Int64N(instances)
		if i == instances-1 {
			continue
		}
		var v storeless.Verdict
		if shares[i], v = away.Step(time.Unix(1_800_000_000, 0).Add(at(n)), shares[i], 1); !v.Admitted {
			refused++
		}
	}
	return refused
}

// TestAwayOfWindows: a client that uses nearly all of a quota in each window, evenly, each request on an instance that
// is picked by chance, has no more than one in 2,000 refused by the shares.
func TestAwayOfWindows(t *testing.T) {
	windows := 4000
	if kit.Brief() {
		windows = 400
	}
	for _, algorithm := range []storeless.Algorithm{storeless.SlidingWindow, storeless.FixedWindow} {
		for _, quota := range []int64{20, 60, 100, 300, 1000} {
			for _, instances := range []int64{2, 10, 100, 300} {
				p, err := Compile("shop", []storeless.Limit{{Algorithm: algorithm, Quota: quota, Window: time.Minute}})
				require.NoError(t, err)
				away := p.Pass(time.Hour).Away(instances, 1)
				r := rand.New(rand.NewPCG(uint64(quota), uint64(instances)))
				requests := windows * 100
				refused := refusedAway(away, instances, requests, r, func(n int) time.Duration {
					return time.Duration(n) * time.Minute / time.Duration(quota)
				})
				// Luck adds to one in 2,000: a share that is used up refuses several in a row.
				most := float64(requests) / 2000
				require.LessOrEqual(t, float64(refused), most+5*math.Sqrt(most), "%s, %d on %d", algorithm, quota, instances)
				t.Logf("%s, %d on %d: %d of %d", algorithm, quota, instances, refused, requests)
			}
		}
	}
}

// TestAwayOfEvenRequests: a client that uses all of a bucket's rate, or more than it, each request on an instance that
// is picked by chance, has no more than one in 2,000 refused by a share.
func TestAwayOfEvenRequests(t *testing.T) {
	const requests = 40_000
	for _, burst := range []int64{2, 3, 5, 10, 20, 60} {
		for _, instances := range []int64{2, 10, 100, 1000} {
			p, err := Compile("shop", []storeless.Limit{{Algorithm: storeless.TokenBucket, Quota: 60, Window: time.Minute, Burst: burst}})
			require.NoError(t, err)
			away := p.Pass(time.Hour).Away(instances, 1)
			if away == nil {
				require.EqualValues(t, 1, chance.Slower(burst, instances, 1), "%d on %d", burst, instances)
				continue
			}
			r := rand.New(rand.NewPCG(uint64(burst), uint64(instances)))
			refused := refusedAway(away, instances, requests, r, func(n int) time.Duration {
				return time.Duration(max(0, int64(n)-burst)) * time.Second
			})
			require.LessOrEqual(t, refused, requests/2000, "%d on %d", burst, instances)
		}
	}
}
