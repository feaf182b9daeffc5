// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
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
	for _, after := range []time.Duration{0, 2 * time.Second, 2999 * time.Millisecond} {
		c.advance(after)
		require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode, "without its token")
		again := send(elsewhere, showing(tok))
		require.Equal(t, http.StatusTooManyRequests, again.StatusCode, "elsewhere, with its token")
		require.NotEmpty(t, again.Header.Get("Retry-After"))
	}
	require.Equal(t, 6, l.count(), "no call for five seconds")
	c.advance(time.Millisecond)
	require.Equal(t, http.StatusTooManyRequests, send(elsewhere, showing(tok)).StatusCode)
	require.Equal(t, 7, l.count(), "that is asked once more there")
	c.advance(4999 * time.Millisecond)
	require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
	require.Equal(t, http.StatusTooManyRequests, send(elsewhere).StatusCode)
	require.Equal(t, 7, l.count(), "no call for ten seconds where it was refused")
	c.advance(50*time.Second + time.Millisecond) // a minute in all
	require.Equal(t, http.StatusOK, send(h).StatusCode)
	require.Equal(t, http.StatusOK, send(elsewhere, showing(tok)).StatusCode)
	require.Equal(t, 9, l.count())
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
	older := tokenIn(send(h))
	require.Equal(t, 4, admitted(h, 6))
	tok := tokenIn(send(h))
	require.NotEmpty(t, tok, "refused from memory, to a client that shows nothing")
	require.Empty(t, tokenIn(send(h, showing(tok))), "it knows")
	for _, shown := range []option{showing(tok), showing(tok, older), showing(older, tok)} { // as a field and a cookie may say
		elsewhere, _ := limited(t, paid(c, l))
		require.Equal(t, http.StatusTooManyRequests, send(elsewhere, shown).StatusCode)
	}
	require.Equal(t, 6, l.count())
	c.advance(4 * time.Second)
	late := tokenIn(send(h))
	require.NotEmpty(t, late)
	c.advance(time.Second)
	require.Empty(t, tokenIn(send(h)), "nobody would believe it")
	elsewhere, _ := limited(t, paid(c, l))
	send(elsewhere, showing(late))
	require.Equal(t, 7, l.count(), "the later token says when it was said")
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
	require.Equal(t, "?1", resp.Header.Get("Tallystick-Degraded"))
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
		id := middleware.APIKey("customer")
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
	cfg.Shards = 4
	h, _ := limited(t, cfg)
	require.Equal(t, 40, admitted(h, 2000), "no more than one key would admit, and all of it in the end")
	require.Len(t, l.keys, 4)

	cfg.Identity = func(*http.Request) (middleware.Identity, error) { return middleware.APIKey("customer"), nil }
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

			// Whatever the handler says of caching.
			l.fault = nil
			again = nil
			private := newLimiter(t, cfg).Handler(&spy{serve: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "private")
				failing(w, r)
			}})
			tok = send(private, method(m), from("203.0.113.8")).Header.Get(middleware.TokenHeader)
			back := send(private, method(m), with("X-Fail", "1"), showing(tok), from("203.0.113.8"))
			require.Equal(t, []string{tok}, back.Header.Values(middleware.TokenHeader))

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

// A refusal that was noted under a clock that was ahead by hours keeps nobody from the
// counter: neither on that instance, once its clock is right, nor by the token.
func TestExactRefusalOfAWrongClockIsForgotten(t *testing.T) {
	c := new(clock)
	l := newLedger(c)
	cfg := paid(c, l)
	ahead := 3 * time.Hour
	cfg.Now = func() time.Time { return c.Now().Add(ahead) }
	h, _ := limited(t, cfg)
	require.Equal(t, 5, admitted(h, 5))
	tok := send(h).Header.Get(middleware.TokenHeader)
	require.NotEmpty(t, tok)
	ahead = 0
	elsewhere, _ := limited(t, paid(c, l))
	for name, ask := range map[string]func() *http.Response{
		"that instance": func() *http.Response { return send(h) },
		"by the token":  func() *http.Response { return send(elsewhere, showing(tok)) },
		"by two tokens": func() *http.Response { return send(elsewhere, showing(tok, tok)) },
	} {
		resp := ask()
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode, name)
		wait, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		require.NoError(t, err)
		require.LessOrEqual(t, wait, 2*60+12, name)
	}
}

// A refusal that was on its way while somebody gave back is told, and not remembered.
func TestExactRefusalDoesNotOvertakeARefund(t *testing.T) {
	c := new(clock)
	held := &heldBack{Counter: exact.NewMemory(0, c.Now), release: make(chan struct{})}
	m := newLimiter(t, paid(c, held))
	refund := make(chan struct{})
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Refund") != "" {
			<-refund
			if err := middleware.Refund(w, r); err != nil {
				t.Error(err)
			}
		}
	}))
	require.Equal(t, 4, admitted(h, 4))
	fifth, sixth := make(chan int, 1), make(chan int, 1)
	go func() { fifth <- send(h, func(r *http.Request) { r.Header.Set("Refund", "1") }).StatusCode }()
	require.Eventually(t, func() bool { return held.taken.Load() == 5 }, patient, time.Millisecond)
	held.hold.Store(true)
	go func() { sixth <- send(h).StatusCode }()
	require.Eventually(t, func() bool { return held.taken.Load() == 6 }, patient, time.Millisecond)
	held.hold.Store(false)
	close(refund)
	require.Equal(t, http.StatusOK, <-fifth)
	close(held.release)
	require.Equal(t, http.StatusTooManyRequests, <-sixth)
	require.Equal(t, http.StatusOK, send(h).StatusCode)
}

func TestExactConfigErrors(t *testing.T) {
	c := new(clock)
	cfg := contact(c)
	cfg.Exact = &middleware.Exact{Contended: 9, Deadline: time.Microsecond, InFlight: -1, PayingTiers: []string{"gold"}}
	cfg.Shards = 1000
	cfg.Challenge = &middleware.Challenge{}
	_, err := middleware.New(cfg)
	for _, field := range []string{"Exact.Counter", "Exact.Outage", "Exact.Contended", "Exact.Deadline", "Exact.InFlight", "Exact.PayingTiers[0]", "Shards", "Challenge"} {
		require.ErrorContains(t, err, field+": ")
	}
	cfg = paid(c, newLedger(c))
	for i := range 8 {
		cfg.Limits = append(cfg.Limits[:i], middleware.Limit{Quota: 5, Window: time.Duration(i+1) * time.Minute})
	}
	_, err = middleware.New(cfg)
	require.ErrorContains(t, err, "at most 7")
}
