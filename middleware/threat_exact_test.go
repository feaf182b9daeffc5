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

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/kit"
)

// Threats of exact routes, by their numbers.
func TestThreatsOfExactRoutes(t *testing.T) {
	hang := func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
	// rushed plays a route in a bubble that fails open, with places for eight calls of the default deadline.
	rushed := func(name string, play func(t *testing.T, c *clock, l *ledger, h *site)) {
		kit.RunBubble(t, name, func(t *testing.T) {
			c := new(clock)
			l := newLedger(c)
			cfg := hasty(c, l)
			cfg.Exact.Outage, cfg.Exact.InFlight = middleware.FailOpen, 8
			play(t, c, l, newSite(t, cfg))
		})
	}
	// flood sends a hundred requests at once, of so many addresses, and counts the answers by their status.
	flood := func(h http.Handler, addresses int) map[int]int {
		codes, seen := make(chan int, 100), map[int]int{}
		for n := range 100 {
			go func() { codes <- send(h, from(fmt.Sprintf("198.18.0.%d", n%addresses))).StatusCode }()
		}
		for range 100 {
			seen[<-codes]++
		}
		return seen
	}

	t.Run("T32 one busy key is split by the identity", func(t *testing.T) {
		_, l, cfg := paidRoute()
		cfg.Identity = anonymous(16)
		h, _ := limited(t, cfg)
		for n := range 1000 {
			send(h, from(fmt.Sprintf("198.51.%d.%d", n/250, n%250)))
		}
		require.Len(t, l.Keys, 16)
	})

	t.Run("T33 the counter is down, fail open", func(t *testing.T) {
		c, l, cfg := paidRoute()
		l.Fault = onFire
		cfg.Exact.Outage = middleware.FailOpen
		cfg.Instances = 2
		log := logTo(&cfg)
		passed := 0
		for range 2 {
			h, _ := limited(t, cfg)
			passed += admitted(h, 15)
			c.Advance(time.Second)
			passed += admitted(h, 5)
			require.Equal(t, "?1", send(h).Header.Get("Tallystick-Degraded"))
		}
		require.Equal(t, 4, passed, "half of five on each, rounded down; never unlimited")
		require.Equal(t, 2, log.Count("does not answer"), "one line on each instance")
	})

	t.Run("T33 the counter is down, fail closed", func(t *testing.T) {
		c, l, h := paidSite(t)
		l.Fault = onFire
		for n := range 20 {
			if n == 5 {
				require.NotContains(t, h.Log.String(), "does not answer", "they may be of one moment")
				c.Advance(time.Second)
			}
			resp := requireStatus(t, http.StatusServiceUnavailable, send(h))
			require.Equal(t, "?1", resp.Header.Get("Tallystick-Degraded"))
			require.NotEmpty(t, resp.Header.Get("Retry-After"))
			require.Contains(t, bodyOf(t, resp), "temporary-reduced-capacity")
		}
		require.Zero(t, h.Spy.Calls.Load())
		require.Equal(t, 12, l.Count(), "five calls and one a second later, each repeated once; then the breaker is open")
		require.Equal(t, 1, h.Log.Count("does not answer"))

		l.Fault = nil
		require.Equal(t, http.StatusServiceUnavailable, send(h).StatusCode)
		c.Advance(time.Second)
		require.Equal(t, 5, admitted(h, 9), "recovers by itself")
		require.Empty(t, send(h).Header.Get("Tallystick-Degraded"))
		require.Zero(t, h.Log.Count("answers again"), "that it does is told ten seconds later")
		c.Advance(10 * time.Second)
		send(h)
		require.Equal(t, 1, h.Log.Count("answers again"))
	})

	kit.RunBubble(t, "T34 the counter hangs", func(t *testing.T) {
		c := new(clock)
		l := newLedger(c)
		l.Fault = hang
		cfg := hasty(c, l)
		cfg.Now = time.Now
		h, _ := limited(t, cfg)
		began := time.Now()
		require.Equal(t, http.StatusServiceUnavailable, send(h).StatusCode)
		require.Equal(t, 50*time.Millisecond, time.Since(began), "the deadline, and no second call after it")
		require.Equal(t, 1, l.Count())
		admitted(h, 100)
		require.Equal(t, 250*time.Millisecond, time.Since(began), "five deadlines in all")
	})

	t.Run("T34 a client that hangs up is no outage", func(t *testing.T) {
		_, l, h := paidSite(t)
		l.Fault = func(ctx context.Context, _ int) error { return ctx.Err() }
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		admitted(h, 20, func(r *http.Request) { *r = *r.WithContext(gone) })
		require.EqualValues(t, 5, l.Charged)
		require.Equal(t, http.StatusOK, send(h, from("203.0.113.2")).StatusCode)
	})

	rushed("T34 a flood never turns into the fallback", func(t *testing.T, _ *clock, l *ledger, h *site) {
		l.Fault = func(context.Context, int) error { time.Sleep(20 * time.Millisecond); return nil }
		require.Equal(t, map[int]int{200: 6, 503: 94}, flood(h, 10), "strangers have three quarters of the places")
		for _, d := range h.Decisions.All {
			require.False(t, d.Degraded)
		}
	})

	rushed("T34 a flood that makes the counter slow never turns into the fallback", func(t *testing.T, _ *clock, l *ledger, h *site) {
		turn := make(chan struct{}, 1) // it answers one call after the other, 20 ms each
		l.Fault = func(ctx context.Context, _ int) error {
			select {
			case turn <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			defer func() { <-turn }()
			time.Sleep(20 * time.Millisecond)
			return ctx.Err()
		}
		require.Equal(t, map[int]int{200: 2, 503: 98}, flood(h, 100))
		require.NotContains(t, h.Log.String(), "does not answer")
	})

	rushed("T34 a flood at a counter that hangs is an outage after a second", func(t *testing.T, c *clock, l *ledger, h *site) {
		l.Fault = hang
		require.Equal(t, map[int]int{503: 100}, flood(h, 100), "it may be slow")
		c.Advance(600 * time.Millisecond)
		require.Equal(t, map[int]int{503: 100}, flood(h, 100))
		l.Fault = nil
		require.Equal(t, http.StatusOK, send(h, from("198.18.2.2")).StatusCode)
		c.Advance(600 * time.Millisecond)
		l.Fault = hang
		require.Equal(t, map[int]int{503: 100}, flood(h, 100), "it has answered")
		c.Advance(600 * time.Millisecond)
		require.Equal(t, map[int]int{503: 100}, flood(h, 100))
		require.NotContains(t, h.Log.String(), "does not answer")
		c.Advance(600 * time.Millisecond)
		require.Equal(t, map[int]int{200: 6, 503: 94}, flood(h, 100), "burst by burst, it has answered nobody for a second")
		for range 6 { // one call of each is a probe at most, and five must fail
			flood(h, 100)
		}
		require.Contains(t, h.Log.String(), "does not answer")
	})

	rushed("T34 a counter that is busy is an outage after a second of silence", func(t *testing.T, c *clock, l *ledger, h *site) {
		l.Fault = func(context.Context, int) error { return exact.ErrBusy }
		for range 20 {
			require.Equal(t, http.StatusServiceUnavailable, send(h).StatusCode)
		}
		require.NotContains(t, h.Log.String(), "does not answer")
		c.Advance(time.Second)
		require.Equal(t, http.StatusOK, send(h).StatusCode)
	})

	rushed("T34 calls that are slow while others are answered are no outage", func(t *testing.T, _ *clock, l *ledger, h *site) {
		l.Fault = func(ctx context.Context, n int) error {
			if n%3 != 0 {
				<-ctx.Done()
			}
			return ctx.Err()
		}
		for n := range 5 {
			slow := make(chan *http.Response, 2)
			for i := range 2 {
				go func() { slow <- send(h, from(fmt.Sprintf("198.18.%d.%d", n, i))) }()
			}
			synctest.Wait()
			require.Empty(t, send(h, from(fmt.Sprintf("198.18.%d.2", n))).Header.Get("Tallystick-Degraded"))
			for range 2 {
				resp := requireStatus(t, http.StatusOK, <-slow)
				require.Equal(t, "?1", resp.Header.Get("Tallystick-Degraded"), "the policy's choice, for this one")
			}
		}
		require.NotContains(t, h.Log.String(), "does not answer")
	})

	rushed("T34 a slow answer among few is an outage", func(t *testing.T, _ *clock, l *ledger, h *site) {
		l.Fault = func(ctx context.Context, n int) error {
			if n == 1 {
				<-ctx.Done()
			}
			return ctx.Err()
		}
		slow := make(chan *http.Response, 1)
		go func() { slow <- send(h) }()
		synctest.Wait()
		require.Empty(t, send(h, from("198.18.1.1")).Header.Get("Tallystick-Degraded"))
		require.Equal(t, "?1", requireStatus(t, http.StatusOK, <-slow).Header.Get("Tallystick-Degraded"))
	})

	t.Run("T34 a counter that is full is no outage", func(t *testing.T) {
		c := new(clock)
		cfg := paid(c, memory.New(1, c.Now))
		cfg.Exact.Outage = middleware.FailOpen
		h := newSite(t, cfg)
		seen := map[int]int{}
		for n := range 2000 {
			seen[send(h, from(fmt.Sprintf("198.18.%d.%d", n/250, n%250))).StatusCode]++
		}
		require.Greater(t, seen[503], 100, "there is no room for all")
		require.Equal(t, 2000, seen[200]+seen[503])
		require.Equal(t, 4, admitted(h, 9, from("198.18.0.0")), "who is remembered is counted as before")
		require.NotContains(t, h.Log.String(), "does not answer")
	})

	t.Run("T35 the herd meets a half-open breaker", func(t *testing.T) {
		c, l, h := paidSite(t)
		l.Fault = onFire
		breaks(h, c)
		before := l.Count()
		c.Advance(time.Second)
		admitted(h, 1000)
		require.LessOrEqual(t, l.Count()-before, 2, "one probe, repeated once")
	})

	t.Run("T38 a failing handler is charged", func(t *testing.T) {
		_, _, h := paidSite(t)
		h.Spy.Serve = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
		for range 5 {
			require.Equal(t, http.StatusUnauthorized, send(h).StatusCode)
		}
		require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
	})

	t.Run("T40 a lost answer is charged once", func(t *testing.T) {
		_, l, h := paidSite(t)
		l.Lost = func(call int) bool { return call%2 == 1 }
		require.Equal(t, 5, admitted(h, 5))
		require.EqualValues(t, 5, l.Charged)
		require.Equal(t, 10, l.Count())
		for i := 0; i < 10; i += 2 {
			require.Equal(t, l.Ids[i], l.Ids[i+1])
		}
		require.NotEqual(t, l.Ids[0], l.Ids[2], "fresh for each request")
	})

	t.Run("T40 a call that was certainly not counted is not repeated", func(t *testing.T) {
		_, l, h := paidSite(t)
		l.Fault = func(context.Context, int) error { return errors.Join(exact.ErrNotCounted, errEngine) }
		send(h)
		require.Equal(t, 1, l.Count())
	})

	t.Run("T40 an Idempotency-Key buys nothing", func(t *testing.T) {
		_, _, h := paidSite(t)
		require.Equal(t, 5, admitted(h, 9, with("Idempotency-Key", "mine")))
	})
}
