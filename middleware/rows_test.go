// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// What rows are made of: configurations, checks of what came of the last request, and what happens before one.

func limiting(changes ...change) setup { return by(contact, changes...) }

// working asks for work, and byCounter asks the ledger of the scene.
func working(mode middleware.Mode, changes ...change) setup {
	return by(func(c *clock) middleware.Config { return challenging(c, mode) }, changes...)
}

// roomed has a waiting room.
func roomed(mode middleware.Mode, changes ...change) setup {
	return by(func(c *clock) middleware.Config { return waiting(c, mode) }, changes...)
}

func byCounter(changes ...change) setup {
	return func(s *scene) middleware.Config {
		return by(func(c *clock) middleware.Config { return paid(c, s.ledger) }, changes...)(s)
	}
}

// serving has a setup with a handler of its own.
func (f setup) serving(h http.HandlerFunc) setup {
	return func(s *scene) middleware.Config {
		s.handler = h
		return f(s)
	}
}

func own(s *scene)    { require.True(s, s.decision().Own) }
func shared(s *scene) { require.False(s, s.decision().Own) }

func noChallenge(s *scene) { requireNoChallenge(s, s.answer()) }

// work is what the answer's challenge asks for.
func work(n int) func(*scene) {
	return func(s *scene) { require.EqualValues(s, n, challengeIn(s, s.answer()).Work) }
}

// calls are those that the counter has been asked by now, charged is what it has counted, and passed how often the handler was reached.
func calls(n int) func(*scene) { return func(s *scene) { require.Equal(s, n, s.ledger.Count()) } }
func charged(n int) func(*scene) {
	return func(s *scene) { require.EqualValues(s, n, s.ledger.Charged) }
}
func passed(n int) func(*scene) {
	return func(s *scene) { require.EqualValues(s, n, s.site.Spy.Calls.Load()) }
}

// told are the codes of the log by now, and says is a part of the body.
func told(codes ...string) func(*scene) {
	return func(s *scene) { require.Equal(s, codes, codesIn(s.site.Log.Lines())) }
}

func says(text string) func(*scene)  { return func(s *scene) { require.Contains(s, s.body, text) } }
func lacks(text string) func(*scene) { return func(s *scene) { require.NotContains(s, s.body, text) } }

// because is the reason that a refusal's body names.
func because(reason middleware.Reason) func(*scene) {
	return func(s *scene) { require.Equal(s, reason, problemIn(s, s.answer()).Reason) }
}

// typed is the type of a refusal's body.
func typed(as string) func(*scene) {
	return func(s *scene) { require.Equal(s, as, problemIn(s, s.answer()).Type) }
}

// tells is how many lines of the log have a code.
func tells(code string, n int) func(*scene) {
	return func(s *scene) { require.Equal(s, n, s.site.Log.Count("code="+code+" "), code) }
}

func waitsAtMost(d time.Duration) func(*scene) {
	return func(s *scene) { require.LessOrEqual(s, retryAfter(s, s.last), d) }
}

// fails is what the counter does from now on before it counts a call; nil: nothing.
func fails(fault func(context.Context, int) error) func(*scene) {
	return func(s *scene) { s.ledger.Fault = fault }
}

// would is what shadow mode lets pass: the status that it would have had; 0 is none.
func would(status int) func(*scene) {
	return func(s *scene) {
		require.Empty(s, s.last.Header.Values("Retry-After"))
		d := s.decision()
		require.Equal(s, []any{true, status == 0, status}, []any{d.Allowed, d.Admitted, d.Status})
	}
}

// remain are what is left of the limits, in turn.
func remain(want ...int64) func(*scene) {
	return func(s *scene) {
		var left []int64
		for _, l := range s.decision().Limits() {
			left = append(left, l.Remaining)
		}
		require.Equal(s, want, left)
	}
}

// tokens are how many were looked at, and the error of the last that was not accepted.
func tokens(n int, err error) func(*scene) {
	return func(s *scene) {
		require.Equal(s, n, s.decision().Tokens)
		require.Equal(s, err, s.decision().TokenErr)
	}
}

func err(err error) func(*scene) {
	return func(s *scene) { require.Equal(s, err, s.decision().TokenErr) }
}

// becomes gives the first instance another configuration: the scene's, changed.
func becomes(changes ...change) func(*scene) {
	return func(s *scene) {
		s.cfg.Limits = slices.Clone(s.cfg.Limits)
		if s.cfg.Challenge != nil {
			c := *s.cfg.Challenge
			s.cfg.Challenge = &c
		}
		for _, change := range changes {
			change(&s.cfg)
		}
		cfg := s.cfg
		cfg.Logger = slog.New(slog.NewTextHandler(s.at(0).Log, nil))
		s.at(0).To(s, cfg)
	}
}

func signedBy(names ...string) change {
	return func(cfg *middleware.Config) {
		cfg.Secrets = nil
		for _, name := range names {
			cfg.Secrets = append(cfg.Secrets, secret(name))
		}
	}
}

// unaddressed is a request by a socket without an address.
func unaddressed(r *http.Request) { r.RemoteAddr = "@" }

// exhausting uses up what a mode gives without work.
func exhausting(mode middleware.Mode, as ...option) step {
	if mode == middleware.WhenExhausted {
		return step{times: 5, as: both(as...), want: 200}
	}
	return step{}
}

// same checks that the last token equals the named one, byte for byte.
func same(name string) func(*scene) {
	return func(s *scene) { require.Equal(s, s.tokens[name], tokenIn(s.last)) }
}

// Requests of the endpoints.
var toFetch, toRedeem = both(method(http.MethodGet), path("/tally/challenge")), path("/tally/redeem")

func costly(cfg *middleware.Config)  { cfg.Cost = costOf }
func quietly(cfg *middleware.Config) { cfg.Quiet = true }

// both changes a request by each in turn.
func both(options ...option) option {
	return func(r *http.Request) {
		for _, o := range options {
			o(r)
		}
	}
}

// buys has a client buy a tally of the first instance; the first token has the name.
func buys(name string, as ...option) func(*scene) {
	return func(s *scene) { s.tokens[name] = bought(s, s.at(0), as...) }
}
