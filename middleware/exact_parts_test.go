// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// A cluster is a counter on three servers, of which a call's key chooses one.
type cluster struct {
	exact.Counter
	nodes [3]queued

	mu   sync.Mutex
	hang bool // the first
}

func newCluster() *cluster {
	c := new(cluster)
	for i := range c.nodes {
		c.nodes[i].server = &queue{service: time.Millisecond}
	}
	return c
}

func (c *cluster) hangs(hang bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hang = hang
}

// Part implements [exact.Parted].
func (c *cluster) Part(call exact.Call) int { return int(call.Key[0]) % len(c.nodes) }

// Take implements [exact.Counter].
func (c *cluster) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	n := c.Part(call)
	c.mu.Lock()
	hang := c.hang && n == 0
	c.mu.Unlock()
	if hang {
		<-ctx.Done()
		return exact.Verdict{}, fmt.Errorf("%w: %w", exact.ErrMaybeCounted, ctx.Err())
	}
	return c.nodes[n].Take(ctx, call)
}

// One node that hangs is an outage of its customers, and of no others.
func TestOneHungNodeIsOneNodesOutage(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := newCluster()
		s := &scene{over: make(chan struct{}), server: new(queue)}
		s.add(t, c, middleware.Exact{Outage: middleware.FailClosed})
		var ill []string
		var well []string
		for n := 0; len(ill) < 16 || len(well) < 32; n++ {
			customer := fmt.Sprint("customer", n)
			call, err := s.limits[0].CallFor(middleware.Principal(customer))
			require.NoError(t, err)
			if c.Part(call) == 0 {
				ill = append(ill, customer)
			} else {
				well = append(well, customer)
			}
		}
		healthy, sick := s.toll(), s.toll()
		c.hangs(true)
		s.flood(healthy, 32, func(n int, r *http.Request) { r.Header.Set("Payer", well[n%len(well)]) })
		s.flood(sick, 200, func(n int, r *http.Request) { r.Header.Set("Payer", ill[n%len(ill)]) })
		s.lasts(3*time.Second, func(at time.Duration) {
			if at == 2*time.Second {
				c.hangs(false)
			}
		})
		t.Logf("on healthy nodes: %s, longest %s; on the hung one: %s, the last refused after %s", healthy, healthy.longest, sick, sick.lastRefused)
		require.Zero(t, healthy.refused)
		says := promises[rowNode]
		require.LessOrEqual(t, healthy.longest, says.grows)
		require.LessOrEqual(t, sick.longest, says.grows)
		require.Positive(t, sick.refused)
		require.Positive(t, sick.passed, "it recovers")
		require.Equal(t, 1, s.alarms(), "one alarm")
		require.LessOrEqual(t, s.told("does not answer")[0].Sub(healthy.began), says.alarm)
		require.Len(t, s.told("answers again"), 1, "one all-clear")
		end := s.told("answers again")[0].Sub(healthy.began) - 2*time.Second
		require.GreaterOrEqual(t, end, time.Duration(0), "the other nodes answer all the time")
		require.LessOrEqual(t, end, says.well)
	})
}
