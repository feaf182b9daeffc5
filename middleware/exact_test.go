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
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/storeless"
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
	require.EqualValues(t, 5, l.Charged)
}

// TestExactIgnoresCountsOfTokens has a client that was admitted elsewhere as often
// as the quota allows, by an instance that was not asking the counter.
func TestExactIgnoresCountsOfTokens(t *testing.T) {
	c := new(clock)
	open := paid(c, newLedger(c))
	open.Exact.Outage = middleware.FailOpen
	open.Exact.Counter.(*ledger).Fault = func(context.Context, int) error { return errEngine }
	tok := spend(t, newLimiter(t, open).Handler(new(spy)), 5)
	h, _ := limited(t, paid(c, newLedger(c)))
	require.Equal(t, http.StatusOK, send(h, showing(tok)).StatusCode, "the counter knows of none of them")
}

func TestExactSpentKeyMakesNoCallUntilItsTime(t *testing.T) {
	c, l, cfg := paidRoute()
	h, _ := limited(t, cfg)
	require.Equal(t, 5, admitted(h, 5))
	refused := requireStatus(t, http.StatusTooManyRequests, send(h))
	require.Equal(t, 6, l.Count())
	tok := refused.Header.Get(middleware.TokenHeader)
	require.NotEmpty(t, tok)

	elsewhere, _ := limited(t, cfg)
	for _, after := range []time.Duration{0, 2 * time.Second, 2999 * time.Millisecond} {
		c.Advance(after)
		require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode, "without its token")
		again := requireStatus(t, http.StatusTooManyRequests, send(elsewhere, showing(tok)), "elsewhere, with its token")
		require.NotEmpty(t, again.Header.Get("Retry-After"))
	}
	require.Equal(t, 6, l.Count(), "no call for five seconds")
	c.Advance(time.Millisecond)
	require.Equal(t, http.StatusTooManyRequests, send(elsewhere, showing(tok)).StatusCode)
	require.Equal(t, 7, l.Count(), "that is asked once more there")
	c.Advance(4999 * time.Millisecond)
	require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
	require.Equal(t, http.StatusTooManyRequests, send(elsewhere).StatusCode)
	require.Equal(t, 7, l.Count(), "no call for ten seconds where it was refused")
	c.Advance(50*time.Second + time.Millisecond) // a minute in all
	require.Equal(t, http.StatusOK, send(h).StatusCode)
	require.Equal(t, http.StatusOK, send(elsewhere, showing(tok)).StatusCode)
	require.Equal(t, 9, l.Count())
}

func TestExactRefusalOfADearRequestLetsACheapOnePass(t *testing.T) {
	_, l, cfg := paidRoute()
	cfg.Cost = func(r *http.Request) int64 { return int64(len(r.Header["X-Unit"])) }
	h, _ := limited(t, cfg)
	cost := func(n int) option { return with(strings.Split(strings.Repeat("X-Unit,1,", n), ",")[:2*n]...) }
	require.Equal(t, http.StatusOK, send(h, cost(4)).StatusCode)
	refused := requireStatus(t, http.StatusTooManyRequests, send(h, cost(2)))
	tok := refused.Header.Get(middleware.TokenHeader)
	require.Equal(t, http.StatusTooManyRequests, send(h, cost(3), showing(tok)).StatusCode)
	require.Equal(t, 2, l.Count(), "a dearer one is not asked about")
	require.Equal(t, http.StatusOK, send(h, cost(1), showing(tok)).StatusCode)
	require.Equal(t, http.StatusForbidden, send(h, cost(6)).StatusCode, "above the quota")
	require.Equal(t, 3, l.Count())

	peek := requireStatus(t, http.StatusOK, send(h, cost(0)))
	require.Equal(t, `"contact";r=0;t=60`, peek.Header.Get("RateLimit"))
	require.EqualValues(t, 5, l.Charged)
}

func TestExactRefusalIsToldOnceMore(t *testing.T) {
	c, l, h := paidSite(t)
	older := tokenIn(send(h))
	require.Equal(t, 4, admitted(h, 6))
	tok := tokenIn(send(h))
	require.NotEmpty(t, tok, "refused from memory, to a client that shows nothing")
	require.Empty(t, tokenIn(send(h, showing(tok))), "it knows")
	for _, shown := range []option{showing(tok), showing(tok, older), showing(older, tok)} { // as a field and a cookie may say
		elsewhere, _ := limited(t, paid(c, l))
		require.Equal(t, http.StatusTooManyRequests, send(elsewhere, shown).StatusCode)
	}
	require.Equal(t, 6, l.Count())
	c.Advance(4 * time.Second)
	late := tokenIn(send(h))
	require.NotEmpty(t, late)
	c.Advance(time.Second)
	require.Empty(t, tokenIn(send(h)), "nobody would believe it")
	elsewhere, _ := limited(t, paid(c, l))
	send(elsewhere, showing(late))
	require.Equal(t, 7, l.Count(), "the later token says when it was said")
}

func TestExactPeekIsAdmittedInAnOutage(t *testing.T) {
	c := new(clock)
	l := newLedger(c)
	l.PeekFault = errEngine
	cfg := paid(c, l)
	cfg.Cost = func(*http.Request) int64 { return 0 }
	h, _ := limited(t, cfg)
	resp := requireStatus(t, http.StatusOK, send(h))
	requireHeader(t, resp, "Tallystick-Degraded", "?1", "RateLimit", "")
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
	c, _, cfg := paidRoute()
	pro := contact(c).Limits
	pro[0].Quota = 8
	cfg.Tiers = map[string][]middleware.Limit{"pro": pro}
	cfg.Identity = byCustomer
	h, _ := limited(t, cfg)
	require.Equal(t, 5, admitted(h, 9, customer("a")))
	tok := tokenIn(send(h, customer("a")))
	require.NotEmpty(t, tok)
	require.Equal(t, 3, admitted(h, 9, with("X-Customer", "a", "X-Tier", "pro"), showing(tok)))
}

func TestExactMarkOfTheTokenIsNoLimitOfThePolicy(t *testing.T) {
	c := new(clock)
	h, _ := limited(t, paid(c, newLedger(c)))
	resp := send(h)
	requireHeader(t, resp, "RateLimit-Policy", `"contact";q=5;w=60`, "RateLimit", `"contact";r=4;t=60`)
	require.NotEmpty(t, resp.Header.Get(middleware.TokenHeader))
}

func TestExactKeysAreHashedAndApart(t *testing.T) {
	_, l, h := paidSite(t)
	send(h)
	send(h, from("203.0.113.2"))
	send(h, from("2001:db8::1"))
	send(h, from("2001:db8::2")) // of the same /64
	require.Len(t, l.Keys, 3)
	for key := range l.Keys {
		require.NotContains(t, key, "203")
		require.LessOrEqual(t, len(key), exact.MaxKey)
	}
}

func TestExactRefusesEarlyData(t *testing.T) {
	c, l, h := paidSite(t)
	require.Equal(t, http.StatusTooEarly, send(h, with("Early-Data", "1")).StatusCode)
	require.Zero(t, h.Spy.Calls.Load())
	require.Zero(t, l.Count())
	require.Equal(t, http.StatusOK, send(newSite(t, contact(c)), with("Early-Data", "1")).StatusCode, "where no counter is charged it is a request like others")
}

// A refusal that was noted under a clock that was ahead by hours keeps nobody from the
// counter: neither on that instance, once its clock is right, nor by the token.
func TestExactRefusalOfAWrongClockIsForgotten(t *testing.T) {
	c, l, cfg := paidRoute()
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

func TestExactConfigErrors(t *testing.T) {
	c := new(clock)
	cfg := contact(c)
	cfg.Exact = &middleware.Exact{Contended: 9, Deadline: time.Microsecond, InFlight: -1, PayingTiers: []string{"gold"}}
	cfg.Challenge = &middleware.Challenge{}
	_, err := middleware.New(cfg)
	for _, field := range []string{"Exact.Counter", "Exact.Outage", "Exact.Contended", "Exact.Deadline", "Exact.InFlight", "Exact.PayingTiers[0]", "Challenge"} {
		require.ErrorContains(t, err, field+": ")
	}
	cfg = paid(c, newLedger(c))
	for i := range 8 {
		cfg.Limits = append(cfg.Limits[:i], middleware.Limit{Quota: 5, Window: time.Duration(i+1) * time.Minute})
	}
	_, err = middleware.New(cfg)
	require.ErrorContains(t, err, "at most 7")
}

// What only a counter can count: on the wire it is a limit like any other, and in an
// outage a sliding window of the same quota.
func TestExactTrails(t *testing.T) {
	for _, a := range []middleware.Limit{
		{Algorithm: storeless.SlidingLog, Quota: 3, Window: time.Minute},
		{Algorithm: storeless.RollingDay, Quota: 3, Window: 24 * time.Hour},
	} {
		c := new(clock)
		l := &altered{Counter: memory.New(0, c.Now)}
		cfg := paid(c, l)
		cfg.Limits = []middleware.Limit{a}
		cfg.Exact.Outage = middleware.FailOpen
		h, _ := limited(t, cfg)
		for range 3 {
			require.Equal(t, http.StatusOK, send(h).StatusCode)
			c.Advance(a.Window / 10)
		}
		require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
		l.OnTake = notTaken(errEngine)
		require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode, "a refusal of the counter is remembered")
		require.Equal(t, 3, admitted(h, 9, from("203.0.113.77")), "the fallback has the quota, and no more")
		l.OnTake = nil
		c.Advance(a.Window*7/10 - time.Second)
		require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
		c.Advance(time.Minute + time.Second) // a rolling day counts whole minutes
		require.Equal(t, http.StatusOK, send(h).StatusCode, "the first has left")
	}
}

func TestExactTrailsWantACounter(t *testing.T) {
	c := new(clock)
	cfg := contact(c)
	cfg.Limits = []middleware.Limit{{Name: "day", Algorithm: storeless.RollingDay, Quota: 3, Window: 24 * time.Hour}}
	_, err := middleware.New(cfg)
	require.EqualError(t, err, "policy \"contact\": Limits[0].Algorithm: a rolling-day needs an exact counter; SlidingWindow is what comes closest without one")
	cfg = paid(c, memory.New(0, c.Now))
	cfg.Limits = []middleware.Limit{{Name: "day", Quota: 3, Window: 24 * time.Hour}}
	cfg.Tiers = map[string][]middleware.Limit{"pro": {{Name: "day", Algorithm: storeless.RollingDay, Quota: 9, Window: 24 * time.Hour}}}
	_, err = middleware.New(cfg)
	require.EqualError(t, err, `policy "contact": Tiers["pro"]: must have the names, algorithms and windows of Limits, and the same Shadow, in that order; tiers differ in Quota and Burst alone`)
}

// A refusal that is remembered says what the counter's own says of the limit that refuses for longest: on the instance
// that was told, and by its token on another. Of the others nothing is known any more.
func TestExactRefusalThatIsRememberedNamesItsLimit(t *testing.T) {
	two := []middleware.Limit{{Name: "minute", Quota: 3, Window: time.Minute}, {Name: "day", Quota: 3, Window: 24 * time.Hour}}
	problem := func(t *testing.T, resp *http.Response) string {
		_, rest, _ := strings.Cut(bodyOf(t, resp), `"violated-policies":[`)
		names, _, _ := strings.Cut(rest, "]")
		return names
	}
	for _, tc := range []struct {
		name             string
		limits           []middleware.Limit
		fields           middleware.Fields
		cost             int64
		header           string
		first, then      string // of that header, at first and six seconds later
		violated, repeat string
	}{
		{"one limit", contact(new(clock)).Limits, 0, 1, "RateLimit", `"contact";r=0;t=60`, `"contact";r=0;t=54`, `"contact"`, `"contact"`},
		{"two limits", two, 0, 1, "RateLimit", `"minute";r=0;t=60, "day";r=0;t=86400`, `"day";r=0;t=86394`, `"minute","day"`, `"day"`},
		{"a dear request", contact(new(clock)).Limits, 0, 3, "RateLimit", `"contact";r=2;t=60`, `"contact";r=2;t=54`, `"contact"`, `"contact"`},
		{"X-RateLimit-Remaining", two, middleware.XRateLimitInSeconds, 1, "X-RateLimit-Remaining", "0", "0", `"minute","day"`, `"day"`},
		{"X-RateLimit-Reset", two, middleware.XRateLimitInSeconds, 1, "X-RateLimit-Reset", "86400", "86394", `"minute","day"`, `"day"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, l, cfg := paidRoute()
			for i := range tc.limits {
				tc.limits[i].Algorithm = storeless.FixedWindow
			}
			cfg.Limits, cfg.Fields = tc.limits, tc.fields
			cfg.Cost = func(*http.Request) int64 { return tc.cost }
			h, elsewhere := newSite(t, cfg), newSite(t, cfg)
			var refused *http.Response
			for refused == nil || refused.StatusCode == http.StatusOK {
				refused = send(h)
			}
			require.Equal(t, tc.first, refused.Header.Get(tc.header))
			require.Equal(t, tc.violated, problem(t, refused))
			tok := refused.Header.Get(middleware.TokenHeader)
			calls := l.Count()
			c.Advance(4 * time.Second)
			all := []*http.Response{send(h)}
			if tc.cost == 1 {
				all = append(all, send(elsewhere, showing(tok)))
			}
			c.Advance(2 * time.Second)
			again := send(h)
			require.Equal(t, calls, l.Count(), "nobody asks")
			require.Equal(t, tc.then, again.Header.Get(tc.header))
			for _, resp := range append(all, again) {
				requireStatus(t, http.StatusTooManyRequests, resp)
				require.Equal(t, refused.Header.Get("RateLimit-Policy"), resp.Header.Get("RateLimit-Policy"))
				require.Equal(t, refused.Header.Get("X-RateLimit-Limit"), resp.Header.Get("X-RateLimit-Limit"))
				require.NotEmpty(t, resp.Header.Get(tc.header))
				require.Equal(t, tc.repeat, problem(t, resp))
			}
			limits := h.Decisions.Last().Limits()
			require.Len(t, limits, 1)
			require.True(t, limits[0].Blocked)
			require.Equal(t, tc.limits[len(tc.limits)-1].Window, limits[0].Window)
		})
	}
}

// A counter that repeats a refusal does not say how the limits stand: nor does what is remembered of it.
func TestExactRefusalWithoutALimit(t *testing.T) {
	_, l, cfg := paidRoute()
	a := &altered{Counter: l, OnTake: func(ctx context.Context, call exact.Call) (v exact.Verdict, err error) {
		v.Wait = time.Minute
		return v, nil
	}}
	cfg.Exact.Counter = a
	h := newSite(t, cfg)
	tok := send(h).Header.Get(middleware.TokenHeader)
	for _, resp := range []*http.Response{send(h), send(newSite(t, cfg), showing(tok))} {
		requireStatus(t, http.StatusTooManyRequests, resp)
		requireHeader(t, resp, "RateLimit", "")
	}
	require.Empty(t, h.Decisions.Last().Limits())
}
