package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

func TestExactQuotaIsOneForAllInstances(t *testing.T) {
	c := new(clock)
	l := newLedger(c)
	passed := 0
	for range 4 { // instances, none of them shown a token
		h, _ := limited(t, paid(c, l))
		passed += admitted(h, 5)
	}
	require.Equal(t, 5, passed)
	require.EqualValues(t, 5, l.charged)
}

// TestExactIgnoresCountsOfTokens has a client that was admitted elsewhere as often
// as the quota allows, by an instance that was not asking the counter.
func TestExactIgnoresCountsOfTokens(t *testing.T) {
	c := new(clock)
	open := paid(c, newLedger(c))
	open.Exact.Outage = middleware.FailOpen
	open.Exact.Counter.(*ledger).fault = func(context.Context, int) error { return errEngine }
	tok := spend(t, newLimiter(t, open).Handler(new(spy)), 5)
	h, _ := limited(t, paid(c, newLedger(c)))
	require.Equal(t, http.StatusOK, send(h, showing(tok)).StatusCode, "the counter knows of none of them")
}

func TestExactSpentKeyMakesNoCallUntilItsTime(t *testing.T) {
	c := new(clock)
	l := newLedger(c)
	cfg := paid(c, l)
	h, _ := limited(t, cfg)
	require.Equal(t, 5, admitted(h, 5))
	refused := send(h)
	require.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
	require.Equal(t, 6, l.count())
	tok := refused.Header.Get(middleware.TokenHeader)
	require.NotEmpty(t, tok)

	elsewhere, _ := limited(t, cfg)
	for _, after := range []time.Duration{0, 20 * time.Second, 39 * time.Second} {
		c.advance(after)
		require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode, "without its token")
		again := send(elsewhere, showing(tok))
		require.Equal(t, http.StatusTooManyRequests, again.StatusCode, "elsewhere, with its token")
		require.NotEmpty(t, again.Header.Get("Retry-After"))
	}
	require.Equal(t, 6, l.count(), "no call")
	c.advance(time.Second) // a minute in all
	require.Equal(t, http.StatusOK, send(h).StatusCode)
	require.Equal(t, http.StatusOK, send(elsewhere, showing(tok)).StatusCode)
	require.Equal(t, 8, l.count())
}

func TestExactRefusalOfADearRequestLetsACheapOnePass(t *testing.T) {
	c := new(clock)
	l := newLedger(c)
	cfg := paid(c, l)
	cfg.Cost = func(r *http.Request) int64 { return int64(len(r.Header["X-Unit"])) }
	h, _ := limited(t, cfg)
	cost := func(n int) option { return with(strings.Split(strings.Repeat("X-Unit,1,", n), ",")[:2*n]...) }
	require.Equal(t, http.StatusOK, send(h, cost(4)).StatusCode)
	refused := send(h, cost(2))
	require.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
	tok := refused.Header.Get(middleware.TokenHeader)
	require.Equal(t, http.StatusTooManyRequests, send(h, cost(3), showing(tok)).StatusCode)
	require.Equal(t, 2, l.count(), "a dearer one is not asked about")
	require.Equal(t, http.StatusOK, send(h, cost(1), showing(tok)).StatusCode)
	require.Equal(t, http.StatusForbidden, send(h, cost(6)).StatusCode, "above the quota")
	require.Equal(t, 3, l.count())

	peek := send(h, cost(0))
	require.Equal(t, http.StatusOK, peek.StatusCode)
	require.Equal(t, `"contact";r=0;t=60`, peek.Header.Get("RateLimit"))
	require.EqualValues(t, 5, l.charged)
}

func TestExactRefusalIsToldOnceMore(t *testing.T) {
	c := new(clock)
	l := newLedger(c)
	h, _ := limited(t, paid(c, l))
	require.Equal(t, 5, admitted(h, 7))
	tok := tokenIn(send(h))
	require.NotEmpty(t, tok, "refused from memory, to a client that shows nothing")
	require.Empty(t, tokenIn(send(h, showing(tok))), "it knows")
	elsewhere, _ := limited(t, paid(c, l))
	require.Equal(t, http.StatusTooManyRequests, send(elsewhere, showing(tok)).StatusCode)
	require.Equal(t, 6, l.count())
}

func TestExactPeekIsAdmittedInAnOutage(t *testing.T) {
	c := new(clock)
	l := newLedger(c)
	l.peekFault = errEngine
	cfg := paid(c, l)
	cfg.Cost = func(*http.Request) int64 { return 0 }
	h, _ := limited(t, cfg)
	resp := send(h)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "?1", resp.Header.Get(middleware.DegradedHeader))
	require.Empty(t, resp.Header.Get("RateLimit"))
}

func TestExactCallsAreOver(t *testing.T) {
	c := new(clock)
	cfg := paid(c, newLedger(c))
	cfg.Exact.InFlight = 1
	h, _ := limited(t, cfg)
	require.Equal(t, 5, admitted(h, 9))
	require.Equal(t, 5, admitted(h, 9, from("203.0.113.2")))
}

// TestExactUpgradeIsNotHeldToTheSmallerTier buys more in the middle of a window.
func TestExactUpgradeIsNotHeldToTheSmallerTier(t *testing.T) {
	c := new(clock)
	l := newLedger(c)
	cfg := paid(c, l)
	pro := contact(c).Limits
	pro[0].Quota = 8
	cfg.Tiers = map[string][]middleware.Limit{"pro": pro}
	cfg.Identity = func(r *http.Request) (middleware.Identity, error) {
		id := middleware.Key("customer")
		id.Tier = r.Header.Get("X-Tier")
		return id, nil
	}
	h, _ := limited(t, cfg)
	require.Equal(t, 5, admitted(h, 9))
	tok := tokenIn(send(h))
	require.NotEmpty(t, tok)
	require.Equal(t, 3, admitted(h, 9, with("X-Tier", "pro"), showing(tok)))
}

func TestExactMarkOfTheTokenIsNoLimitOfThePolicy(t *testing.T) {
	c := new(clock)
	h, _ := limited(t, paid(c, newLedger(c)))
	resp := send(h)
	require.Equal(t, `"contact";q=5;w=60`, resp.Header.Get("RateLimit-Policy"))
	require.Equal(t, `"contact";r=4;t=60`, resp.Header.Get("RateLimit"))
	require.NotEmpty(t, resp.Header.Get(middleware.TokenHeader))
}

func TestExactKeysAreHashedAndApart(t *testing.T) {
	c := new(clock)
	l := newLedger(c)
	h, _ := limited(t, paid(c, l))
	send(h)
	send(h, from("203.0.113.2"))
	send(h, from("2001:db8::1"))
	send(h, from("2001:db8::2")) // of the same /64
	require.Len(t, l.keys, 3)
	for key := range l.keys {
		require.NotContains(t, key, "203")
		require.LessOrEqual(t, len(key), exact.MaxKey)
	}
}

func TestExactShardsShareTheQuota(t *testing.T) {
	c := new(clock)
	l := newLedger(c)
	cfg := paid(c, l)
	cfg.Limits[0].Quota = 40
	cfg.Exact.Shards = 4
	h, _ := limited(t, cfg)
	require.Equal(t, 40, admitted(h, 2000), "no more than one key would admit, and all of it in the end")
	require.Len(t, l.keys, 4)

	cfg.Identity = func(*http.Request) (middleware.Identity, error) { return middleware.Key("customer"), nil }
	h, _ = limited(t, cfg)
	require.Equal(t, 40, admitted(h, 50))
	require.Len(t, l.keys, 5, "a customer is not split")
}

func TestExactRefusesEarlyData(t *testing.T) {
	c := new(clock)
	l := newLedger(c)
	h, spy := limited(t, paid(c, l))
	resp := send(h, with("Early-Data", "1"))
	require.Equal(t, http.StatusTooEarly, resp.StatusCode)
	require.Zero(t, spy.calls.Load())
	require.Zero(t, l.count())
	require.Equal(t, http.StatusOK, send(limitedOnly(t, contact(c)), with("Early-Data", "1")).StatusCode, "where no counter is charged it is a request like others")
}

func limitedOnly(t testing.TB, cfg middleware.Config) http.Handler {
	h, _ := limited(t, cfg)
	return h
}

func TestExactRefundLeavesTokenMemoryAndCounterAgreeing(t *testing.T) {
	for _, m := range []string{http.MethodPost, http.MethodGet} {
		for _, memory := range []bool{true, false} {
			c := new(clock)
			l := newLedger(c)
			cfg := paid(c, l)
			cfg.Exact.Outage = middleware.FailOpen
			cfg.InsecureNoMemory = !memory
			var again error
			failing := func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Fail") != "" {
					require.NoError(t, middleware.Refund(w, r))
					again = middleware.Refund(w, r)
					w.WriteHeader(http.StatusBadGateway)
				}
			}
			h := newLimiter(t, cfg).Handler(&spy{serve: failing})
			first := send(h, method(m))
			tok := first.Header.Get(middleware.TokenHeader)
			failed := send(h, method(m), with("X-Fail", "1"), showing(tok))
			require.ErrorIs(t, again, exact.ErrNoRefund)
			require.EqualValues(t, 1, l.charged)
			refunded := failed.Header.Get(middleware.TokenHeader)
			require.Equal(t, tok, refunded, "the token of before, byte for byte")

			// The fallback tells what token and memory say.
			l.fault = func(context.Context, int) error { return errEngine }
			resp := send(h, method(m), showing(refunded))
			require.Equal(t, `"contact";r=3;t=60`, resp.Header.Get("RateLimit"))

			// The only request that was counted, refunded: no token is left.
			l.fault = nil
			other := send(h, method(m), with("X-Fail", "1"), from("203.0.113.9"))
			require.Empty(t, other.Header.Values(middleware.TokenHeader))
			require.Empty(t, other.Header.Values("Set-Cookie"))
		}
	}
	require.ErrorIs(t, middleware.Refund(nil, &http.Request{}), exact.ErrNoRefund)
}

func TestExactRefundOpensASpentKey(t *testing.T) {
	c := new(clock)
	l := newLedger(c)
	started, release := make(chan struct{}), make(chan struct{})
	h := newLimiter(t, paid(c, l)).Handler(&spy{serve: func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Fail") != "" {
			close(started)
			<-release
			require.NoError(t, middleware.Refund(w, r))
		}
	}})
	done := make(chan struct{})
	go func() { defer close(done); send(h, with("X-Fail", "1")) }()
	<-started
	require.Equal(t, 4, admitted(h, 6))
	close(release)
	<-done
	require.Equal(t, 1, admitted(h, 2), "what was given back can be had")
}

func TestExactConfigErrors(t *testing.T) {
	c := new(clock)
	cfg := contact(c)
	cfg.Exact = &middleware.Exact{Instances: -1, Deadline: time.Microsecond, InFlight: -1, Shards: 1000}
	cfg.Challenge = &middleware.Challenge{}
	_, err := middleware.New(cfg)
	for _, field := range []string{"Exact.Counter", "Exact.Outage", "Exact.Instances", "Exact.Deadline", "Exact.InFlight", "Exact.Shards", "Challenge"} {
		require.ErrorContains(t, err, field+": ")
	}
	cfg = paid(c, newLedger(c))
	for i := range 8 {
		cfg.Limits = append(cfg.Limits[:i], middleware.Limit{Quota: 5, Window: time.Duration(i+1) * time.Minute})
	}
	_, err = middleware.New(cfg)
	require.ErrorContains(t, err, "at most 7")
}

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
		cfg.Exact.Instances = 2
		log := logging(&cfg)
		passed := 0
		for range 2 {
			h, _ := limited(t, cfg)
			passed += admitted(h, 20)
			resp := send(h)
			require.Equal(t, "?1", resp.Header.Get(middleware.DegradedHeader))
		}
		require.Equal(t, 4, passed, "half of five on each, rounded down; never unlimited")
		require.Equal(t, 2, strings.Count(log.String(), "does not answer"), "one line on each instance")
	})

	t.Run("T33 the counter is down, fail closed", func(t *testing.T) {
		c := new(clock)
		l := newLedger(c)
		l.fault = failing
		cfg := paid(c, l)
		log := logging(&cfg)
		h, spy := limited(t, cfg)
		for range 20 {
			resp := send(h)
			require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			require.Equal(t, "?1", resp.Header.Get(middleware.DegradedHeader))
			require.NotEmpty(t, resp.Header.Get("Retry-After"))
			require.Contains(t, bodyOf(t, resp), "temporary-reduced-capacity")
		}
		require.Zero(t, spy.calls.Load())
		require.Equal(t, 10, l.count(), "five calls, each repeated once; then the breaker is open")
		require.Equal(t, 1, strings.Count(log.String(), "does not answer"))

		l.fault = nil
		require.Equal(t, http.StatusServiceUnavailable, send(h).StatusCode)
		c.advance(time.Second)
		require.Equal(t, 5, admitted(h, 9), "recovers by itself")
		require.Equal(t, 1, strings.Count(log.String(), "answers again"))
		require.Empty(t, send(h).Header.Get(middleware.DegradedHeader))
	})

	t.Run("T34 the counter hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := new(clock)
			l := newLedger(c)
			l.fault = func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
			h, _ := limited(t, paid(c, l))
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
		synctest.Test(t, func(t *testing.T) {
			c := new(clock)
			l := newLedger(c)
			l.fault = func(context.Context, int) error { time.Sleep(40 * time.Millisecond); return nil }
			cfg := paid(c, l)
			cfg.Exact.Outage = middleware.FailOpen
			cfg.Exact.InFlight = 8
			degraded := 0
			cfg.OnDecision = func(_ *http.Request, d middleware.Decision) {
				if d.Degraded {
					degraded++
				}
			}
			h, _ := limited(t, cfg)
			codes := make(chan int, 100)
			for range 100 {
				go func() { codes <- send(h).StatusCode }()
			}
			seen := map[int]int{}
			for range 100 {
				seen[<-codes]++
			}
			require.Equal(t, map[int]int{200: 5, 429: 3, 503: 92}, seen)
			require.Zero(t, degraded)
		})
	})

	t.Run("T34 a flood that makes the counter slow never turns into the fallback", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
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
			cfg := paid(c, l)
			cfg.Exact.Outage = middleware.FailOpen
			cfg.Exact.InFlight = 8
			log := logging(&cfg)
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

	t.Run("T34 a flood at a counter that hangs is an outage", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := new(clock)
			l := newLedger(c)
			l.fault = func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
			cfg := paid(c, l)
			cfg.Exact.Outage = middleware.FailOpen
			cfg.Exact.InFlight = 8
			h, _ := limited(t, cfg)
			codes := make(chan int, 100)
			for n := range 100 {
				go func() { codes <- send(h, from(fmt.Sprintf("198.18.0.%d", n))).StatusCode }()
			}
			seen := map[int]int{}
			for range 100 {
				seen[<-codes]++
			}
			require.Equal(t, map[int]int{200: 8, 503: 92}, seen)
			require.Equal(t, http.StatusOK, send(h, from("198.18.1.1")).StatusCode)
		})
	})

	t.Run("T34 a slow answer among few is an outage", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := new(clock)
			l := newLedger(c)
			l.fault = func(ctx context.Context, n int) error {
				if n == 1 {
					<-ctx.Done()
				}
				return ctx.Err()
			}
			cfg := paid(c, l)
			cfg.Exact.Outage = middleware.FailOpen
			h, _ := limited(t, cfg)
			slow := make(chan *http.Response, 1)
			go func() { slow <- send(h) }()
			synctest.Wait()
			require.Empty(t, send(h, from("198.18.1.1")).Header.Get(middleware.DegradedHeader))
			a := <-slow
			require.Equal(t, http.StatusOK, a.StatusCode)
			require.Equal(t, "?1", a.Header.Get(middleware.DegradedHeader))
		})
	})

	t.Run("T34 a counter that is full is no outage", func(t *testing.T) {
		c := new(clock)
		cfg := paid(c, exact.NewMemory(1, c.Now))
		cfg.Exact.Outage = middleware.FailOpen
		log := logging(&cfg)
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
		admitted(h, 5)
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

	t.Run("T40 an Idempotency-Key that the owner trusts is charged once", func(t *testing.T) {
		c := new(clock)
		l := newLedger(c)
		cfg := paid(c, l)
		cfg.Exact.DangerouslyTrustIdempotencyKey = true
		h, _ := limited(t, cfg)
		require.Equal(t, 9, admitted(h, 9, with("Idempotency-Key", "mine")))
		require.EqualValues(t, 1, l.charged)
		require.Equal(t, 4, admitted(h, 9, with("Idempotency-Key", "")))
		require.NotContains(t, l.ids[0], "mine")
		send(h, with("Idempotency-Key", "mine"), from("203.0.113.2"))
		require.EqualValues(t, 6, l.charged, "a key of another client is another key")
	})
}
