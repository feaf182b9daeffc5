// SPDX-License-Identifier: Apache-2.0

package pace_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/pace"
	"github.com/tallystick/tallystick/proof/kit"
)

// Fifty processes with a worker each share ten a second for a minute: never above it, none of
// it is lost, and no worker starves.
func TestFiftyProcesses(t *testing.T) {
	for name, c := range map[string]struct {
		processes, workers int
		trip               time.Duration
	}{
		"50 of 1":              {50, 1, 0},
		"5 of 10":              {5, 10, 0},
		"50 of 1, 3 ms away":   {50, 1, 3 * time.Millisecond},
		"5 of 10, 3 ms away":   {5, 10, 3 * time.Millisecond},
		"1 of 50, 150 ms away": {1, 50, 150 * time.Millisecond},
		"15 of 10, 20 ms away": {15, 10, 20 * time.Millisecond},
		"2 of 1, 90 ms away":   {2, 1, 90 * time.Millisecond},
		"25 of 2, 200 ms away": {25, 2, 200 * time.Millisecond},
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			counter := &wire{Counter: memory.New(0, nil), trip: c.trip}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var went log
			var wg sync.WaitGroup
			for i := range c.processes {
				p := process(t, pace.Config{Counter: counter, Limits: meter(10, time.Second)})
				for range c.workers {
					wg.Go(func() {
						for went.call(ctx, p, fmt.Sprint(i)) == nil {
						}
					})
				}
			}
			wg.Wait()
			synctest.Wait()
			workers := c.processes * c.workers
			t.Logf("%d went; most in a second %d; waits: mean %s, longest %s; %.2f calls of the counter each",
				len(went.went), went.most(time.Second), went.mean(), went.longest(), float64(counter.calls.Load())/float64(len(went.went)))
			require.LessOrEqual(t, went.most(time.Second), int64(10))
			if workers > 2 {
				require.GreaterOrEqual(t, len(went.went), 580)
			}
			require.LessOrEqual(t, went.longest(), 2*went.mean()+c.trip)
			for i := 1; i < len(went.went); i++ {
				require.GreaterOrEqual(t, went.went[i].Sub(went.went[i-1]), 100*time.Millisecond-time.Microsecond, "no two wake together")
			}
			time.Sleep(2*c.trip + 100*time.Millisecond) // refunds are under way
			require.EqualValues(t, 1, left(t, counter, "", meter(10, time.Second)), "callers that left at the end left nothing")
		})
	}
}

// The first example: one in ten seconds, and fifty callers at once in five processes. Each waits as long as
// it takes. With the MaxWait of a minute that a Config has otherwise, all but a few would be refused.
func TestFiftyCallersOfOneInTenSeconds(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		counter := &wire{Counter: memory.New(0, nil), trip: 3 * time.Millisecond}
		var went log
		var wg sync.WaitGroup
		began := time.Now()
		for range 5 {
			p := kit.Must(oneInTenSeconds(counter))(t)
			for range 10 {
				wg.Go(func() { require.NoError(t, went.call(t.Context(), p, "")) })
			}
		}
		wg.Wait()
		require.Len(t, went.went, 50)
		require.EqualValues(t, 1, went.most(10*time.Second), "in any ten seconds")
		require.InDelta(t, 49*11, time.Since(began).Seconds(), 0.1, "no turn is lost")
		t.Logf("%.2f calls of the counter each", float64(counter.calls.Load())/50)
	})
}
