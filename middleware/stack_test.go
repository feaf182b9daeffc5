// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// stack puts the limiter of a site around that of a page.
func stack(t *testing.T, now *clock, between func(http.Handler) http.Handler, handler http.Handler) (site, page *middleware.Middleware, h http.Handler) {
	cfg := contact(now)
	cfg.Policy, cfg.Limits[0].Quota = "site", 7
	site = newLimiter(t, cfg)
	cfg = contact(now)
	cfg.Policy, cfg.Limits[0].Quota = "page", 2
	page = newLimiter(t, cfg)
	return site, page, site.Handler(between(page.Handler(handler)))
}

func plain(h http.Handler) http.Handler { return h }

// Where several middlewares are stacked, each policy has its line in the
// response, and its cookie, whatever the method and whoever writes.
func TestStackedPolicies(t *testing.T) {
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		for name, handler := range map[string]http.HandlerFunc{
			"writes":         func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") },
			"writes nothing": func(http.ResponseWriter, *http.Request) {},
			"has an error":   func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 400) },
		} {
			t.Run(m+" "+name, func(t *testing.T) {
				_, _, h := stack(t, new(clock), plain, handler)
				resp := send(h, method(m))
				require.Equal(t, []string{`"site";r=6;t=60`, `"page";r=1;t=60`}, resp.Header.Values("RateLimit"))
				require.Equal(t, []string{`"site";q=7;w=60`, `"page";q=2;w=60`}, resp.Header.Values("RateLimit-Policy"))
				require.Len(t, resp.Header.Values(middleware.TokenHeader), 2)
				require.Len(t, resp.Cookies(), 2)
				require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
				require.Len(t, structured(t, resp.Header.Values("RateLimit"), "r", "t"), 2)

				again := send(h, method(m), showing(resp.Header.Values(middleware.TokenHeader)...))
				require.Equal(t, []string{`"site";r=5;t=60`, `"page";r=0;t=60`}, again.Header.Values("RateLimit"))
			})
		}
	}
	t.Run("the inner one refuses, and neither has charged", func(t *testing.T) {
		site, _, h := stack(t, new(clock), plain, new(spy))
		require.Equal(t, 2, admitted(h, 2))
		for _, m := range []string{http.MethodGet, http.MethodPost} {
			resp := requireStatus(t, http.StatusTooManyRequests, send(h, method(m)))
			require.Equal(t, []string{`"site";r=5;t=60`, `"page";r=0;t=60`}, resp.Header.Values("RateLimit"))
			require.Len(t, resp.Header.Values("Retry-After"), 1)
			require.Contains(t, bodyOf(t, resp), `["page"]`)
			require.Len(t, resp.Header.Values(middleware.TokenHeader), 1, "that of the outer one")
		}
		require.Equal(t, 5, admitted(site.Handler(new(spy)), 9))
		require.Equal(t, []string{`"site";r=0;t=60`}, send(h).Header.Values("RateLimit"), "and now the outer one refuses")
	})
	t.Run("public responses carry nothing of either", func(t *testing.T) {
		_, _, h := stack(t, new(clock), plain, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Cache-Control", "public, max-age=60")
			_, _ = io.WriteString(w, "ok")
		}))
		resp := send(h, method(http.MethodGet))
		require.Equal(t, "public, max-age=60", resp.Header.Get("Cache-Control"))
		for _, name := range []string{"RateLimit", "RateLimit-Policy", middleware.TokenHeader, "Set-Cookie"} {
			require.Empty(t, resp.Header.Values(name), name)
		}
	})
	t.Run("something in between clears the header", func(t *testing.T) {
		clearing := func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(w, r)
				clear(w.Header())
			})
		}
		_, _, h := stack(t, new(clock), clearing, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		resp := send(h, method(http.MethodGet))
		require.Len(t, resp.Header.Values("RateLimit"), 2)
	})
	t.Run("a timeout in between leaves the inner one behind", func(t *testing.T) {
		slow, release := stuck(plain)
		_, _, h := stack(t, new(clock), timeout, slow)
		resp := send(h, method(http.MethodGet))
		release()
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		require.Contains(t, resp.Header.Values("RateLimit"), `"site";r=6;t=60`)
	})
	t.Run("a handler in between serves several requests", func(t *testing.T) {
		batch := func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var group sync.WaitGroup
				for i := range 4 {
					group.Go(func() {
						resp := send(h, from(fmt.Sprintf("198.51.100.%d", i)), costing(int64(i)), func(part *http.Request) {
							*part = *part.WithContext(r.Context())
						})
						if lines := resp.Header.Values("RateLimit"); len(lines) != 1 || !strings.Contains(lines[0], fmt.Sprintf("r=%d", 9-i)) {
							t.Errorf("part %d: %q", i, lines)
						}
					})
				}
				group.Wait()
				w.WriteHeader(http.StatusOK)
			})
		}
		site, _, _ := stack(t, new(clock), plain, new(spy))
		cfg := contact(new(clock))
		cfg.Policy, cfg.Limits[0].Quota, cfg.Cost = "part", 9, costOf
		h := site.Handler(batch(newLimiter(t, cfg).Handler(new(spy))))
		require.Equal(t, http.StatusOK, send(h, method(http.MethodGet)).StatusCode)
	})
	t.Run("X-RateLimit is the inner one's", func(t *testing.T) {
		now := new(clock)
		outer, inner := contact(now), contact(now)
		outer.Fields, inner.Fields = middleware.RateLimitFields|middleware.XRateLimitInSeconds, middleware.RateLimitFields|middleware.XRateLimitInSeconds
		inner.Policy, inner.Limits[0].Quota = "page", 2
		h := newLimiter(t, outer).Handler(newLimiter(t, inner).Handler(new(spy)))
		require.Equal(t, []string{"2"}, send(h, method(http.MethodGet)).Header.Values("X-RateLimit-Limit"))
	})
}

func TestInnermostDecisionCounts(t *testing.T) {
	_, _, h := stack(t, new(clock), plain, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		d, ok := middleware.FromContext(r.Context())
		require.True(t, ok)
		require.Equal(t, "page", d.Policy)
	}))
	require.Equal(t, http.StatusOK, send(h).StatusCode)
}

// One Middleware may guard several routes, which then share its counts.
func TestOneMiddlewareForSeveralHandlers(t *testing.T) {
	m := newLimiter(t, contact(new(clock)))
	a, b := m.Handler(new(spy)), m.Handler(new(spy))
	require.Equal(t, 3, admitted(a, 3))
	require.Equal(t, 2, admitted(b, 10))
	require.Equal(t, 0, admitted(a, 3))
}

// A wrapped writer is another program's, which can be unwrapped.
type wrappedWriter struct{ http.ResponseWriter }

func (w wrappedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// wrapping has handlers get another writer.
func wrapping(wrap func(http.ResponseWriter) http.ResponseWriter) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(wrap(w), r) })
	}
}

// hidden hides a writer, as many loggers do: it cannot be unwrapped.
func hidden(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	})
}

// TestPoliciesOfAnAddressAndOfAKey: whatever hides the writer of the outer one, and whoever each takes the client for.
func TestPoliciesOfAnAddressAndOfAKey(t *testing.T) {
	for name, between := range map[string]func(http.Handler) http.Handler{
		"nothing between":     plain,
		"a hidden writer":     hidden,
		"a timeout":           func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Hour, "") },
		"a writer that shows": wrapping(func(w http.ResponseWriter) http.ResponseWriter { return wrappedWriter{w} }),
		"another URL":         func(h http.Handler) http.Handler { return hidden(http.StripPrefix("/", h)) },
	} {
		for _, m := range []string{http.MethodGet, http.MethodPost} {
			for _, key := range []bool{true, false} {
				t.Run(fmt.Sprint(name, m, key), func(t *testing.T) {
					site, page := contact(new(clock)), contact(new(clock))
					site.Policy, page.Policy = "site", "page"
					page.Limits[0].Quota = 1
					if key {
						page.Identity = only(middleware.APIKey("k"))
					}
					h := newLimiter(t, site).Handler(between(newLimiter(t, page).Handler(new(spy))))
					resp := requireStatus(t, http.StatusOK, send(h, method(m)))
					require.Equal(t, []string{`"site";r=4;t=60`, `"page";r=0;t=60`}, resp.Header.Values("RateLimit"))
					require.Equal(t, []string{`"site";q=5;w=60`, `"page";q=1;w=60`}, resp.Header.Values("RateLimit-Policy"))
					require.Len(t, resp.Header.Values(middleware.TokenHeader), 2)
					require.Len(t, resp.Cookies(), 2)
					require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))

					resp = requireStatus(t, http.StatusTooManyRequests, send(h, method(m), showing(resp.Header.Values(middleware.TokenHeader)...)))
					require.Len(t, resp.Header.Values("RateLimit"), 2)
					require.Len(t, resp.Header.Values("Retry-After"), 1)
				})
			}
		}
	}
}

// TestPartsOfABatchAreOfTheirClients: a handler serves requests of other clients with the context of the one that asks. What their
// policy says of each is for that one alone, and takes nothing from the one that asks.
func TestPartsOfABatchAreOfTheirClients(t *testing.T) {
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		for _, own := range []bool{true, false} {
			t.Run(fmt.Sprint(m, own), func(t *testing.T) {
				now := new(clock)
				cfg := challenging(now, middleware.WhenExhausted)
				cfg.Policy, cfg.ByOutcome = "part", nil
				part := newLimiter(t, cfg)
				endpoints := part.Endpoints()
				theirs := bought(t, endpoints, from("198.51.100.7"))
				var answers []*http.Response
				batch := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					within := func(sub *http.Request) { *sub = *sub.WithContext(r.Context()) }
					answers = append(answers, send(part.Handler(new(spy)), from("198.51.100.7"), showing(theirs), within),
						send(part.Handler(new(spy)), from("198.51.100.8"), within),
						fetched(endpoints, from("198.51.100.9"), within),
						redeemed(endpoints, solved(t, fetched(endpoints, from("198.51.100.9"))), from("198.51.100.9"), within))
					w.WriteHeader(http.StatusOK)
				}))
				want := []string{`"site";r=6;t=60`}
				if own {
					batch, want = part.Handler(batch), append(want, `"part";r=4;t=60`)
				}
				site := contact(now)
				site.Policy, site.Limits[0].Quota = "site", 7
				resp := send(newLimiter(t, site).Handler(batch), method(m))
				require.Equal(t, want, resp.Header.Values("RateLimit"))
				require.Len(t, resp.Header.Values(middleware.TokenHeader), len(want))
				require.Len(t, resp.Cookies(), len(want))
				for i, tok := range resp.Header.Values(middleware.TokenHeader) {
					require.Empty(t, claimsIn(t, tok).Fam, i)
				}
				for i, answer := range answers {
					require.Equal(t, http.StatusOK, answer.StatusCode, i)
					require.LessOrEqual(t, len(answer.Header.Values(middleware.TokenHeader)), 1, i)
					require.LessOrEqual(t, len(answer.Header.Values("RateLimit")), 1, i)
				}
				require.Contains(t, answers[0].Header.Get("RateLimit"), `"part";r=4`)
			})
		}
	}
}

// TestPartsOfABatchAreNoOutcomeOfIt: what a part of a batch says of its own outcome is not said of the batch.
func TestPartsOfABatchAreNoOutcomeOfIt(t *testing.T) {
	now := new(clock)
	outer, part := newLimiter(t, login(now)), login(now)
	part.Policy = "part"
	parts := newLimiter(t, part).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		middleware.Charge(r, false)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	h := outer.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		send(parts, from("198.51.100.7"), func(sub *http.Request) { *sub = *sub.WithContext(r.Context()) })
		w.WriteHeader(http.StatusUnauthorized)
	}))
	for range 5 {
		requireStatus(t, http.StatusUnauthorized, send(h))
	}
	requireStatus(t, http.StatusTooManyRequests, send(h))
}
