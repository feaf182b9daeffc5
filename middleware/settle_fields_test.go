// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/storeless"
)

// A moment is when a handler says what its request has cost.
var moments = map[string]func(t *testing.T, w http.ResponseWriter, say func()){
	"before": func(_ *testing.T, w http.ResponseWriter, say func()) {
		say()
		_, _ = w.Write([]byte("x"))
	},
	"before an early response": func(_ *testing.T, w http.ResponseWriter, say func()) {
		say()
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = w.Write([]byte("x"))
	},
	"after an early response": func(_ *testing.T, w http.ResponseWriter, say func()) {
		w.WriteHeader(http.StatusEarlyHints)
		say()
		_, _ = w.Write([]byte("x"))
	},
	"after a write": func(_ *testing.T, w http.ResponseWriter, say func()) {
		_, _ = w.Write([]byte("x"))
		say()
	},
	"after a flush": func(t *testing.T, w http.ResponseWriter, say func()) {
		require.NoError(t, http.NewResponseController(w).Flush())
		say()
	},
	"and writes nothing": func(_ *testing.T, _ http.ResponseWriter, say func()) { say() },
}

// What is settled or given back, and when, takes no field away: nothing is outside of the limiter.
func TestNoFieldIsLostBySettling(t *testing.T) {
	for when, moment := range moments {
		for what, say := range map[string]func(http.ResponseWriter, *http.Request) error{
			"more":    func(_ http.ResponseWriter, r *http.Request) error { return middleware.Settle(r, 40) },
			"less":    func(_ http.ResponseWriter, r *http.Request) error { return middleware.Settle(r, 4) },
			"nothing": middleware.Refund,
		} {
			for _, m := range []string{http.MethodGet, http.MethodPost} {
				for how, around := range map[string]func(h, in *middleware.Middleware, next http.Handler) http.Handler{
					"alone":   func(h, _ *middleware.Middleware, next http.Handler) http.Handler { return h.Handler(next) },
					"outside": func(h, in *middleware.Middleware, next http.Handler) http.Handler { return h.Handler(in.Handler(next)) },
					"inside":  func(h, in *middleware.Middleware, next http.Handler) http.Handler { return in.Handler(h.Handler(next)) },
				} {
					t.Run(what+" "+when+" "+m+" "+how, func(t *testing.T) {
						now := new(clock)
						cfg := contact(now)
						cfg.Limits[0].Quota = 100
						cfg.Cost = func(*http.Request) int64 { return 10 }
						log := logTo(&cfg)
						h := newLimiter(t, cfg)
						cfg.Policy = "other"
						in := newLimiter(t, cfg)
						now.Advance(time.Second)
						send(around(h, in, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							moment(t, w, func() { require.NoError(t, say(w, r)) })
						})), method(m))
						require.Empty(t, log.Lines())
					})
				}
			}
		}
	}
}

// What is settled before the header is in the RateLimit field, as in the token.
func TestRateLimitSaysWhatIsSettled(t *testing.T) {
	for name, change := range map[string]func(*middleware.Config){
		"fixed window":   func(*middleware.Config) {},
		"sliding window": func(cfg *middleware.Config) { cfg.Limits[0].Algorithm = storeless.SlidingWindow },
		"token bucket":   func(cfg *middleware.Config) { cfg.Limits[0].Algorithm = middleware.TokenBucket },
		"cookie alone":   func(cfg *middleware.Config) { cfg.TokenTransport = middleware.CookieOnly },
		"no token":       func(cfg *middleware.Config) { cfg.TokenTransport = middleware.HeaderOnly },
		"by outcome": func(cfg *middleware.Config) {
			cfg.Limits = append(cfg.Limits, middleware.Limit{Quota: 1000, Window: time.Hour})
			cfg.ByOutcome = &middleware.ByOutcome{Limits: []string{"contact"}, Free: []int{http.StatusTeapot}}
		},
		"exact": func(cfg *middleware.Config) {
			cfg.Exact = counting(memory.New(0, cfg.Now))
		},
		"exact, and down": func(cfg *middleware.Config) {
			l := newLedger(new(clock))
			l.Fault = onFire
			cfg.Exact = &middleware.Exact{Counter: l, Outage: middleware.FailOpen}
		},
	} {
		for _, m := range []string{http.MethodGet, http.MethodPost} {
			for settled, left := range map[int64]string{10: "90", 4: "96", 40: "60", 0: "100", 500: "0"} {
				t.Run(name+" "+m+" "+strconv.FormatInt(settled, 10), func(t *testing.T) {
					cfg := contact(new(clock))
					cfg.Limits[0].Quota = 100
					cfg.Cost = func(*http.Request) int64 { return 10 }
					cfg.Fields = middleware.RateLimitFields | middleware.XRateLimitInSeconds
					change(&cfg)
					h := newLimiter(t, cfg).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						require.NoError(t, middleware.Settle(r, settled))
						w.WriteHeader(http.StatusOK)
					}))
					resp := requireStatus(t, http.StatusOK, send(h, method(m)))
					require.Len(t, resp.Header.Values("RateLimit"), 1)
					require.Regexp(t, `"contact";r=`+left+"\\b", resp.Header.Get("RateLimit"))
					require.Equal(t, []string{left}, resp.Header.Values("X-RateLimit-Remaining"))
					require.Len(t, resp.Header.Values("RateLimit-Policy"), 1)
				})
			}
		}
	}
}

// Each policy of a stack has its line, and that of the innermost says what was settled.
func TestRateLimitOfAStackSaysWhatIsSettled(t *testing.T) {
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		_, _, h := stack(t, new(clock), plain, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			require.NoError(t, middleware.Settle(r, 2))
			w.WriteHeader(http.StatusOK)
		}))
		resp := send(h, method(m))
		require.Equal(t, []string{`"site";r=6;t=60`, `"page";r=0;t=60`}, resp.Header.Values("RateLimit"), m)
		require.Len(t, resp.Header.Values(middleware.TokenHeader), 2)
		require.Len(t, resp.Cookies(), 2)
	}
}

// An early response carries no field of ours, whatever was settled before.
func TestEarlyResponsesAfterSettling(t *testing.T) {
	raw := &writer{header: http.Header{}}
	through(t, raw, http.MethodPost, func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, middleware.Settle(r, 3))
		w.WriteHeader(http.StatusEarlyHints)
		require.Equal(t, http.Header{"Transfer-Encoding": nil}, raw.sent, "without a line")
		raw.sent = nil
		w.WriteHeader(http.StatusOK)
		require.Len(t, raw.sent.Values(middleware.TokenHeader), 1)
		require.Len(t, raw.sent.Values("RateLimit"), 1)
	})
}

// A quiet policy tells no numbers, after a settlement neither.
func TestQuietAfterSettling(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Quiet = true
	h := newLimiter(t, cfg).Handler(settling(t, false))
	require.Empty(t, send(h, method(http.MethodGet), settles(2)).Header.Values("RateLimit"))
}
