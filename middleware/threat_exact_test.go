// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// Threats of exact routes, by their numbers.
func TestThreatsOfExactRoutes(t *testing.T) {
	failing := func(context.Context, int) error { return errEngine }

	t.Run("T32 one hot anonymous key is split", TestExactShardsShareTheQuota)

	t.Run("T33 the counter is down, fail open", func(t *testing.T) {
		c := new(clock)
		l := newLedger(c)
		l.fault = failing
		cfg := paid(c, l)
		cfg.Exact.Outage = middleware.FailOpen
		cfg.Instances = 2
		log := logTo(&cfg)
		passed := 0
		for range 2 {
			h, _ := limited(t, cfg)
			passed += admitted(h, 15)
			c.advance(time.Second)
			passed += admitted(h, 5)
			resp := send(h)
			require.Equal(t, "?1", resp.Header.Get("Tallystick-Degraded"))
		}
		require.Equal(t, 4, passed, "half of five on each, rounded down; never unlimited")
		require.Equal(t, 2, log.count("does not answer"), "one line on each instance")
	})

	t.Run("T33 the counter is down, fail closed", func(t *testing.T) {
		c := new(clock)
		l := newLedger(c)
		l.fault = failing
		cfg := paid(c, l)
		log := logTo(&cfg)
		h, spy := limited(t, cfg)
		for n := range 20 {
			if n == 5 {
				require.NotContains(t, log.String(), "does not answer", "they may be of one moment")
				c.advance(time.Second)
			}
			resp := send(h)
			require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			require.Equal(t, "?1", resp.Header.Get("Tallystick-Degraded"))
			require.NotEmpty(t, resp.Header.Get("Retry-After"))
			require.Contains(t, bodyOf(t, resp), "temporary-reduced-capacity")
		}
		require.Zero(t, spy.calls.Load())
		require.Equal(t, 12, l.count(), "five calls and one a second later, each repeated once; then the breaker is open")
		require.Equal(t, 1, log.count("does not answer"))

		l.fault = nil
		require.Equal(t, http.StatusServiceUnavailable, send(h).StatusCode)
		c.advance(time.Second)
		require.Equal(t, 5, admitted(h, 9), "recovers by itself")
		require.Equal(t, 1, log.count("answers again"))
		require.Empty(t, send(h).Header.Get("Tallystick-Degraded"))
	})

	t.Run("T34 the counter hangs", func(t *testing.T) {
		testkit.Bubble(t, func(t *testing.T) {
			c := new(clock)
			l := newLedger(c)
			l.fault = func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
			cfg := hasty(c, l)
			cfg.Now = time.Now
			h, _ := limited(t, cfg)
			began := time.Now()
			require.Equal(t, http.StatusServiceUnavailable, send(h).StatusCode)
			require.Equal(t, 50*time.Millisecond, time.Since(began), "the deadline, and no second call after it")
			require.Equal(t, 1, l.count())
			for range 100 {
				send(h)
			}
			require.Equal(t, 250*time.Millisecond, time.Since(began), "five deadlines in all")
		})
	})

	t.Run("T34 a client that hangs up is no outage", func(t *testing.T) {
		c := new(clock)
		l := newLedger(c)
		l.fault = func(ctx context.Context, _ int) error { return ctx.Err() }
		h, _ := limited(t, paid(c, l))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 {
			send(h, func(r *http.Request) { *r = *r.WithContext(gone) })
		}
		require.EqualValues(t, 5, l.charged)
		require.Equal(t, http.StatusOK, send(h, from("203.0.113.2")).StatusCode)
	})

	t.Run("T34 a flood never turns into the fallback", func(t *testing.T) {
		testkit.Bubble(t, func(t *testing.T) {
			c := new(clock)
			l := newLedger(c)
			l.fault = func(context.Context, int) error { time.Sleep(20 * time.Millisecond); return nil }
			cfg := hasty(c, l)
			cfg.Exact.Outage = middleware.FailOpen
			cfg.Exact.InFlight = 8
			degraded := 0
			cfg.OnDecision = func(_ context.Context, d middleware.Decision) {
				if d.Degraded {
					degraded++
				}
			}
			h, _ := limited(t, cfg)
			codes := make(chan int, 100)
			for n := range 100 {
				go func() { codes <- send(h, from(fmt.Sprintf("198.18.0.%d", n%10))).StatusCode }()
			}
			seen := map[int]int{}
			for range 100 {
				seen[<-codes]++
			}
			require.Equal(t, map[int]int{200: 6, 503: 94}, seen, "strangers have three quarters of the places")
			require.Zero(t, degraded)
		})
	})

	t.Run("T34 a flood that makes the counter slow never turns into the fallback", func(t *testing.T) {
		testkit.Bubble(t, func(t *testing.T) {
			c := new(clock)
			l := newLedger(c)
			// It answers one call after the other, 20 ms each.
			turn := make(chan struct{}, 1)
			l.fault = func(ctx context.Context, _ int) error {
				select {
				case turn <- struct{}{}:
				case <-ctx.Done():
					return ctx.Err()
				}
				defer func() { <-turn }()
				time.Sleep(20 * time.Millisecond)
				return ctx.Err()
			}
			cfg := hasty(c, l)
			cfg.Exact.Outage = middleware.FailOpen
			cfg.Exact.InFlight = 8
			log := logTo(&cfg)
			h, _ := limited(t, cfg)
			codes := make(chan int, 100)
			for n := range 100 {
				go func() { codes <- send(h, from(fmt.Sprintf("198.18.0.%d", n))).StatusCode }()
			}
			seen := map[int]int{}
			for range 100 {
				seen[<-codes]++
			}
			require.Equal(t, map[int]int{200: 2, 503: 98}, seen)
			require.NotContains(t, log.String(), "does not answer")
		})
	})

	t.Run("T34 a flood at a counter that hangs is an outage after a second", func(t *testing.T) {
		testkit.Bubble(t, func(t *testing.T) {
			c := new(clock)
			l := newLedger(c)
			cfg := hasty(c, l)
			cfg.Exact.Outage = middleware.FailOpen
			cfg.Exact.InFlight = 8
			log := logTo(&cfg)
			h, _ := limited(t, cfg)
			flood := func() map[int]int {
				codes := make(chan int, 100)
				for n := range 100 {
					go func() { codes <- send(h, from(fmt.Sprintf("198.18.0.%d", n))).StatusCode }()
				}
				seen := map[int]int{}
				for range 100 {
					seen[<-codes]++
				}
				return seen
			}
			hang := func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
			l.fault = hang
			require.Equal(t, map[int]int{503: 100}, flood(), "it may be slow")
			c.advance(600 * time.Millisecond)
			require.Equal(t, map[int]int{503: 100}, flood())
			l.fault = nil
			require.Equal(t, http.StatusOK, send(h, from("198.18.2.2")).StatusCode)
			c.advance(600 * time.Millisecond)
			l.fault = hang
			require.Equal(t, map[int]int{503: 100}, flood(), "it has answered")
			c.advance(600 * time.Millisecond)
			require.Equal(t, map[int]int{503: 100}, flood())
			require.NotContains(t, log.String(), "does not answer")
			c.advance(600 * time.Millisecond)
			require.Equal(t, map[int]int{200: 6, 503: 94}, flood(), "burst by burst, it has answered nobody for a second")
			for range 6 { // one call of each is a probe at most, and five must fail
				flood()
			}
			require.Contains(t, log.String(), "does not answer")
		})
	})

	t.Run("T34 a counter that is busy is an outage after a second of silence", func(t *testing.T) {
		c := new(clock)
		l := newLedger(c)
		cfg := paid(c, l)
		cfg.Exact.Outage = middleware.FailOpen
		log := logTo(&cfg)
		h, _ := limited(t, cfg)
		l.fault = func(context.Context, int) error { return exact.ErrBusy }
		for range 20 {
			require.Equal(t, http.StatusServiceUnavailable, send(h).StatusCode)
		}
		require.NotContains(t, log.String(), "does not answer")
		c.advance(time.Second)
		require.Equal(t, http.StatusOK, send(h).StatusCode)
	})

	t.Run("T34 calls that are slow while others are answered are no outage", func(t *testing.T) {
		testkit.Bubble(t, func(t *testing.T) {
			c := new(clock)
			l := newLedger(c)
			l.fault = func(ctx context.Context, n int) error {
				if n%3 != 0 {
					<-ctx.Done()
				}
				return ctx.Err()
			}
			cfg := hasty(c, l)
			cfg.Exact.Outage = middleware.FailOpen
			log := logTo(&cfg)
			h, _ := limited(t, cfg)
			for n := range 5 {
				slow := make(chan *http.Response, 2)
				for i := range 2 {
					go func() { slow <- send(h, from(fmt.Sprintf("198.18.%d.%d", n, i))) }()
				}
				synctest.Wait()
				require.Empty(t, send(h, from(fmt.Sprintf("198.18.%d.2", n))).Header.Get("Tallystick-Degraded"))
				for range 2 {
					require.Equal(t, "?1", (<-slow).Header.Get("Tallystick-Degraded"), "the policy's choice, for this one")
				}
			}
			require.NotContains(t, log.String(), "does not answer")
		})
	})

	t.Run("T34 a slow answer among few is an outage", func(t *testing.T) {
		testkit.Bubble(t, func(t *testing.T) {
			c := new(clock)
			l := newLedger(c)
			l.fault = func(ctx context.Context, n int) error {
				if n == 1 {
					<-ctx.Done()
				}
				return ctx.Err()
			}
			cfg := hasty(c, l)
			cfg.Exact.Outage = middleware.FailOpen
			h, _ := limited(t, cfg)
			slow := make(chan *http.Response, 1)
			go func() { slow <- send(h) }()
			synctest.Wait()
			require.Empty(t, send(h, from("198.18.1.1")).Header.Get("Tallystick-Degraded"))
			a := <-slow
			require.Equal(t, http.StatusOK, a.StatusCode)
			require.Equal(t, "?1", a.Header.Get("Tallystick-Degraded"))
		})
	})

	t.Run("T34 a counter that is full is no outage", func(t *testing.T) {
		c := new(clock)
		cfg := paid(c, exact.NewMemory(1, c.Now))
		cfg.Exact.Outage = middleware.FailOpen
		log := logTo(&cfg)
		h, _ := limited(t, cfg)
		seen := map[int]int{}
		for n := range 2000 {
			seen[send(h, from(fmt.Sprintf("198.18.%d.%d", n/250, n%250))).StatusCode]++
		}
		require.Greater(t, seen[503], 100, "there is no room for all")
		require.Equal(t, 2000, seen[200]+seen[503])
		require.Equal(t, 4, admitted(h, 9, from("198.18.0.0")), "who is remembered is counted as before")
		require.NotContains(t, log.String(), "does not answer")
	})

	t.Run("T35 the herd meets a half-open breaker", func(t *testing.T) {
		c := new(clock)
		l := newLedger(c)
		l.fault = failing
		h, _ := limited(t, paid(c, l))
		breaks(h, c)
		before := l.count()
		c.advance(time.Second)
		admitted(h, 1000)
		require.LessOrEqual(t, l.count()-before, 2, "one probe, repeated once")
	})

	t.Run("T38 a failing handler is charged", func(t *testing.T) {
		c := new(clock)
		l := newLedger(c)
		h := newLimiter(t, paid(c, l)).Handler(&spy{serve: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }})
		for range 5 {
			require.Equal(t, http.StatusUnauthorized, send(h).StatusCode)
		}
		require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
	})

	t.Run("T40 a lost answer is charged once", func(t *testing.T) {
		c := new(clock)
		l := newLedger(c)
		l.lost = func(call int) bool { return call%2 == 1 }
		h, _ := limited(t, paid(c, l))
		require.Equal(t, 5, admitted(h, 5))
		require.EqualValues(t, 5, l.charged)
		require.Equal(t, 10, l.count())
		for i := 0; i < 10; i += 2 {
			require.Equal(t, l.ids[i], l.ids[i+1])
		}
		require.NotEqual(t, l.ids[0], l.ids[2], "fresh for each request")
	})

	t.Run("T40 a call that was certainly not counted is not repeated", func(t *testing.T) {
		c := new(clock)
		l := newLedger(c)
		l.fault = func(context.Context, int) error { return errors.Join(exact.ErrNotCounted, errEngine) }
		h, _ := limited(t, paid(c, l))
		send(h)
		require.Equal(t, 1, l.count())
	})

	t.Run("T40 an Idempotency-Key buys nothing", func(t *testing.T) {
		c := new(clock)
		l := newLedger(c)
		h, _ := limited(t, paid(c, l))
		require.Equal(t, 5, admitted(h, 9, with("Idempotency-Key", "mine")))
	})
}
