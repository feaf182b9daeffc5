// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/token"
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
		Remaining: 1, Reset: time.Minute, Cost: 1,
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

func TestDecisions(t *testing.T) {
	var priced int
	peeks := step{as: costing(0), want: 200, fields: fields{"RateLimit": `"contact";r=3;t=60`}}
	play(t, []scenario{
		{"shadow mode refuses nothing, and says what it would have answered", limiting(costly, func(cfg *middleware.Config) { cfg.Shadow = true }), []step{
			{as: costing(5), want: 200, reason: middleware.WithinLimits, see: all{would(0)}},
			{want: 200, reason: middleware.OverLimit, see: all{would(429)}},
			{as: costing(6), want: 200, reason: middleware.CostAboveQuota, see: all{would(403)}},
			{as: costing(-1), want: 200, reason: middleware.NegativeCost, see: all{would(500)}},
			{as: unaddressed, want: 200, reason: middleware.IdentityUnknown, see: all{would(403), passed(5)}},
			{want: 200, fields: fields{"RateLimit": `"contact";r=0;t=60`}}, // it counts what the limits admitted
		}},
		{"a refusal handler finds the decision and the fields", limiting(limits(fixed(1, time.Minute)), func(cfg *middleware.Config) {
			cfg.RefusalHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				d, _ := middleware.FromContext(r.Context())
				require.Equal(t, middleware.OverLimit, d.Reason)
				require.NotEmpty(t, w.Header().Get("Retry-After"))
				require.NotEmpty(t, w.Header().Get("RateLimit"))
				w.WriteHeader(d.Status)
				_, _ = io.WriteString(w, "later")
			})
		}), []step{
			{want: 200},
			{as: method("GET"), want: 429, fields: fields{"Cache-Control": "no-store", "Vary": ""}, see: all{says("later")}}, // it has not negotiated
			{want: 429, fields: fields{"Cache-Control": "no-store", "Vary": ""}, see: all{says("later"), passed(1)}},
		}},
		{"a peek is free", limiting(costly), []step{
			{as: costing(0), want: 200, fields: fields{"RateLimit": `"contact";r=5`}}, // nothing was used, so nothing rises
			{times: 2, show: latest, want: 200}, peeks, peeks, peeks, {times: 10, passes: 3}, {as: costing(0), want: 200},
		}},
		// A request that ends at one step costs none of the next: who asks, what it costs, what it shows.
		{"a decision has its order", limiting(func(cfg *middleware.Config) {
			cfg.Cost = func(r *http.Request) int64 { priced++; return costOf(r) }
		}), []step{
			{want: 200, keep: "own", see: all{func(s *scene) { require.Equal(s, 1, priced) }}},
			{as: unaddressed, show: "own", want: 403, reason: middleware.IdentityUnknown, see: all{tokens(0, nil), func(s *scene) {
				require.Equal(s, 1, priced, "no client, no price")
			}}},
			{as: both(costing(-1), showing("garbage")), show: "own", want: 500, reason: middleware.NegativeCost,
				fields: fields{middleware.TokenHeader: ""}, see: all{tokens(0, nil)}}, // what cannot be charged costs no MAC
			{show: "own", want: 200, see: all{tokens(1, nil), remain(3), passed(2)}}, // neither was charged
		}},
	})
}

// A refusal carries a token only if the client has something to learn from it, and has shown that
// it keeps tokens. A client that shows none, or garbage, gets no signature.
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

// A request keeps less than a Decision has. What is kept apart, because few have it, is in the
// Decision of those that do.

func TestRecord(t *testing.T) {
	four := limits(middleware.Limit{Name: "a", Algorithm: middleware.FixedWindow, Quota: 9, Window: time.Minute},
		middleware.Limit{Name: "b", Algorithm: middleware.FixedWindow, Quota: 8, Window: 10 * time.Minute},
		middleware.Limit{Name: "c", Algorithm: middleware.FixedWindow, Quota: 7, Window: time.Hour},
		middleware.Limit{Name: "d", Algorithm: middleware.FixedWindow, Quota: 2, Window: 24 * time.Hour})
	stands := func(lastBlocked bool) func(*scene) {
		return func(s *scene) {
			for i, l := range s.decision().Limits() {
				require.Equal(s, l.Window, l.Reset)
				require.Equal(s, lastBlocked && i == 3, l.Blocked)
			}
		}
	}
	lost := errors.New("database")
	failed := func(reason middleware.Reason, kept error) []step {
		return []step{{want: map[bool]int{false: 403, true: 401}[reason == middleware.IdentityDenied], reason: reason, see: all{func(s *scene) {
			d := s.decision()
			require.Equal(s, middleware.Identity{}, d.Identity)
			require.Empty(s, d.Tier)
			require.Empty(s, d.Pseudonym())
			require.Equal(s, kept, d.IdentityErr)
		}}}}
	}
	answered := func(s *scene) {
		require.Equal(s, "answered", s.decision().Call)
		require.Zero(s, s.decision().CallTook%time.Microsecond)
	}
	play(t, []scenario{
		{"of all limits", limiting(four), []step{
			{want: 200, see: all{remain(8, 7, 6, 1), stands(false)}}, {want: 200, see: all{remain(7, 6, 5, 0), stands(false)}},
			{want: 429, see: all{remain(7, 6, 5, 0), stands(true), func(s *scene) {
				require.Equal(s, []string{"d"}, problemIn(s, s.answer()).Violated)
			}}},
		}},
		{"of why a token was not accepted", limiting(), []step{
			{want: 200, keep: "own", see: all{tokens(0, nil), func(s *scene) {
				other := contact(s.now)
				other.Policy = "other"
				s.tokens["foreign"] = spend(s, newLimiter(s, other).Handler(new(spy)), 1)
				forged := []byte(s.tokens["own"])
				forged[len(forged)-2] ^= 1
				s.tokens["forged"], s.tokens["garbage"] = string(forged), "garbage"
			}}},
			{show: "own", want: 200, see: all{err(nil)}}, {show: "garbage", want: 200, see: all{err(token.ErrMalformed)}},
			{show: "foreign", want: 200, see: all{err(token.ErrForeign)}}, {show: "forged", want: 200, see: all{err(token.ErrForged)}},
			{show: "garbage forged own", want: 429, see: all{err(token.ErrForged)}}, // the last of several
			{as: from("198.51.100.1"), show: "own", want: 200, see: all{err(token.ErrHolder)}},
			{after: time.Hour, show: "own", want: 200, see: all{err(token.ErrExpired)}},
		}},
		{"of an identity that was denied", limiting(telling(middleware.APIKey("k"), &middleware.Denial{Status: 401})), failed(middleware.IdentityDenied, nil)},
		{"of an identity that failed", limiting(telling(middleware.APIKey("k"), lost)), failed(middleware.IdentityUnknown, lost)},
		{"of no identity with a tier", limiting(telling(middleware.Identity{Tier: "pro"}, nil)), failed(middleware.IdentityUnknown, nil)},
		{"of a refusal with all that is offered", by(func(c *clock) middleware.Config { return waiting(c, middleware.Newcomers) }), []step{
			{as: both(html, proving("garbage")), want: 403, proof: "wrong-solution", keep: "offer", see: all{func(s *scene) {
				d := s.decision()
				require.Equal(s, s.challenges["offer"].Text, d.Offered.Text)
				require.Positive(s, d.RoomWait)
				require.Zero(s, d.Call)
				require.Zero(s, d.Inherited)
			}}},
		}},
		{"of a call to the counter", byCounter(), []step{
			{want: 200, see: all{answered, remain(4)}}, {want: 200, see: all{answered, remain(3)}}, {want: 200, see: all{answered, remain(2)}},
			{want: 200, see: all{answered, remain(1)}}, {want: 200, see: all{answered, remain(0)}},
		}},
	})
}

// Adapters make requests themselves, and some have no header.
func TestDecisionOfARequestWithoutAHeader(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Limits[0].Quota = 1
	decisions := record(&cfg)
	var inHandler *http.Request
	h := newLimiter(t, cfg).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		d, _ := middleware.FromContext(r.Context())
		inHandler, _ = d.Request()
		require.Same(t, r, inHandler)
	}))
	for _, admitted := range []bool{true, false} {
		send(h, func(r *http.Request) { r.Header = nil })
		require.Equal(t, admitted, decisions.Last().Allowed)
		r, ok := decisions.Last().Request()
		require.True(t, ok)
		require.Equal(t, http.MethodPost, r.Method)
	}
	require.NotNil(t, inHandler)
}

// Whatever hears of a refusal is given the request that has the decision.
func TestRequestOfARefusal(t *testing.T) {
	decided := func(r *http.Request) bool {
		d, ok := middleware.FromContext(r.Context())
		return ok && d.Reason == middleware.OverLimit
	}
	for name, set := range map[string]func(*middleware.Config, *bool){
		"OnDecision": func(cfg *middleware.Config, told *bool) {
			cfg.OnDecision = func(ctx context.Context, d middleware.Decision) {
				r, ok := d.Request()
				*told = ok && decided(r) && r.Context() == ctx
			}
		},
		"RefusalHandler": func(cfg *middleware.Config, told *bool) {
			cfg.RefusalHandler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { *told = decided(r) })
		},
		"PageHandler": func(cfg *middleware.Config, told *bool) {
			cfg.PageHandler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { *told = decided(r) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, told := shut(), false
			set(&cfg, &told)
			h, _ := limited(t, cfg)
			send(h, html)
			send(h, html)
			require.True(t, told)
		})
	}
}

// Every proof that is not accepted is counted once, by its reason, at the endpoint and with a request; Reconfigure
// forgets none.
func TestStatsCountProofs(t *testing.T) {
	elsewhere, want := from("203.0.113.9"), map[string]uint64{}
	counts := func(reason string, n uint64) func(*scene) {
		return func(s *scene) {
			want[reason] = n
			require.Equal(s, want, noted(s.site.M.Stats().Proofs))
		}
	}
	play(t, []scenario{{"by reason", working(middleware.Newcomers), []step{
		{see: all{func(s *scene) {
			require.Empty(s, noted(s.site.M.Stats().Proofs))
			require.Equal(s, "contact", s.site.M.Stats().Policy)
			require.Nil(s, s.site.M.Stats().Counter, "there is none")
		}}},
		{as: toFetch, want: 200, keep: "mine", see: all{func(s *scene) {
			require.EqualValues(s, 1, s.site.M.Stats().Challenges)
			require.EqualValues(s, s.cfg.Challenge.Work, s.site.M.Stats().Work)
		}}},
		{as: both(elsewhere, toRedeem), prove: "mine", want: 403}, {as: elsewhere, prove: "mine", want: 403, see: all{counts("client-changed", 2)}},
		{do: func(s *scene) {
			requireStatus(s, http.StatusForbidden, send(s.site, proving(solve(s, s.challenges["mine"])+"0")))
		}, see: all{counts("wrong-solution", 1)}},
		{prove: "mine", times: 2, want: 200}, {want: 403, see: all{counts("accepted", 1), func(s *scene) { // one that is shown again has bought nothing more
			require.EqualValues(s, 5, s.site.M.Stats().Challenges, "one was fetched, and four came with refusals")
		}}},
		{as: both(elsewhere, toFetch), want: 200, keep: "cheap"}, {do: buys("1", elsewhere)}, {do: buys("2", elsewhere)}, {do: buys("3", elsewhere)},
		{as: both(elsewhere, toRedeem), prove: "cheap", want: 403, see: all{func(*scene) { want["price-risen"] = 1 }, counts("accepted", 4)}},
		{after: time.Hour, as: elsewhere, prove: "cheap", want: 403, see: all{counts("expired", 1)}},
		{do: becomes(func(cfg *middleware.Config) { cfg.Challenge.Mode = middleware.EveryRequest }), as: toFetch, want: 200, keep: "single"},
		{prove: "single", want: 200}, {prove: "single", want: 403, see: all{func(*scene) { want["replayed"] = 1 }, counts("accepted", 5)}},
	}}})
}

// What an operator hears of a counter: what came of each call, how long it took, whether
// it is down, and how many of its places are taken.
func TestStatsAndDecisionsTellOfTheCounter(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := new(clock)
		l := newLedger(c)
		cfg := hasty(c, l)
		cfg.Exact.InFlight = 8
		decisions := record(&cfg)
		m := newLimiter(t, cfg)
		h := m.Handler(new(spy))
		require.Zero(t, *m.Stats().Counter)

		took := 7 * time.Millisecond
		l.Fault = func(context.Context, int) error {
			require.Equal(t, 1./8, m.Stats().Counter.Utilization, "the call that is out")
			time.Sleep(took)
			return nil
		}
		require.Equal(t, 5, admitted(h, 5))
		require.Equal(t, "answered", decisions.Last().Call)
		require.Equal(t, took, decisions.Last().CallTook)
		send(h)
		require.Equal(t, "answered", decisions.Last().Call, "a refusal is an answer")
		send(h)
		require.Equal(t, "", decisions.Last().Call, "it remembers")
		require.Zero(t, decisions.Last().CallTook)
		require.Zero(t, *m.Stats().Counter)

		c.Advance(time.Minute)
		for err, want := range map[error]string{exact.ErrFull: "full", exact.ErrContended: "contended"} {
			l.Fault = func(context.Context, int) error { return err }
			send(h)
			require.Equal(t, want, decisions.Last().Call)
			require.False(t, m.Stats().Counter.Down)
		}

		l.Fault = onFire
		send(h)
		require.Equal(t, "failed", decisions.Last().Call)
		breaks(h, c)
		require.Contains(t, []string{"down", "skipped"}, decisions.Last().Call)
		send(h)
		require.Equal(t, "skipped", decisions.Last().Call)
		require.Equal(t, &middleware.CounterStats{Down: true}, m.Stats().Counter)
		require.NoError(t, m.Reconfigure(cfg))
		require.Zero(t, *m.Stats().Counter, "a counter that no request has asked yet")
	})
}
