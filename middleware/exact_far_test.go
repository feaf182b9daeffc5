// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// A far counter is another one at a distance: a round trip takes so long, and up to a tenth more.
type far struct {
	exact.Counter
	away time.Duration

	mu  sync.Mutex
	rng *rand.Rand
}

func (f *far) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	f.mu.Lock()
	way := f.away + time.Duration(f.rng.Int64N(int64(f.away)/10))
	f.mu.Unlock()
	select {
	case <-ctx.Done():
		return exact.Verdict{}, fmt.Errorf("%w: %w", exact.ErrMaybeCounted, ctx.Err())
	case <-time.After(way):
		return f.Counter.Take(ctx, call)
	}
}

// With a deadline of four round trips everybody passes, however far the server is. Of one that is about as far
// as the deadline most answers come too late, and many of the requests are load: 503, FailOpen or not.
func TestDeadlinesAndDistances(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		for _, away := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond} {
			for _, trips := range []int{1, 2, 4} {
				server := &queue{service: wellService}
				s := &scene{over: make(chan struct{}), server: server}
				counter := &far{Counter: &queued{server: server}, away: away * 95 / 100, rng: rand.New(rand.NewPCG(1, uint64(away)))}
				s.add(t, counter, middleware.Exact{Outage: middleware.FailOpen, Deadline: time.Duration(trips) * away})
				toll := s.toll()
				s.stream(toll, 250, func(n int, r *http.Request) { r.RemoteAddr = fmt.Sprintf("198.18.%d.%d:1", n/250%250, n%250) })
				s.lasts(5*time.Second, nil)
				t.Logf("%s away, a deadline of %d round trips: %s, %d lines", away, trips, toll, len(s.told("code=")))
				if trips == 4 {
					require.Zero(t, toll.fallback+toll.refused)
				}
				if trips == 1 {
					require.Less(t, toll.passed, toll.refused+toll.fallback)
					require.NotEmpty(t, s.told("code=counter-"), "and the log says so")
				}
			}
		}
	})
}
