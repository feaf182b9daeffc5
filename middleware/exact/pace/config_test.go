// SPDX-License-Identifier: Apache-2.0

package pace_test

import (
	"context"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/pace"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

func TestWhatNewRefuses(t *testing.T) {
	memory := memory.New(0, nil)
	second := meter(10, time.Second)
	for name, c := range map[string]struct {
		cfg  pace.Config
		says string
	}{
		"no counter":     {pace.Config{Name: "a", Limits: second}, "Counter: is required"},
		"no limit":       {pace.Config{Name: "a", Counter: memory}, "Limits: must have a limit"},
		"no name":        {pace.Config{Counter: memory, Limits: second}, "Name: must be 1 to 26"},
		"a bad name":     {pace.Config{Name: "A b", Counter: memory, Limits: second}, "Name: must be 1 to 26 of a-z"},
		"a long name":    {pace.Config{Name: strings.Repeat("a", 27), Counter: memory, Limits: second}, "Name: must be 1 to 26 of a-z"},
		"a long key":     {pace.Config{Name: "a", Key: strings.Repeat("k", 257), Counter: memory, Limits: second}, "Key: must have at most 256"},
		"a bad limit":    {pace.Config{Name: "a", Counter: memory, Limits: meter(0, time.Second)}, "Quota"},
		"a bad unit":     {pace.Config{Name: "a", Counter: memory, Units: map[string]limits{"tokens": meter(0, time.Second)}}, "Units[tokens]"},
		"no unit's name": {pace.Config{Name: "a", Counter: memory, Units: map[string]limits{"": second}}, "without a name"},
		"the gate":       {pace.Config{Name: "a", Counter: memory, Units: map[string]limits{"pause": second}}, `"pause"`},
		"five units":     {pace.Config{Name: "a", Counter: memory, Limits: second, Units: map[string]limits{"b": second, "c": second, "d": second, "e": second}}, "4 is the most"},
		"negative":       {pace.Config{Name: "a", Counter: memory, Limits: second, MaxWaiting: -1}, "MaxWaiting: must be at least 1"},
		"never":          {pace.Config{Name: "a", Counter: memory, Limits: second, MaxWait: -1}, "MaxWait: must be up to 1 h"},
		"too patient":    {pace.Config{Name: "a", Counter: memory, Limits: second, MaxWait: 2 * time.Hour}, "MaxWait: must be up to 1 h"},
		"no deadline":    {pace.Config{Name: "a", Counter: memory, Limits: second, Deadline: -1}, "Deadline: must be up to 1 min"},
		"a window": {pace.Config{Name: "a", Counter: memory, Limits: limits{{Quota: 500, Window: time.Minute}}},
			"Limits[0].Algorithm: must be LeakyBucket or TokenBucket, not sliding-window: a window gives no moment to wait for"},
		"a unit's window": {pace.Config{Name: "a", Counter: memory, Units: map[string]limits{"tokens": {{Algorithm: storeless.FixedWindow, Quota: 500, Window: time.Minute}}}},
			"LeakyBucket{500 a 1 min} never lets more than 500 through in any 1 min, TokenBucket at most its Burst more"},
		"a log":            {pace.Config{Name: "a", Counter: memory, Limits: limits{{Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Minute}}}, "not sliding-log"},
		"all that he said": {pace.Config{Name: "a", Limits: limits{{Quota: 5, Window: time.Minute}}, MaxWait: -1}, "Counter: is required"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := pace.New(c.cfg)
			require.ErrorContains(t, err, c.says)
			require.Nil(t, p)
			if name == "all that he said" {
				require.ErrorContains(t, err, "Limits[0].Algorithm")
				require.ErrorContains(t, err, "MaxWait")
			}
		})
	}
}

// What New takes at most.
func TestWhatNewTakes(t *testing.T) {
	memory := memory.New(0, nil)
	second := meter(10, time.Second)
	for name, cfg := range map[string]pace.Config{
		"the longest name": {Name: strings.Repeat("a", 26), Counter: memory, Limits: second},
		"the longest key":  {Name: "a", Key: strings.Repeat("k", 256), Counter: memory, Limits: second},
		"three units":      {Name: "a", Counter: memory, Limits: second, Units: map[string]limits{"b": second, "c": second, "d": second}},
		"four units":       {Name: "a", Counter: memory, Units: map[string]limits{"b": second, "c": second, "d": second, "e": second}},
		"most patient":     {Name: "a", Counter: memory, Limits: second, MaxWait: time.Hour, Deadline: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			p := kit.Must(pace.New(cfg))(t)
			require.NoError(t, p.Wait(t.Context()))
		})
	}
}

// Keys are counted apart.
func TestKeysAreCountedApart(t *testing.T) {
	memory := memory.New(0, nil)
	for _, key := range []string{"one account", "another", ""} {
		p := process(t, pace.Config{Counter: memory, Key: key, Limits: meter(1, time.Hour)})
		require.NoError(t, p.Wait(t.Context()))
	}
}

// The table of docs/counters.md: how much goes in any span of a window, after a quiet time and
// when many come at once; and that all of it goes.
func TestPacedLimitsHold(t *testing.T) {
	const l = 30
	for name, c := range map[string]struct {
		limits limits
		span   time.Duration
		most   int64
		atOnce int
	}{
		"a meter":                         {meter(l, time.Minute), time.Minute, l, 1},
		"a bucket, all of it within L":    {bucket(l-6, time.Minute, 6), time.Minute, l - 1, 6},
		"a bucket with the same numbers":  {bucket(l, time.Minute, 6), time.Minute, l + 6 - 1, 6},
		"... and what leaks in its burst": {bucket(l, time.Minute, 6), 12 * time.Second, 6 + 6 - 1, 6},
		"one in ten seconds":              {meter(1, 11*time.Second), 10*time.Second + 999*time.Millisecond, 1, 1},
		"two":                             {meter(2, 11*time.Second), 10*time.Second + 999*time.Millisecond, 2, 1},
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			counter := memory.New(0, nil)
			var went log
			var wg sync.WaitGroup
			for range 3 {
				p := process(t, pace.Config{Counter: counter, Limits: c.limits, MaxWait: time.Hour})
				for range 40 {
					wg.Go(func() { require.NoError(t, went.call(t.Context(), p, "")) })
				}
			}
			began := time.Now()
			wg.Wait()
			require.Equal(t, c.most, went.most(c.span))
			atOnce := 0
			for _, at := range went.went {
				if at.Equal(began) {
					atOnce++
				}
			}
			require.Equal(t, c.atOnce, atOnce)
			quota := c.limits[0].Quota
			require.Equal(t, time.Duration(120-c.atOnce)*c.limits[0].Window/time.Duration(quota), time.Since(began))
		})
	}
}

// Each row of that table is a Config, from the smallest limit on that the row is about.
func TestEveryRowOfThePageIsAConfig(t *testing.T) {
	rows := map[string]struct {
		from int64
		of   func(l int64, w time.Duration) limits
	}{
		"L in W, where L is large":                  {2, func(l int64, w time.Duration) limits { return meter(l-1, w) }},
		"L in W, where L is small, as 1 in 10 s":    {1, func(l int64, w time.Duration) limits { return meter(l, w+time.Second) }},
		"2 or more in W, and short bursts help you": {2, func(l int64, w time.Duration) limits { return bucket(l-1, w, 1) }},
		"a bucket with a burst":                     {1, func(l int64, w time.Duration) limits { return bucket(l, w, l) }},
	}
	page := kit.Must(os.ReadFile("../../../docs/counters.md"))(t)
	table := regexp.MustCompile(`(?s)\| the service permits \| write \|\n\|---\|---\|\n(.*?)\n\n`).FindSubmatch(page)
	require.NotNil(t, table)
	printed := regexp.MustCompile(`(?m)^\| (.*?) \|`).FindAllSubmatch(table[1], -1)
	require.Len(t, printed, len(rows))
	for _, row := range printed {
		name := string(row[1])
		require.Contains(t, rows, name)
		for l := rows[name].from; l <= 100; l++ {
			for _, w := range []time.Duration{time.Second, 10 * time.Second, time.Hour} {
				process(t, pace.Config{Counter: memory.New(1, nil), Limits: rows[name].of(l, w)})
			}
		}
	}
}

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
			require.LessOrEqual(t, went.longest(), c.longest*went.mean(), "no waiter starves")
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
