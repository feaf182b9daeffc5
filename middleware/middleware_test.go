// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

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
		require.Zero(t, *m.Stats().Counter, "a counter that nobody has asked yet")
	})
}
