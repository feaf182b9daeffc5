// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/kit"
)

func TestAskIncorrect(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	atOnce := func(cfg *middleware.Config) { cfg.Concurrency = &middleware.Concurrency{Max: 1} }
	for _, test := range []struct {
		name    string
		change  func(*middleware.Config)
		ctx     context.Context
		id      middleware.Identity
		cost    int64
		problem string
		peeks   bool
	}{
		{"nobody", nil, t.Context(), middleware.Identity{}, 1, "has no tally", false},
		{"no identity, with a tier", nil, t.Context(), middleware.Identity{Tier: "pro"}, 1, "has no tally", false},
		{"a name that is empty", nil, t.Context(), middleware.Principal(""), 1, "has no tally", false},
		{"a negative cost", nil, t.Context(), visitor, -1, "nothing can cost -1", true},
		{"an ended context", nil, ended, visitor, 1, "nothing was decided: context canceled", false},
		{"a Concurrency", atOnce, t.Context(), visitor, 1, "has a Concurrency", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := contact(new(clock))
			cfg.Shadow = true // not even then
			if test.change != nil {
				test.change(&cfg)
			}
			decisions, log := record(&cfg), logTo(&cfg)
			m := newLimiter(t, cfg)
			a, err := m.Decide(test.ctx, middleware.Ask{Identity: test.id, Cost: test.cost})
			require.ErrorContains(t, err, test.problem)
			require.Equal(t, middleware.Answer{}, a)
			require.False(t, a.Allowed)
			d, err := m.Decide(test.ctx, middleware.Ask{Identity: test.id, DryRun: true})
			require.Equal(t, test.peeks, err == nil)
			require.Equal(t, test.peeks, d.Allowed)
			require.Empty(t, decisions.All)
			require.Empty(t, log.Lines())
			require.Zero(t, m.Stats().Fill)
		})
	}
	require.ErrorIs(t, func() error {
		_, err := newLimiter(t, contact(new(clock))).Decide(ended, middleware.Ask{Identity: visitor})
		return err
	}(), context.Canceled)
	require.Panics(t, func() { _, _ = new(middleware.Middleware).Decide(t.Context(), middleware.Ask{Identity: visitor}) })
}

// What was not decided allows nothing, and can be asked and told anything.
func TestZeroAnswer(t *testing.T) {
	var a middleware.Answer
	require.False(t, a.Allowed)
	require.Empty(t, a.Token())
	require.Empty(t, maps.Collect(a.Fields()))
	a.Charge(true)
	a.Charge(false)
	require.ErrorIs(t, a.Settle(0), exact.ErrNoRefund)
	require.Empty(t, a.Limits())
	require.Empty(t, a.Pseudonym())
}

func TestDecide(t *testing.T) {
	c := new(clock)
	cfg := contact(c)
	cfg.Tiers = map[string][]middleware.Limit{"pro": {{Algorithm: middleware.FixedWindow, Quota: 8, Window: time.Minute}}}
	cfg.Identity = func(*http.Request) (middleware.Identity, error) { panic("a caller that asks is told") }
	cfg.Cost = func(*http.Request) int64 { panic("so is the cost") }
	cfg.Skip = func(*http.Request) bool { panic("and there is no request") }
	type key struct{}
	var seen []middleware.Decision
	cfg.OnDecision = func(ctx context.Context, d middleware.Decision) {
		require.Equal(t, "of the caller", ctx.Value(key{}))
		r, ok := d.Request()
		require.False(t, ok)
		require.Nil(t, r)
		seen = append(seen, d)
	}
	m := newLimiter(t, cfg)
	ctx := context.WithValue(t.Context(), key{}, "of the caller")

	ask := func(id middleware.Identity, cost int64) middleware.Answer {
		return kit.Must(m.Decide(ctx, middleware.Ask{Identity: id, Cost: cost}))(t)
	}
	a := ask(visitor, 4)
	require.True(t, a.Allowed)
	require.EqualValues(t, 4, a.Cost)
	require.EqualValues(t, 1, a.Limits()[0].Remaining)
	require.Equal(t, visitor, a.Identity)
	a = ask(visitor, 2)
	require.False(t, a.Allowed)
	require.Equal(t, middleware.OverLimit, a.Reason)
	require.Equal(t, 429, a.Status)
	require.GreaterOrEqual(t, a.RetryAfter, time.Minute)
	a = ask(visitor, 0)
	require.True(t, a.Allowed)
	require.EqualValues(t, 1, a.Cost, "a cost that was left out is 1")
	a = ask(visitor, 6)
	require.Equal(t, middleware.CostAboveQuota, a.Reason)
	a = ask(pro(visitor), 3)
	require.True(t, a.Allowed, "another tier")
	require.EqualValues(t, 0, a.Limits()[0].Remaining, "and the same tally")
	require.Len(t, seen, 5)
	require.Equal(t, a.Decision, seen[4])
	c.Advance(time.Minute)
	for i := range 7 {
		a = ask(visitor, 1)
		require.Equal(t, i < 5, a.Allowed)
	}
}

// A dry run says what a decision would, and leaves no trace: no count, no cell in memory, no
// decision in the metrics. So it is no way to fill the memory with names.
func TestDryRunLeavesNoTrace(t *testing.T) {
	for name, change := range map[string]func(*middleware.Config){
		"plain":       func(*middleware.Config) {},
		"by outcome":  func(cfg *middleware.Config) { *cfg = login(new(clock)); cfg.Limits[1].Quota = 5 },
		"exact":       func(cfg *middleware.Config) { *cfg = paid(new(clock), newLedger(new(clock))) },
		"work if out": func(cfg *middleware.Config) { cfg.Challenge = &middleware.Challenge{Mode: middleware.WhenExhausted} },
		"no memory":   func(cfg *middleware.Config) { cfg.InsecureNoMemory = true },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := contact(new(clock))
			change(&cfg)
			decisions := record(&cfg)
			m := newLimiter(t, cfg)
			for i := range 300 {
				id := address(fmt.Sprintf("2001:db8:%x::1", i))
				d := peeked(t, m, id)
				require.True(t, d.Allowed)
				require.Equal(t, middleware.WithinLimits, d.Reason)
				require.Equal(t, d.Limits()[0].Quota, d.Limits()[0].Remaining)
			}
			require.Zero(t, m.Stats().Fill)
			require.Empty(t, decisions.All)
			quota := peeked(t, m, visitor).Limits()
			least := slices.MinFunc(quota, func(a, b middleware.LimitStatus) int { return int(a.Remaining - b.Remaining) }).Remaining
			if cfg.InsecureNoMemory {
				return // nothing remembers a decision either
			}
			require.EqualValues(t, least, allowed(t, m, visitor, int(least)+5))
			for range 3 {
				d, again := peeked(t, m, visitor), check(t, m, visitor, 1)
				require.False(t, d.Allowed)
				require.Equal(t, again.Reason, d.Reason)
				require.Equal(t, again.Status, d.Status)
				require.Equal(t, again.Limits(), d.Limits())
				require.Positive(t, d.RetryAfter)
			}
		})
	}
	for _, mode := range []middleware.Mode{middleware.Newcomers, middleware.EveryRequest} {
		m := newLimiter(t, challenging(new(clock), mode))
		require.Equal(t, middleware.NoToken, peeked(t, m, visitor).Reason, "as a decision would")
		require.Equal(t, middleware.NoToken, check(t, m, visitor, 1).Reason)
	}
}

// A token is a token, whichever way it comes and goes: over HTTP, and as metadata.
func TestTokensAreTheSameOutside(t *testing.T) {
	for name, transport := range map[string]middleware.TokenTransport{
		"both": middleware.HeaderOrCookie, "header": middleware.HeaderOnly, "cookie": middleware.CookieOnly,
	} {
		t.Run(name, func(t *testing.T) {
			cfg := contact(new(clock))
			cfg.TokenTransport = transport
			there, here := newLimiter(t, cfg), newLimiter(t, cfg)
			site := there.Handler(new(spy))
			show, shown := showing, func(r *http.Response) string { return tokenIn(r) }
			if transport == middleware.CookieOnly {
				show, shown = showingCookie, func(r *http.Response) string { return cookieIn(r).Value }
			}
			tok := ""
			for i := range 6 {
				left, allowed, got := int64(-1), false, ""
				if i%2 == 0 {
					resp := send(site, show(tok))
					kit.Must(fmt.Sscanf(resp.Header.Get("RateLimit"), `"contact";r=%d`, &left))(t)
					if allowed = resp.StatusCode == http.StatusOK; allowed {
						got = shown(resp)
					}
				} else {
					a := decided(t, here, middleware.Ask{Identity: visitor, Tokens: []string{"", tok}})
					require.Equal(t, 1, a.Tokens)
					require.NoError(t, a.TokenErr)
					left, allowed, got = a.Limits()[0].Remaining, a.Allowed, a.Token()
				}
				require.Equal(t, i < 5, allowed, "%d", i)
				require.EqualValues(t, max(0, 4-i), left)
				if allowed {
					tok = got
				}
			}
		})
	}
}

// An answer has the fields of a response, without those about responses.
func TestAnswerFields(t *testing.T) {
	changes := map[string]func(*middleware.Config){
		"plain":         func(*middleware.Config) {},
		"quiet":         func(cfg *middleware.Config) { cfg.Quiet = true },
		"without token": func(cfg *middleware.Config) { cfg.Quiet, cfg.TokenTransport = true, middleware.MemoryOnly },
		"shadow":        func(cfg *middleware.Config) { cfg.Shadow = true },
		"refused":       func(cfg *middleware.Config) { cfg.Limits[0].Quota, cfg.Limits[0].Window = 1, 9*time.Second },
		"shut": func(cfg *middleware.Config) {
			cfg.Limits[0].Quota, cfg.Limits[0].Window = 1, 9*time.Second
			cfg.Shadow = true
		},
	}
	for _, c := range choices() {
		changes[c.name] = func(cfg *middleware.Config) { cfg.Fields = c.fields }
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			cfg := contact(new(clock))
			change(&cfg)
			h, _ := limited(t, cfg)
			m := newLimiter(t, cfg)
			for range 3 {
				resp := send(h)
				want := map[string]string{}
				for name, lines := range resp.Header {
					switch name {
					case "Set-Cookie", "Cache-Control", "Content-Type", "Content-Length", "X-Content-Type-Options", "Vary":
					default:
						want[name] = lines[0]
					}
				}
				a := check(t, m, visitor, 1)
				require.Equal(t, want, maps.Collect(a.Fields()))
				require.Equal(t, want[middleware.TokenHeader], a.Token())
				for range a.Fields() {
					break // may be left early
				}
			}
		})
	}
}

// A Decide in a handler is a decision of its own: what the outer policy has decided about the
// request stays in the context, in the response and to be settled.
func TestDecideInsideOfAHandler(t *testing.T) {
	cfg := contact(new(clock))
	names := login(new(clock))
	m, inner := newLimiter(t, cfg), newLimiter(t, names)
	var a middleware.Answer
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before, ok := middleware.FromContext(r.Context())
		require.True(t, ok)
		var err error
		a = kit.Must(inner.Decide(r.Context(), middleware.Ask{Identity: middleware.Principal("alice")}))(t)
		kit.Must(inner.Decide(r.Context(), middleware.Ask{Identity: middleware.Principal("bob"), DryRun: true}))(t)
		again, err := m.Decide(r.Context(), middleware.Ask{Identity: visitor}) // and of the very policy
		require.NoError(t, err)
		require.EqualValues(t, 3, again.Limits()[0].Remaining)
		after, ok := middleware.FromContext(r.Context())
		require.True(t, ok)
		require.Equal(t, before.Policy, after.Policy)
		require.Equal(t, before.Limits(), after.Limits())
		middleware.Charge(r, true) // of the request, not of the Decide
		require.NoError(t, middleware.Refund(w, r))
		require.Error(t, middleware.Refund(w, r))
	}))
	resp := send(h)
	require.Equal(t, []string{`"contact";q=5;w=60`}, resp.Header["Ratelimit-Policy"])
	require.Equal(t, []string{`"contact";r=4;t=60`}, resp.Header["Ratelimit"])
	require.Len(t, resp.Header["Tallystick-Token"], 1)
	require.EqualValues(t, 4, peeked(t, m, visitor).Limits()[0].Remaining, "the request came back, the other did not")
	require.NoError(t, a.Settle(3), "no call has settled it")
	require.EqualValues(t, 9997, peeked(t, inner, middleware.Principal("alice")).Limits()[0].Remaining)
}

func TestAnswerSettle(t *testing.T) {
	m := newLimiter(t, contact(new(clock)))
	left := func() int64 { return peeked(t, m, visitor).Limits()[0].Remaining }
	a := check(t, m, visitor, 2)
	first := a.Token()
	require.EqualValues(t, 3, left())
	require.ErrorContains(t, a.Settle(-1), "cannot have cost -1")
	require.NoError(t, a.Settle(4))
	require.EqualValues(t, 1, left())
	require.NotEqual(t, first, a.Token(), "the token says it")
	require.Zero(t, decided(t, newLimiter(t, contact(new(clock))), middleware.Ask{Identity: visitor, Tokens: []string{a.Token()}}).Limits()[0].Remaining)
	require.Error(t, a.Settle(0), "once")
	b := check(t, m, visitor, 1)
	require.NoError(t, b.Settle(0))
	require.EqualValues(t, 1, left())
	refused := check(t, m, visitor, 2)
	require.False(t, refused.Allowed)
	require.Error(t, refused.Settle(0), "a refusal was charged nothing")
	require.Error(t, decided(t, m, middleware.Ask{Identity: visitor, DryRun: true}).Settle(1))
}

func TestShadowOutside(t *testing.T) {
	m := newLimiter(t, changed(contact(new(clock)), func(cfg *middleware.Config) { cfg.Shadow = true }))
	require.Equal(t, 9, allowed(t, m, visitor, 9))
	a := check(t, m, visitor, 1)
	require.True(t, a.Allowed)
	require.False(t, a.Admitted)
	require.Equal(t, middleware.OverLimit, a.Reason)
	require.True(t, peeked(t, m, visitor).Allowed)
	require.False(t, peeked(t, m, visitor).Admitted)
}

// On an exact route the counter decides: on all instances together, for requests and
// for what is asked. It is asked under the same key, so that each counts for both.
func TestCheckOnAnExactRoute(t *testing.T) {
	c, l, cfg := paidRoute()
	quota := int(cfg.Limits[0].Quota)
	one, two := newLimiter(t, cfg), newLimiter(t, cfg)
	passed := admitted(one.Handler(new(spy)), 2, from("203.0.113.1"))
	for range quota {
		passed += allowed(t, one, visitor, 1) + allowed(t, two, visitor, 1)
	}
	require.Equal(t, quota, passed)
	require.Len(t, l.Keys, 1)
	never := newLimiter(t, cfg) // has refused it
	calls := l.Count()
	require.False(t, peeked(t, never, visitor).Allowed)
	d := peeked(t, never, visitor)
	require.False(t, d.Allowed)
	require.Equal(t, calls+2, l.Count(), "what a Peek hears is not remembered")
	require.Equal(t, middleware.OverLimit, d.Reason)

	c.Advance(2 * cfg.Limits[0].Window)
	charged := l.Charged
	d = peeked(t, two, visitor)
	require.True(t, d.Allowed)
	require.EqualValues(t, quota, d.Limits()[0].Remaining)
	require.Equal(t, charged, l.Charged, "the counter took nothing")
	a := check(t, two, visitor, 3)
	require.EqualValues(t, quota-3, peeked(t, one, visitor).Limits()[0].Remaining)
	require.NoError(t, a.Settle(1))
	require.EqualValues(t, quota-1, peeked(t, one, visitor).Limits()[0].Remaining)
	require.ErrorIs(t, a.Settle(0), exact.ErrNoRefund)
}

// A context that ends while the counter is asked does not end the call: the answer is the counter's, and no outage.
func TestCheckWhoseContextEnds(t *testing.T) {
	_, l, cfg := paidRoute()
	ctx, end := context.WithCancel(t.Context())
	l.Fault = func(context.Context, int) error { end(); return nil }
	m := newLimiter(t, cfg)
	a, err := m.Decide(ctx, middleware.Ask{Identity: visitor})
	require.NoError(t, err)
	require.True(t, a.Allowed)
	require.False(t, a.Degraded)
	_, err = m.Decide(ctx, middleware.Ask{Identity: visitor})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, l.Count(), "an ended one charges nothing")
}

func TestCheckInAnOutage(t *testing.T) {
	for name, outage := range map[string]middleware.Outage{"FailOpen": middleware.FailOpen, "FailClosed": middleware.FailClosed} {
		t.Run(name, func(t *testing.T) {
			_, l, cfg := paidRoute()
			l.Fault = func(context.Context, int) error { return errEngine }
			l.PeekFault = errEngine
			cfg.Exact.Outage = outage
			m := newLimiter(t, cfg)
			open := outage == middleware.FailOpen
			for range 3 {
				d := peeked(t, m, visitor)
				require.True(t, d.Degraded)
				require.Equal(t, open, d.Allowed)
			}
			require.Zero(t, m.Stats().Fill)
			a := check(t, m, visitor, 1)
			require.True(t, a.Degraded)
			require.Equal(t, open, a.Allowed)
			require.Equal(t, "?1", maps.Collect(a.Fields())["Tallystick-Degraded"])
			if !open {
				require.Equal(t, middleware.CounterDown, a.Reason)
				require.Equal(t, http.StatusServiceUnavailable, a.Status)
				return
			}
			quota := int(cfg.Limits[0].Quota)
			require.Equal(t, quota-1, allowed(t, m, visitor, quota+5))
			require.False(t, peeked(t, m, visitor).Allowed)
		})
	}
}

// A challenge that was sent over HTTP is answered by metadata, and the other way round. A proof
// is good once, whichever way it comes.
func TestProofsOutside(t *testing.T) {
	t.Run("EveryRequest", func(t *testing.T) {
		m := newLimiter(t, challenging(new(clock), middleware.EveryRequest))
		h := m.Handler(new(spy))
		a := check(t, m, visitor, 1)
		require.Equal(t, middleware.NoToken, a.Reason)
		require.NotNil(t, a.Offered)
		require.Contains(t, maps.Collect(a.Fields())[middleware.ChallengeHeader], a.Offered.Text)
		proof := solve(t, *a.Offered)
		require.Equal(t, http.StatusOK, send(h, proving(proof)).StatusCode)
		again := decided(t, m, middleware.Ask{Identity: visitor, Proof: proof})
		require.False(t, again.Allowed)
		require.Equal(t, middleware.ProofReplayed, again.Proof)

		proof = solved(t, send(h))
		stranger := decided(t, m, middleware.Ask{Identity: address("198.51.100.1"), Proof: proof})
		require.False(t, stranger.Allowed)
		require.Equal(t, middleware.Reason("client-changed"), stranger.Proof)
		require.True(t, decided(t, m, middleware.Ask{Identity: visitor, Proof: "garbage, " + proof}).Allowed)
		require.NotEqual(t, http.StatusOK, send(h, proving(proof)).StatusCode)
	})
	t.Run("Newcomers", func(t *testing.T) {
		m := newLimiter(t, challenging(new(clock), middleware.Newcomers))
		a := check(t, m, visitor, 1)
		require.Equal(t, middleware.NoToken, a.Reason)
		proof := solve(t, *a.Offered)
		a = decided(t, m, middleware.Ask{Identity: visitor, Proof: proof})
		require.True(t, a.Allowed)
		require.True(t, a.Own)
		require.Equal(t, http.StatusOK, send(m.Handler(new(spy)), showing(a.Token())).StatusCode, "the tally is good over HTTP")
		left := a.Limits()[0].Remaining
		b := decided(t, m, middleware.Ask{Identity: visitor, Proof: proof})
		require.True(t, b.Own)
		require.Equal(t, left-2, b.Limits()[0].Remaining, "a proof that is shown again is the same tally")
		c := decided(t, m, middleware.Ask{Identity: visitor, Tokens: []string{a.Token()}})
		require.Equal(t, left-3, c.Limits()[0].Remaining, "an old token is no younger tally")
	})
}

// A dry run waits in no line, so a policy that has one answers it too.
func TestPeekBesideAConcurrency(t *testing.T) {
	m := newLimiter(t, changed(contact(new(clock)), func(cfg *middleware.Config) { cfg.Concurrency = &middleware.Concurrency{Max: 1} }))
	h := m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		d := kit.Must(m.Decide(r.Context(), middleware.Ask{Identity: visitor, DryRun: true}))(t)
		require.True(t, d.Allowed, "the one slot is the request's; the limits have room")
		require.EqualValues(t, 4, d.Limits()[0].Remaining)
	}))
	require.Equal(t, http.StatusOK, send(h).StatusCode)
}

// Forgiving: a client in a new thing begins anew on all instances at once, whatever token it
// shows, and the network around it does not.
func TestForgiving(t *testing.T) {
	cfg := contact(new(clock))
	one, two := newLimiter(t, cfg), newLimiter(t, cfg)
	id := address("2001:db8::1")
	require.Equal(t, 5, allowed(t, one, id, 9))
	tok := decided(t, two, middleware.Ask{Identity: id, Cost: 5}).Token()
	require.NotEmpty(t, tok)
	again := id.For("forgiven-1")
	require.Equal(t, id.Addr(), again.Addr())
	for _, m := range []*middleware.Middleware{one, two} {
		a := decided(t, m, middleware.Ask{Identity: again, Tokens: []string{tok}})
		require.True(t, a.Allowed)
		require.EqualValues(t, 4, a.Limits()[0].Remaining, "the old token counts for nothing")
		require.False(t, check(t, m, id, 1).Allowed, "the old tally is what it was")
	}
	passed := 0
	for i := range 50 {
		passed += allowed(t, one, id.For("forgiven-"+string(rune('A'+i))), 5)
	}
	require.Equal(t, 8*5-5-1, passed, "the /56 counts for all of it")
}

// The token of a log-in by user name says what became of it, whatever address it comes from, and a name has no part in another's
// failures. What is not said counts in the end, until it is. TestAnswerIsToldAnythingByAnybody has all orders of what may be said.
func TestLogInByName(t *testing.T) {
	c, alice, bob := new(clock), middleware.Principal("alice"), middleware.Principal("bob")
	cfg := login(c)
	m := newLimiter(t, cfg)
	elsewhere := func(a middleware.Answer) int64 {
		return decided(t, newLimiter(t, cfg), middleware.Ask{Identity: alice, Tokens: []string{a.Token()}}).Limits()[1].Remaining
	}
	try := check(t, m, alice, 1)
	require.EqualValues(t, 4, peeked(t, m, alice).Limits()[1].Remaining, "held")
	require.EqualValues(t, 4, elsewhere(try), "this very try, and no other")
	try.Charge(true)
	require.EqualValues(t, 3, elsewhere(try))
	try.Charge(false)
	require.EqualValues(t, 4, elsewhere(try))
	for range 5 {
		check(t, m, alice, 1).Charge(true)
	}
	refused := check(t, m, alice, 1)
	require.False(t, refused.Allowed)
	require.GreaterOrEqual(t, refused.RetryAfter, 59*time.Second)
	refused.Charge(false) // of a refusal there is nothing to say
	require.False(t, check(t, m, alice, 1).Allowed)

	unsaid := check(t, m, bob, 1)
	require.True(t, unsaid.Allowed)
	c.Advance(11 * time.Second)
	require.EqualValues(t, 4, peeked(t, m, bob).Limits()[1].Remaining, "charged")
	unsaid.Charge(false) // late, and the last word
	require.EqualValues(t, 5, peeked(t, m, bob).Limits()[1].Remaining)
}
