// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

func TestDecisionReachesHandlerAndHook(t *testing.T) {
	cfg := contact(new(clock))
	decisions := record(&cfg)
	var inHandler middleware.Decision
	s := &spy{Serve: func(w http.ResponseWriter, r *http.Request) {
		var decided bool
		inHandler, decided = middleware.FromContext(r.Context())
		require.True(t, decided)
		_, _ = io.WriteString(w, "ok")
	}}
	h := newLimiter(t, cfg).Handler(s)
	tok := spend(t, h, 3)
	send(h, showing(tok, "garbage"))

	require.Len(t, decisions.All, 4)
	d := decisions.Last()
	require.Equal(t, d, inHandler)
	require.Equal(t, middleware.WithinLimits, d.Reason)
	require.True(t, d.Admitted && d.Allowed)
	require.Zero(t, d.Status)
	require.Zero(t, d.RetryAfter)
	require.Equal(t, 1, d.Tokens)
	require.ErrorContains(t, d.TokenErr, "malformed")
	require.False(t, d.Saturated)
	require.Equal(t, []middleware.LimitStatus{{
		Limit:     middleware.Limit{Name: "contact", Algorithm: middleware.FixedWindow, Quota: 5, Window: time.Minute},
		Remaining: 1, Reset: time.Minute,
	}}, d.Limits())

	spend(t, h, 1)
	send(h)
	d = decisions.Last()
	require.Equal(t, middleware.OverLimit, d.Reason)
	require.False(t, d.Admitted || d.Allowed)
	require.Equal(t, http.StatusTooManyRequests, d.Status)
	require.GreaterOrEqual(t, d.RetryAfter, time.Minute)
	require.True(t, d.Limits()[0].Blocked)
}

func TestNoDecisionElsewhere(t *testing.T) {
	_, decided := middleware.FromContext(context.Background())
	require.False(t, decided)
}

// The decision's context is the request's in every other respect.
func TestContextIsPassedOn(t *testing.T) {
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "value"))
	s := &spy{Serve: func(_ http.ResponseWriter, r *http.Request) {
		require.Equal(t, "value", r.Context().Value(key{}))
		derived, stop := context.WithCancel(r.Context())
		defer stop()
		cancel()
		<-derived.Done()
		require.ErrorIs(t, r.Context().Err(), context.Canceled)
	}}
	h := newLimiter(t, contact(new(clock))).Handler(s)
	require.Equal(t, http.StatusOK, send(h, func(r *http.Request) { *r = *r.WithContext(ctx) }).StatusCode)
	require.EqualValues(t, 1, s.Calls.Load())
}

func TestShadow(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Shadow, cfg.Cost = true, costOf
	h := newSite(t, cfg)
	for i, test := range []struct {
		request []option
		reason  middleware.Reason
		status  int
	}{
		{[]option{costing(5)}, middleware.WithinLimits, 0},
		{nil, middleware.OverLimit, 429},
		{[]option{costing(6)}, middleware.CostAboveQuota, 403},
		{[]option{costing(-1)}, middleware.NegativeCost, 500},
		{[]option{func(r *http.Request) { r.RemoteAddr = "@" }}, middleware.IdentityUnknown, 403},
	} {
		resp := requireStatus(t, http.StatusOK, send(h, test.request...), "never refuses")
		require.Empty(t, resp.Header.Values("Retry-After"))
		require.EqualValues(t, i+1, h.Spy.Calls.Load())
		d := h.Decisions.Last()
		require.True(t, d.Allowed)
		require.Equal(t, i == 0, d.Admitted)
		require.Equal(t, test.reason, d.Reason)
		require.Equal(t, test.status, d.Status, "what would have been answered")
	}
	require.Equal(t, `"contact";r=0;t=60`, send(h).Header.Get("RateLimit"), "it counts what the limits admitted")
}

func TestRefusedHandler(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Limits[0].Quota = 1
	cfg.RefusalHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, decided := middleware.FromContext(r.Context())
		require.True(t, decided)
		require.Equal(t, middleware.OverLimit, d.Reason)
		require.NotEmpty(t, w.Header().Get("Retry-After"))
		require.NotEmpty(t, w.Header().Get("RateLimit"))
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(d.Status)
		_, _ = io.WriteString(w, "later")
	})
	h, spy := limited(t, cfg)
	send(h)
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		resp := requireStatus(t, http.StatusTooManyRequests, send(h, method(m)))
		require.Equal(t, "later", bodyOf(t, resp))
		require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
		require.Empty(t, resp.Header.Values("Vary"), "it has not negotiated")
	}
	require.EqualValues(t, 1, spy.Calls.Load())
}

// A refusal carries a token only if the client has something to learn from it, and has shown that it
// keeps tokens. Who shows none, or garbage, is signed nothing for.
func TestTokensOfRefusals(t *testing.T) {
	h, _ := limited(t, contact(new(clock)))
	older := spend(t, h, 4)
	newest := spend(t, h, 1, showing(older))
	expired := contact(new(clock))
	expired.Now = func() time.Time { return midnight.Add(-time.Hour) }
	require.NotEmpty(t, tokenIn(send(h, showing(older))))
	require.NotNil(t, cookieIn(send(h, showing(forgery(older)), showingCookie(older))))
	for name, shown := range map[string]option{
		"the newest": showing(newest), "nothing": showing(), "a forgery": showing(forgery(older)), "a forgery in a cookie": showingCookie(forgery(older)),
		"an old one": showing(earned(t, expired)), "no token": showing("a"), "four": showing(forgery(older), "a", forgery(newest), forgery(older)),
	} {
		resp := requireStatus(t, http.StatusTooManyRequests, send(h, shown))
		require.Empty(t, tokenIn(resp), name)
		require.Nil(t, cookieIn(resp), name)
		require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	}
}

// TestRefusedWithoutTokenIsHeldToItsQuota: who has been refused without a token is a client like any other, on
// whatever instance it comes to next. A browser that keeps cookies has its address' quota once, and who
// keeps none has it once on each instance, as without refusals.
func TestRefusedWithoutTokenIsHeldToItsQuota(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		now := new(clock)
		instances := make([]http.Handler, 3)
		for i := range instances {
			instances[i] = newLimiter(t, contact(now)).Handler(new(spy))
		}
		require.Equal(t, 5, admitted(instances[0], 9), "a neighbour")
		var kept option = showing()
		passed := 0
		for i := range 60 {
			resp := send(instances[i%3], kept)
			if resp.StatusCode == http.StatusOK {
				passed++
			}
			if c := cookieIn(resp); c != nil && keeps {
				kept = showingCookie(c.Value)
			}
		}
		if keeps {
			require.Equal(t, 2, passed, "until the first shows it what the neighbour has used")
		} else {
			require.Equal(t, 2*5, passed)
		}
	}
}

func TestPeek(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Cost = costOf
	h, _ := limited(t, cfg)
	require.Equal(t, `"contact";r=5`, send(h, costing(0)).Header.Get("RateLimit"), "nothing was used, so nothing rises")
	spend(t, h, 2)
	for range 10 {
		resp := requireStatus(t, http.StatusOK, send(h, costing(0)))
		require.Equal(t, `"contact";r=3;t=60`, resp.Header.Get("RateLimit"))
	}
	require.Equal(t, 3, admitted(h, 10))
	require.Equal(t, http.StatusOK, send(h, costing(0)).StatusCode)
}

// Each step is made out to what the one before has told: who asks, what it costs, what it
// shows. A request that ends at one of them costs none of the next.
func TestTheOrderOfADecision(t *testing.T) {
	priced, cost := 0, int64(1)
	cfg := contact(new(clock))
	cfg.Cost = func(*http.Request) int64 {
		priced++
		return cost
	}
	h := newSite(t, cfg)
	tok := spend(t, h, 1)
	require.Equal(t, 1, priced, "once for each request")

	send(h, showing(tok), func(r *http.Request) { r.RemoteAddr = "@" })
	require.Equal(t, middleware.IdentityUnknown, h.Decisions.Last().Reason)
	require.Equal(t, 1, priced, "nobody is asked for a price")
	require.Zero(t, h.Decisions.Last().Tokens)

	cost = -1
	require.Empty(t, send(h, showing(tok, "garbage")).Header.Values("Tallystick-Token"))
	require.Equal(t, middleware.NegativeCost, h.Decisions.Last().Reason)
	require.Zero(t, h.Decisions.Last().Tokens, "what cannot be charged costs no MAC")
	require.NoError(t, h.Decisions.Last().TokenErr)

	cost = 1
	send(h, showing(tok))
	require.Equal(t, 1, h.Decisions.Last().Tokens)
	require.EqualValues(t, 3, h.Decisions.Last().Limits()[0].Remaining, "neither was charged")
	require.EqualValues(t, 2, h.Spy.Calls.Load())
}
