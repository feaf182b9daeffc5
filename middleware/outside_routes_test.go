// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
)

// Of a log-in by user name failures alone count, whatever address they come from: right passwords
// leave nothing, and what nobody has said anything of counts in the end.
func TestLogInByName(t *testing.T) {
	c := new(clock)
	alice := middleware.Principal("alice")
	failuresLeft := func(m *middleware.Middleware) int64 { return peeked(t, m, alice).Limits()[1].Remaining }
	t.Run("wrong ones count", func(t *testing.T) {
		m := newLimiter(t, login(c))
		for left := int64(4); left >= 0; left-- {
			try := check(t, m, alice, 1)
			require.True(t, try.Allowed)
			try.Charge(true)
			try.Charge(true) // once
			require.Equal(t, left, failuresLeft(m))
		}
		try := check(t, m, alice, 1)
		require.False(t, try.Allowed)
		require.GreaterOrEqual(t, try.RetryAfter, 59*time.Second)
		try.Charge(false) // of a refusal there is nothing to say
		require.False(t, check(t, m, alice, 1).Allowed)
		require.True(t, check(t, m, middleware.Principal("bob"), 1).Allowed)
	})
	t.Run("right ones do not", func(t *testing.T) {
		m := newLimiter(t, login(c))
		for range 20 {
			try := check(t, m, alice, 1)
			require.True(t, try.Allowed)
			try.Charge(false)
		}
		require.EqualValues(t, 5, failuresLeft(m))
		require.EqualValues(t, 10_000-20, peeked(t, m, alice).Limits()[0].Remaining, "an attempt is one in either case")
	})
	t.Run("unsaid", func(t *testing.T) {
		c := new(clock)
		m := newLimiter(t, login(c))
		try := check(t, m, alice, 1)
		require.EqualValues(t, 4, failuresLeft(m), "held")
		c.Advance(11 * time.Second)
		require.EqualValues(t, 4, failuresLeft(m), "charged")
		try.Charge(false) // late, and the last word
		require.EqualValues(t, 5, failuresLeft(m))
	})
	t.Run("the token says it", func(t *testing.T) {
		m := newLimiter(t, login(c))
		elsewhere := func(a middleware.Answer) int64 {
			return decided(t, newLimiter(t, login(c)), middleware.Ask{Identity: alice, Tokens: []string{a.Token()}}).Limits()[1].Remaining
		}
		try := check(t, m, alice, 1)
		require.EqualValues(t, 4, elsewhere(try), "this very try, and no other")
		try.Charge(true)
		require.EqualValues(t, 3, elsewhere(try))
		try.Charge(false)
		require.EqualValues(t, 4, elsewhere(try))
	})
	t.Run("a try for more", func(t *testing.T) {
		m := newLimiter(t, login(c))
		try := check(t, m, alice, 1)
		require.NoError(t, try.Settle(3))
		try.Charge(true)
		require.EqualValues(t, 2, failuresLeft(m))
		require.EqualValues(t, 10_000-3, peeked(t, m, alice).Limits()[0].Remaining)
	})
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
		cfg := challenging(new(clock), middleware.Newcomers)
		m := newLimiter(t, cfg)
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

// What nobody waits in line for is not asked of a policy that has a line.
func TestPeekBesideAConcurrency(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Concurrency = &middleware.Concurrency{Max: 1}
	m := newLimiter(t, cfg)
	h := m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		d, err := m.Decide(r.Context(), middleware.Ask{Identity: visitor, DryRun: true})
		require.NoError(t, err)
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

// Nobody carries the token of a name, so each of two instances tries five wrong passwords of
// docs/api.md; with a counter five pass together. Right ones are free on both.
func TestWrongPasswordsOfANameOnTwoInstances(t *testing.T) {
	ann := middleware.Principal("ann")
	for _, test := range []struct {
		name  string
		on    func(cfg *middleware.Config)
		right func(t *testing.T, try middleware.Answer)
		wrong func(try middleware.Answer)
		tried int
	}{
		{
			name:  "by outcome",
			on:    func(*middleware.Config) {},
			right: func(_ *testing.T, try middleware.Answer) { try.Charge(false) },
			wrong: func(try middleware.Answer) { try.Charge(true) },
			tried: 10,
		},
		{
			name: "by an exact counter",
			on: func(cfg *middleware.Config) {
				cfg.Limits, cfg.ByOutcome = cfg.Limits[1:], nil
				cfg.Exact = counting(memory.New(0, cfg.Now))
			},
			right: func(t *testing.T, try middleware.Answer) { require.NoError(t, try.Settle(0)) },
			wrong: func(middleware.Answer) {},
			tried: 5,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := login(new(clock))
			cfg.ByOutcome = &middleware.ByOutcome{Limits: []string{"failures"}}
			cfg.Limits[1].Window = 15 * time.Minute
			test.on(&cfg)
			instances := [2]*middleware.Middleware{newLimiter(t, cfg), newLimiter(t, cfg)}
			for i := range 20 {
				try := check(t, instances[i%2], ann, 1)
				require.True(t, try.Allowed, "a right password, after %d others", i)
				test.right(t, try)
			}
			tried := 0
			for i := range 20 {
				if try := check(t, instances[i%2], ann, 1); try.Allowed {
					test.wrong(try)
					tried++
				}
			}
			require.Equal(t, test.tried, tried)
			for _, m := range instances {
				require.False(t, check(t, m, ann, 1).Allowed)
				require.True(t, check(t, m, middleware.Principal("bob"), 1).Allowed, "another name")
			}
		})
	}
}
