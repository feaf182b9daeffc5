// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// A server that does nothing for a moment, as for a fork or a packet that is sent again,
// costs those requests that could not be answered in time, and is no outage.
func TestAStallIsNoOutage(t *testing.T) {
	const deadline = 50 * time.Millisecond
	for _, rate := range []int{100, 500, 2000} {
		for _, stall := range []time.Duration{40 * time.Millisecond, 60 * time.Millisecond, 120 * time.Millisecond, 250 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s at %d a second", stall, rate), func(t *testing.T) {
				testkit.Bubble(t, func(t *testing.T) {
					server := &queue{service: 100 * time.Microsecond}
					s := newScene(t, 1, server, middleware.Exact{Outage: middleware.FailClosed})
					customers := s.toll()
					s.stream(customers, rate, func(n int, r *http.Request) { r.Header.Set("Payer", fmt.Sprint(n)) })
					long := 2 * time.Second
					if testing.Short() {
						long = 1200 * time.Millisecond
					}
					s.lasts(long, func(at time.Duration) {
						if at == 500*time.Millisecond {
							server.stall(stall)
						}
					})
					t.Logf("%s; the last refused after %s; %d alarms", customers, customers.lastRefused-500*time.Millisecond, s.alarms())
					unavoidable := int(max(0, stall-deadline)) * rate / int(time.Second)
					if stall < 4*deadline {
						require.LessOrEqual(t, customers.refused, unavoidable+max(5, rate/40), "and those of a deadline's half at most")
						require.Zero(t, s.alarms())
						require.Less(t, customers.lastRefused, 500*time.Millisecond+stall+deadline)
					} else { // that is an outage, and soon over
						require.LessOrEqual(t, customers.refused, unavoidable+rate/7)
						require.Less(t, customers.lastRefused, 500*time.Millisecond+stall+3*deadline)
					}
				})
			})
		}
	}
}

// An open breaker holds calls back however long the deadline is.
func TestABreakerHoldsBackByALongDeadline(t *testing.T) {
	for _, deadline := range []time.Duration{50 * time.Millisecond, time.Second, 3 * time.Second} {
		testkit.Bubble(t, func(t *testing.T) {
			c := &hung{}
			s := &scene{over: make(chan struct{}), server: new(queue)}
			s.add(t, c, middleware.Exact{Outage: middleware.FailClosed, Deadline: deadline})
			customers := s.toll()
			s.stream(customers, 20, func(n int, r *http.Request) { r.Header.Set("Payer", fmt.Sprint(n)) })
			s.lasts(4*deadline+10*time.Second, nil)
			before := int(c.calls.Load())
			t.Logf("deadline %s: %d calls of %d requests", deadline, before, customers.refused)
			require.Equal(t, 1, s.alarms())
			require.Less(t, before, 20*5*int(deadline)/int(time.Second)+40, "a probe a second after that")
			require.LessOrEqual(t, customers.longest, deadline)
		})
	}
}

// hung is a counter that never answers.
type hung struct {
	exact.Counter
	calls atomic.Int64
}

func (c *hung) Take(ctx context.Context, _ exact.Call) (exact.Verdict, error) {
	c.calls.Add(1)
	<-ctx.Done()
	return exact.Verdict{}, fmt.Errorf("%w: %w", exact.ErrMaybeCounted, ctx.Err())
}
