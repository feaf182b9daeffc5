// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// siteWide is a policy around all of a site, and what is below it: a page, and with inside its own endpoints too.
func siteWide(t testing.TB, cfg middleware.Config, inside bool) (m *middleware.Middleware, h http.Handler, mux *http.ServeMux, page *spy) {
	t.Helper()
	m, mux, page = newLimiter(t, cfg), http.NewServeMux(), new(spy)
	mux.Handle("/", page)
	if inside {
		mux.Handle(cfg.Challenge.Path, m.Endpoints())
	}
	return m, m.Handler(mux), mux, page
}

// A policy around a whole site must not lock its own door: what a refusal names, and what its page loads, is
// answered to a client that is refused everything else, whether or not the endpoints are inside too.
func TestAPolicyNeverLimitsItsOwnEndpoints(t *testing.T) {
	inAllModes(t, func(t *testing.T, mode middleware.Mode) {
		for name, inside := range map[string]bool{"endpoints inside": true, "Handler alone": false} {
			t.Run(name, func(t *testing.T) {
				cfg := waiting(new(clock), mode)
				log, decisions := logTo(&cfg), record(&cfg)
				m, h, _, page := siteWide(t, cfg, inside)
				spendShared(t, h, mode)
				require.NotEqual(t, http.StatusOK, send(h).StatusCode)
				before, served := len(decisions.All), page.Calls.Load()

				for _, url := range []string{m.ScriptURL(), m.StyleURL(), "/tally/tally.js", "/tally/fetch.js", "/tally/solver.js", "/tally/page.js", "/tally/page.css", "/tally/ticket"} {
					for range 20 { // more than any quota
						require.Equal(t, http.StatusOK, send(h, method("GET"), path(url)).StatusCode, url)
					}
				}
				require.Equal(t, http.StatusMethodNotAllowed, send(h, path("/tally/tally.js")).StatusCode, "no POST passes by that name")
				require.Equal(t, http.StatusMethodNotAllowed, send(h, path("/tally/challenge")).StatusCode)
				resp := requireStatus(t, http.StatusOK, fetched(h))
				require.Empty(t, resp.Header.Get("RateLimit-Policy"), "it is none of the policy's requests")
				require.Equal(t, http.StatusForbidden, redeemed(h, "x").StatusCode)
				resp = requireStatus(t, http.StatusOK, redeemed(h, solved(t, resp)))
				require.Len(t, decisions.All, before, "the endpoints are no part of the policy")
				require.Equal(t, served, page.Calls.Load(), "and nothing behind it has run")
				require.Equal(t, http.StatusOK, send(h, func(r *http.Request) { r.AddCookie(resp.Cookies()[0]) }).StatusCode, "the way in")
				require.Empty(t, log.Lines())
			})
		}
	})
}

// What is not one of these URLs is limited, however much its path looks like one: nothing reaches a handler
// uncounted by its path.
func TestNoPathPassesUncounted(t *testing.T) {
	for _, p := range []string{
		"/tally", "/tally/", "/tally/contact", "/tally/challenge/", "/tally/challenge/x", "/tally//challenge", "//tally/challenge", "/tally/../contact",
		"/tally/../tally/challenge", "/tally/challenge/../../contact", "/tally/x/../challenge", "/tally/./challenge", "/tally/Challenge", "/Tally/challenge",
		"/tally/challenge;x", "/tally/challenge ", "/tally/challenge\x00", "/tally/%2e%2e/contact", "/tally/challenge%2f..", "/tally\\challenge", "/tally/\\challenge",
		"/tally/tally.js/contact", "/tally/0123456789abcdef/", "/tally/0123456789abcdef/contact", "/tally/0123456789abcdef/../tally.js", "/x/tally/challenge", "tally/challenge", "",
	} {
		cfg := contact(new(clock))
		forms(middleware.WhenExhausted)(&cfg)
		cfg.Challenge.Path = "/tally/"
		page := new(spy)
		h := newLimiter(t, cfg).Handler(page) // which looks at no path
		require.Equal(t, 5, admitted(h, 9, path(p)), "%q", p)
		require.EqualValues(t, 5, page.Calls.Load(), "%q", p)
	}
	// As a server reads them off the wire: what is escaped is the same path, or none of these.
	cfg := contact(new(clock))
	forms(middleware.WhenExhausted)(&cfg)
	cfg.Challenge.Path = "/tally/"
	_, h, _, page := siteWide(t, cfg, true)
	server, client := serve(t, h), clientAt(t, "127.0.0.1")
	status := func(raw string) int {
		r, err := http.NewRequest(http.MethodGet, server.URL+raw, http.NoBody)
		require.NoError(t, err)
		resp, err := client.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	require.Equal(t, 5, admitted(h, 9, from("127.0.0.1")))
	for raw, want := range map[string]int{
		"/tally/challenge": 200, "/tally/%63hallenge": 200, "/%74ally/challenge?cost=1": 200, "/tally%2fchallenge": 200, "/tally/tally.js": 200,
		"/tally/..%2fcontact": 429, "/tally/%2e%2e/contact": 429, "/tally//challenge": 429, "/tally/challenge%2f..%2f..%2fcontact": 429, "/tally/%00challenge": 429, "/tally/challenge%20": 429,
	} {
		require.Equal(t, want, status(raw), raw)
	}
	require.EqualValues(t, 5, page.Calls.Load())
}

// Only its own: the endpoints of a policy inside are pages like any other to the one around it, and one below
// the other's path is found.
func TestEndpointsOfAnotherPolicyAreLimited(t *testing.T) {
	now := new(clock)
	outer, inner := challenging(now, middleware.WhenExhausted), challenging(now, middleware.Newcomers)
	outer.Policy, outer.Challenge.Path = "site", "/tally/"
	inner.Challenge.Path = "/tally/contact/"
	m, h, mux, _ := siteWide(t, outer, false)
	form := newLimiter(t, inner)
	mux.Handle("/tally/contact/", form.Endpoints())
	mux.Handle("POST /form", form.Handler(new(spy)))

	challenge := func(p string) *http.Response { return send(h, method("GET"), path(p+"challenge")) }
	require.Contains(t, problemIn(t, requireStatus(t, http.StatusForbidden, send(h, path("/form")))).ChallengeURL, "/tally/contact/challenge")
	require.Equal(t, 5, func() (n int) {
		for range 9 {
			if challenge("/tally/contact/").StatusCode == http.StatusOK {
				n++
			}
		}
		return n
	}(), "each is a request of the site's five, and what the form has refused was not charged")
	require.Equal(t, http.StatusTooManyRequests, send(h, path("/form")).StatusCode)
	require.Equal(t, http.StatusOK, challenge("/tally/").StatusCode)
	require.Equal(t, int64(5), outer.Limits[0].Quota)
	require.NotNil(t, m)

	// The one outside answers before the one inside has counted, and the other way round it is counted.
	both := form.Handler(m.Handler(http.NotFoundHandler()))
	require.Equal(t, http.StatusOK, send(both, method("GET"), path("/tally/contact/challenge")).StatusCode)
	require.Equal(t, http.StatusForbidden, send(both, method("GET"), path("/tally/challenge")).StatusCode, "a newcomer to the form")
}

// Whatever else a route has, its policy answers the same: a price, Skip, shadow mode, an adapter's prefix, a preflight.
func TestOwnEndpointsOfEveryRoute(t *testing.T) {
	cfg := challenging(new(clock), middleware.Newcomers)
	cfg.Skip = func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/tally/") || r.URL.Path == "/free" }
	m, h, _, page := siteWide(t, cfg, false)
	for name, h := range map[string]http.Handler{"skipped": h, "dear": m.HandlerCost(5, page), "free": m.HandlerCost(0, page)} {
		require.Equal(t, http.StatusOK, fetched(h).StatusCode, name)
		require.Equal(t, http.StatusOK, redeemed(h, solved(t, fetched(h))).StatusCode, name)
	}
	require.Zero(t, page.Calls.Load())
	require.Equal(t, http.StatusOK, send(h, path("/free")).StatusCode)
	require.Equal(t, http.StatusOK, send(h, method("OPTIONS"), path("/tally/challenge"), with("Origin", "https://a.example", "Access-Control-Request-Method", "GET")).StatusCode,
		"what a CORS middleware further inside says of it, uncounted as ever")
	require.EqualValues(t, 2, page.Calls.Load())

	cfg.Skip, cfg.Shadow = nil, true
	_, h, _, page = siteWide(t, cfg, false)
	require.Equal(t, http.StatusOK, fetched(h).StatusCode, "in shadow mode")
	require.Zero(t, page.Calls.Load())

	cfg.Shadow, cfg.Challenge = false, nil
	_, h, _, page = siteWide(t, cfg, false)
	require.Equal(t, 5, admitted(h, 9, method("GET"), path("/tally/challenge")), "without a challenge there are none")
	require.EqualValues(t, 5, page.Calls.Load())

	// A path for all of a site: its pages are not hidden by it.
	cfg = challenging(new(clock), middleware.WhenExhausted)
	cfg.Challenge.Path = "/"
	_, h, _, page = siteWide(t, cfg, false)
	require.Equal(t, 5, admitted(h, 9))
	require.Equal(t, http.StatusOK, send(h, method("GET"), path("/challenge")).StatusCode)
	require.EqualValues(t, 5, page.Calls.Load())
}

// The log tells where no browser can pay. A policy around a whole site answers its own URLs; whether one asks
// is known when it had the time to.
func TestEndpointsThatAreNotMountedAreTold(t *testing.T) {
	for name, test := range map[string]struct {
		mount func(m *middleware.Middleware) http.Handler
		asks  bool // a browser loads what the refusal names
		told  bool
	}{
		"a route, and no endpoints":        {func(m *middleware.Middleware) http.Handler { return m.Handler(new(spy)) }, false, true},
		"around all, without a browser":    {func(m *middleware.Middleware) http.Handler { return m.Handler(http.NewServeMux()) }, false, true},
		"around all, and it has answered":  {func(m *middleware.Middleware) http.Handler { return m.Handler(http.NewServeMux()) }, true, false},
		"mounted, though nobody has asked": {func(m *middleware.Middleware) http.Handler { m.Endpoints(); return m.Handler(new(spy)) }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, middleware.Newcomers)
			log := logTo(&cfg)
			h := test.mount(newLimiter(t, cfg))
			send(h)
			if test.asks {
				send(h, method("GET"), path("/tally/tally.js"))
			}
			now.Advance(9 * time.Second)
			send(h)
			require.Empty(t, log.Lines(), "it may be on its way")
			now.Advance(time.Second)
			send(h)
			require.Equal(t, test.told, len(log.Lines()) == 1)
		})
	}
}
