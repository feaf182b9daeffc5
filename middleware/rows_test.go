// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/storeless"
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

// becomes gives the first instance another configuration: that of the scene, changed.
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
func exhausting(mode middleware.Mode) step {
	if mode == middleware.WhenExhausted {
		return step{times: 5, want: 200}
	}
	return step{}
}

// same is a token that is that of a name, byte for byte.
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

const planted = "planted" // by what is around

// playHostile plays scenarios inside of middleware that plants and edits fields, by a method whose responses are guarded
// and by one whose are not, and checks what holds for every response.
func playHostile(t *testing.T, scenarios []scenario) {
	for _, s := range scenarios {
		for _, m := range []string{http.MethodPost, http.MethodGet} {
			t.Run(s.name+"/"+m, func(t *testing.T) {
				requests, admitted := 0, 0
				in := &scene{T: t, around: handlers.Hostile, common: method(m)}
				in.each = func(s *scene, is step) {
					requests++
					for name := range is.fields {
						require.LessOrEqual(t, len(s.last.Header.Values(name)), 1, name)
					}
					handlers.RequireRetry(t, s.last, is.retry)
					require.Contains(t, s.last.Header.Values("Set-Cookie"), "session=1")
					require.Contains(t, s.last.Header.Values("Vary"), "Origin")
					stored := "private, max-age=600" // as it was before
					if s.last.StatusCode != http.StatusOK {
						stored = "no-store"
					}
					require.Equal(t, []string{stored}, s.last.Header.Values("Cache-Control"))
					require.Len(t, s.site.Decisions.All, requests, "OnDecision is called once for each request")
					admitted += boolToInt(s.last.StatusCode == http.StatusOK)
					passed(admitted)(s)
				}
				s.play(in)
			})
		}
	}
}

func limits(all ...middleware.Limit) func(*middleware.Config) {
	return func(cfg *middleware.Config) { cfg.Limits = all }
}

// ok and no are the steps of most of them: what RateLimit says, and the wait.
func ok(rateLimit string) step {
	return step{want: 200, fields: fields{"RateLimit": rateLimit, middleware.TokenHeader: anything}}
}

func no(rateLimit string, retry int) step {
	return step{want: 429, retry: retry, fields: fields{"RateLimit": rateLimit, middleware.TokenHeader: planted}}
}

func (s step) later(d time.Duration) step     { s.after = d; return s }
func (s step) asking(o option) step           { s.as = o; return s }
func (s step) expect(name, value string) step { s.fields[name] = value; return s }

func TestAlgorithms(t *testing.T) {
	playHostile(t, []scenario{
		{"fixed window", limiting(), []step{
			ok(`"contact";r=4;t=60`).expect("RateLimit-Policy", `"contact";q=5;w=60`),
			ok(`"contact";r=3;t=60`), ok(`"contact";r=2;t=60`), ok(`"contact";r=1;t=60`),
			ok(`"contact";r=0;t=30`).later(30 * time.Second),
			no(`"contact";r=0;t=30`, 30).expect("RateLimit-Policy", `"contact";q=5;w=60`),
			ok(`"contact";r=4;t=60`).later(30 * time.Second),
		}},
		{"sliding window", limiting(limits(middleware.Limit{Quota: 5, Window: time.Minute})), []step{
			// Five of the window before weigh 5·(60−e)/60: after 12 s, four.
			ok(`"contact";r=4;t=120`), ok(`"contact";r=3;t=90`), ok(`"contact";r=2;t=80`),
			ok(`"contact";r=1;t=75`), ok(`"contact";r=0;t=72`),
			no(`"contact";r=0;t=72`, 72),
			no(`"contact";r=0;t=1`, 1).later(71 * time.Second),
			ok(`"contact";r=0;t=12`).later(time.Second),
		}},
		{"token bucket", limiting(limits(middleware.Limit{Algorithm: middleware.TokenBucket, Quota: 60, Window: time.Minute, Burst: 2})), []step{
			ok(`"contact";r=1;t=1`).expect("RateLimit-Policy", `"contact";q=2;w=2`),
			ok(`"contact";r=0;t=1`),
			no(`"contact";r=0;t=1`, 1),
			ok(`"contact";r=0;t=1`).later(time.Second),
		}},
		{"leaky bucket", limiting(limits(middleware.Limit{Algorithm: storeless.LeakyBucket, Quota: 6, Window: time.Minute})), []step{
			ok(`"contact";r=0;t=10`).expect("RateLimit-Policy", `"contact";q=1;w=10`),
			no(`"contact";r=0;t=10`, 10),
			ok(`"contact";r=0;t=10`).later(10 * time.Second),
		}},
		{"several at once, all or nothing", limiting(limits(fixed(2, time.Minute), fixed(3, time.Hour))), []step{
			ok(`"contact";r=1;t=60, "contact-1h";r=2;t=3600`).expect("RateLimit-Policy", `"contact";q=2;w=60, "contact-1h";q=3;w=3600`),
			ok(`"contact";r=0;t=60, "contact-1h";r=1;t=3600`),
			// The hour is not charged by what the minute refuses, and gives no t that lies beyond Retry-After.
			no(`"contact";r=0;t=60, "contact-1h";r=1`, 60),
			ok(`"contact";r=1;t=60, "contact-1h";r=0;t=3540`).later(time.Minute),
			no(`"contact";r=1, "contact-1h";r=0;t=3540`, 3540),
		}},
	})
}
