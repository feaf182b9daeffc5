// SPDX-License-Identifier: Apache-2.0

package pace_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/pace"
	"github.com/tallystick/tallystick/proof/kit"
)

// Requests and tokens together: neither is exceeded, whichever is short, and what is there is
// used. late is the second's worth that a booking may be used late.
func TestRequestsAndTokens(t *testing.T) {
	const late = 1.0 / 60
	for name, c := range map[string]struct {
		requests, tokens limits
		cost             func(*rand.Rand) int64
		least            float64       // of what is short, how much is used
		longest          time.Duration // wait, in means
	}{
		"tokens are short":    {meter(600, time.Minute), bucket(60_000, time.Minute, 6000), func(r *rand.Rand) int64 { return 500 + r.Int64N(2000) }, 0.95, 3},
		"requests are short":  {meter(120, time.Minute), bucket(60_000, time.Minute, 6000), func(r *rand.Rand) int64 { return 1 + r.Int64N(100) }, 0.95, 3},
		"either may be short": {meter(60, time.Minute), bucket(60_000, time.Minute, 6000), func(r *rand.Rand) int64 { return 1 + r.Int64N(6)*r.Int64N(400) }, 0.8, 3},
		"a few are very dear": {meter(120, time.Minute), bucket(60_000, time.Minute, 10_000), func(r *rand.Rand) int64 {
			if r.IntN(20) == 0 {
				return 10_000
			}
			return 100
		}, 0.7, 7}, // a burst is booked anew when there is no request for it in time
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			memory := memory.New(0, nil)
			counter := &wire{Counter: memory, trip: 5 * time.Millisecond}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			var went log
			var wg sync.WaitGroup
			for i := range 5 {
				p := process(t, pace.Config{Counter: counter, Limits: c.requests, Units: map[string]limits{"tokens": c.tokens}, MaxWait: 5 * time.Minute})
				for j := range 10 {
					rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
					wg.Go(func() {
						for went.call(ctx, p, "", pace.Cost{Unit: "tokens", N: c.cost(rng)}) == nil {
						}
					})
				}
			}
			wg.Wait()
			time.Sleep(time.Second)
			requests, tokens := float64(c.requests[0].Quota), float64(c.tokens[0].Quota)
			used := int64(0)
			for _, n := range went.costs {
				used += n
			}
			most := went.most(time.Minute)
			burst := float64(c.tokens[0].Burst)
			went.costs = make([]int64, len(went.went))
			for i := range went.costs {
				went.costs[i] = 1
			}
			share := max(float64(len(went.went))/requests, float64(used)/tokens) / 10
			t.Logf("%d calls, %d tokens in 10 minutes, %.2f of the shorter; most in a minute %d and %d; mean wait %s, longest %s; %.2f calls of the counter each", len(went.went), used, share,
				went.most(time.Minute), most, went.mean(), went.longest(), float64(counter.calls.Load())/float64(len(went.went)))
			require.LessOrEqual(t, float64(went.most(time.Minute)), requests*(1+late)+1)
			require.LessOrEqual(t, float64(most), tokens*(1+late)+burst)
			require.GreaterOrEqual(t, share, c.least)
			require.LessOrEqual(t, went.longest(), c.longest*went.mean(), "nobody starves")
		})
	}
}

// What is booked of one unit long before there is room on another is given back, and booked
// again when there is.
func TestWhatIsBookedTooEarlyIsBookedAgain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		memory := memory.New(0, nil)
		cfg := pace.Config{Counter: memory, Limits: bucket(10, time.Minute, 10), Units: map[string]limits{"tokens": bucket(60, time.Minute, 60)}}
		one, other := process(t, cfg), process(t, cfg)
		require.NoError(t, one.Wait(t.Context(), pace.Cost{Unit: "tokens", N: 60}))
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { // it books its request first, and then has to wait 30 s for tokens
			require.NoError(t, one.Wait(t.Context(), pace.Cost{Unit: "tokens", N: 30}))
			require.Equal(t, 30*time.Second, time.Since(began))
		})
		synctest.Wait()
		time.Sleep(time.Second)
		for range 9 { // which leaves nine requests to others, without tokens
			require.NoError(t, other.Wait(t.Context()))
		}
		require.Equal(t, time.Second, time.Since(began))
		wg.Wait()
	})
}

func TestCosts(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		memory := memory.New(0, nil)
		cfg := pace.Config{Counter: memory, Limits: bucket(100, time.Hour, 10), Units: map[string]limits{"tokens": bucket(100, time.Hour, 50)}}
		p := process(t, cfg)
		require.ErrorIs(t, p.Wait(t.Context(), pace.Cost{Unit: "tokens", N: 51}), pace.ErrImpossible)
		require.ErrorIs(t, p.Wait(t.Context(), pace.Cost{Unit: "tokens", N: 51}), exact.ErrNotCounted)
		require.ErrorIs(t, p.Wait(t.Context(), pace.Cost{N: 11}), pace.ErrImpossible)
		require.ErrorContains(t, p.Wait(t.Context(), pace.Cost{Unit: "token", N: 1}), `"token"`)
		require.ErrorContains(t, p.Wait(t.Context(), pace.Cost{Unit: "tokens", N: -1}), "below 0")
		require.EqualValues(t, 10, left(t, memory, "", cfg.Limits))
		require.NoError(t, p.Wait(t.Context(), pace.Cost{N: 3}))
		require.NoError(t, p.Wait(t.Context(), pace.Cost{N: 0}, pace.Cost{Unit: "tokens", N: 20}))
		require.NoError(t, p.Wait(t.Context(), pace.Cost{Unit: "tokens", N: 0}))
		require.NoError(t, p.Wait(t.Context(), pace.Cost{N: 0}))
		require.EqualValues(t, 6, left(t, memory, "", cfg.Limits))
		began := time.Now()
		require.NoError(t, process(t, cfg).Pause(t.Context(), 5*time.Second))
		time.Sleep(time.Second)
		require.NoError(t, p.Wait(t.Context(), pace.Cost{N: 0}), "what costs nothing heeds a pause still")
		require.NoError(t, p.Wait(t.Context(), pace.Cost{N: 0}))
		require.GreaterOrEqual(t, time.Since(began), 5*time.Second)
		require.EqualValues(t, 30, left(t, memory, "tokens", cfg.Units["tokens"]))

		only := process(t, pace.Config{Counter: memory, Name: "video", Units: map[string]limits{"seconds": meter(1, time.Second)}})
		began = time.Now()
		require.NoError(t, only.Wait(t.Context(), pace.Cost{Unit: "seconds", N: 1}))
		require.NoError(t, only.Wait(t.Context(), pace.Cost{Unit: "seconds", N: 1}))
		require.NoError(t, only.Wait(t.Context()))
		require.Equal(t, time.Second, time.Since(began))
		require.ErrorContains(t, only.Wait(t.Context(), pace.Cost{N: 1}), "no limit counts")
	})
}
