// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// A charge of a brute-force log.
type charged struct {
	at   time.Time
	cost int64
}

func sum(log []charged, now time.Time, span time.Duration) (n int64) {
	for _, c := range log {
		if now.Sub(c.at) < span {
			n += c.cost
		}
	}
	return n
}

// TestLogsAgainstAModel runs random traces with refunds: a sliding log admits what a
// log of everything would, and a rolling day never more, nor less than one that
// counts a minute longer; and whatever one limit refuses, no limit is charged for.
func TestLogsAgainstAModel(t *testing.T) {
	seeds := uint64(8)
	if kit.Brief() {
		seeds = 4
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 7))
		p := exactkit.Compile(t,
			storeless.Limit{Name: "log", Algorithm: storeless.SlidingLog, Quota: 30, Window: time.Hour},
			storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 40, Window: time.Hour, Burst: 5},
			storeless.Limit{Name: "day", Algorithm: storeless.RollingDay, Quota: 200, Window: day})
		clock := exacttest.NewClock()
		m := memory.New(0, clock.Now)
		bucket := kit.Must(limiter.Compile("bucket", []storeless.Limit{p.Limit(1)}))(t)
		var log []charged
		var owed limiter.Tally
		var by [3]int // refusals
		for range 2000 {
			clock.Advance(time.Duration(rng.ExpFloat64() * float64(5*time.Minute)))
			now, cost := clock.Now(), 1+rng.Int64N(4)
			v := exactkit.Take(t, m, exact.Call{Key: "k", Cost: cost, Policy: p})
			after, room := bucket.Step(now, owed, cost)
			inLog, inDay := sum(log, now, time.Hour)+cost <= 30, !v.Limits[2].Blocked
			require.Equal(t, !inLog, v.Limits[0].Blocked)
			require.Equal(t, !room.Admitted, v.Limits[1].Blocked)
			require.Equal(t, inLog && room.Admitted && inDay, v.Admitted)
			if sum(log, now, day)+cost > 200 {
				require.False(t, inDay, "over the limit in a day")
			}
			if sum(log, now, day+time.Minute)+cost <= 200 {
				require.True(t, inDay, "refused though 24 h and a minute have room")
			}
			for i := range by {
				if v.Limits[i].Blocked {
					by[i]++
				}
			}
			if !v.Admitted { // and the bucket stands as if there was no call
				want := (*limiter.Memory)(nil).Peek(now, bucket, &limiter.Candidate{Shown: owed}, cost)
				require.Equal(t, storeless.LimitStatus(want.Limits[0]), v.Limits[1])
				continue
			}
			log, owed = append(log, charged{now, cost}), after
			if rng.IntN(20) == 0 {
				require.NoError(t, m.Refund(t.Context(), v.Receipt))
				log = log[:len(log)-1]
				owed = (*limiter.Memory)(nil).Restore(now, now, bucket, &limiter.Candidate{Shown: owed}, cost)
			}
		}
		for i, n := range by {
			require.Positive(t, n, "limit %d refused something", i)
		}
	}
}

// A key that is refused costs no more room than one that is not.
func TestLogKeepsNoMoreThanItsQuota(t *testing.T) {
	clock := exacttest.NewClock()
	p := exactkit.Compile(t,
		storeless.Limit{Name: "log", Algorithm: storeless.SlidingLog, Quota: 50, Window: time.Hour},
		storeless.Limit{Name: "day", Algorithm: storeless.RollingDay, Quota: 1 << 30, Window: day})
	var a engine.Account
	call := exact.Call{Key: "k", Cost: 1, Policy: p}
	for range 100_000 {
		clock.Advance(3 * time.Second)
		a.Take(clock.Now(), &call)
	}
	require.Less(t, len(exactkit.Bytes(t, &a)), 8*50+8*1442)
}

// The wait of a dear call is never too short. It is the true one where it ends within 256
// charges, or where each is of 1; beyond it is rounded up, by no more than the window.
func TestWaitOfADearCallIsNeverTooShort(t *testing.T) {
	for _, tt := range []struct {
		quota, most int64 // of a charge
		exactly     bool  // always the true wait
	}{{200, 3, true}, {2000, 1, true}, {2000, 4, false}} {
		rng := rand.New(rand.NewPCG(uint64(tt.quota), uint64(tt.most)))
		p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.SlidingLog, Quota: tt.quota, Window: time.Hour})
		clock, a := exacttest.NewClock(), new(engine.Account)
		var log []charged
		for {
			clock.Advance(time.Second)
			call := exact.Call{Key: "k", Cost: 1 + rng.Int64N(tt.most), Policy: p}
			v := a.Take(clock.Now(), &call)
			if !v.Admitted {
				break
			}
			if rng.IntN(5) == 0 {
				require.NoError(t, a.Refund(clock.Now(), &v.Receipt))
				continue
			}
			log = append(log, charged{clock.Now(), call.Cost})
		}
		now := clock.Now()
		longer := 0
		for range 200 {
			cost := 1 + rng.Int64N(tt.quota)
			v := a.Peek(now, &exact.Call{Key: "k", Cost: cost, Policy: p})
			if v.Admitted {
				continue
			}
			passes := func(wait time.Duration) bool { return sum(log, now.Add(wait), time.Hour)+cost <= tt.quota }
			require.True(t, passes(v.Wait), "a wait of %s at cost %d is too short", v.Wait, cost)
			require.LessOrEqual(t, v.Wait, time.Hour)
			if passes(v.Wait - time.Second) {
				longer++
				require.Greater(t, cost, int64(200), "cheap ones are told their true wait")
			}
		}
		require.Equal(t, tt.exactly, longer == 0, "%d of 200 are rounded up", longer)
	}
}

// Accounts without a log are the arithmetic of package limiter, step by step.
func TestAccountsAreTheLimiters(t *testing.T) {
	for _, algorithm := range []storeless.Algorithm{storeless.SlidingWindow, storeless.FixedWindow, storeless.TokenBucket, storeless.LeakyBucket} {
		p := exactkit.Compile(t, storeless.Limit{Algorithm: algorithm, Quota: 7, Window: time.Minute}, exactkit.Hourly(60))
		pure := kit.Must(limiter.Compile(p.Name(), []storeless.Limit{p.Limit(0), p.Limit(1)}))(t)
		clock, a, tally := exacttest.NewClock(), new(engine.Account), limiter.Tally{}
		for step := range 400 {
			clock.Advance(time.Duration(step*step%17) * time.Second / 2)
			cost := int64(1 + step%3%2)
			after, is := pure.Step(clock.Now(), tally, cost)
			tally = after
			got := a.Take(clock.Now(), &exact.Call{Key: "k", Cost: cost, Policy: p})
			require.Equal(t, limiter.VerdictAs[storeless.Verdict](is), got.Verdict, "%s, step %d", algorithm, step)
		}
	}
}
