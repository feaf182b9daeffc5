// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// A site whose files are at "GET /" cannot have the endpoints at a pattern for all methods: net/http
// panics. Two patterns do, one for each method.
func TestEndpointsBesideGetSlash(t *testing.T) {
	m := newLimiter(t, challenging(new(clock), middleware.Newcomers))
	mux := http.NewServeMux()
	mux.Handle("GET /", http.NotFoundHandler())
	require.Panics(t, func() { mux.Handle("/tally/", m.Endpoints()) })
	mux.Handle("GET /tally/", m.Endpoints())
	mux.Handle("POST /tally/", m.Endpoints())
	require.Equal(t, http.StatusOK, redeemed(mux, solved(t, fetched(mux))).StatusCode)
	require.Equal(t, http.StatusOK, send(mux, method("HEAD"), path("/tally/tally.js")).StatusCode)
	require.Equal(t, http.StatusMethodNotAllowed, send(mux, method("PUT"), path("/tally/redeem")).StatusCode)
}

// Nothing answers where the program has not said where it is mounted.
func TestEndpointsUnconfigured(t *testing.T) {
	for name, spoil := range map[string]func(*middleware.Config){
		"no challenge": func(cfg *middleware.Config) { cfg.Challenge = nil },
		"no path":      func(cfg *middleware.Config) { cfg.Challenge.Path = "" },
		"another path": func(cfg *middleware.Config) { cfg.Challenge.Path = "/elsewhere/" },
	} {
		cfg := challenging(new(clock), middleware.Newcomers)
		spoil(&cfg)
		m := newLimiter(t, cfg)
		h := m.Endpoints()
		require.Equal(t, http.StatusNotFound, fetched(h).StatusCode, name)
		require.Equal(t, http.StatusNotFound, redeemed(h, "x").StatusCode, name)
		if name == "no path" {
			p := problemIn(t, send(m.Handler(new(spy))))
			require.NotEmpty(t, p.Challenge)
			require.Empty(t, p.ChallengeURL+p.RedeemURL, "and no URL is named")
		}
	}
	t.Run("while serving", func(t *testing.T) {
		cfg := challenging(new(clock), middleware.Newcomers)
		h := newSite(t, cfg)
		require.Equal(t, http.StatusOK, fetched(h).StatusCode)
		cfg.Challenge = nil
		require.NoError(t, h.M.Reconfigure(cfg))
		require.Equal(t, http.StatusNotFound, fetched(h).StatusCode)
	})

	// Below a StripPrefix, whatever the program has not said it mounted.
	cfg := challenging(new(clock), middleware.Newcomers)
	cfg.Challenge.Path = ""
	h := newLimiter(t, cfg).Endpoints()
	require.Equal(t, http.StatusNotFound, send(h, method("GET"), path("challenge")).StatusCode)
}

func TestChallengeEndpoint(t *testing.T) {
	h := newSite(t, challenging(new(clock), middleware.Newcomers))
	server := serve(t, h)
	client := clientAt(t, "127.0.0.1")
	for _, m := range []string{http.MethodGet, http.MethodHead} {
		r, err := http.NewRequest(m, server.URL+"/tally/challenge", http.NoBody)
		require.NoError(t, err)
		resp, err := client.Do(r)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		c := challengeIn(t, resp)
		requireHeader(t, resp, "Content-Type", "application/json", "X-Content-Type-Options", "nosniff")
		require.Equal(t, m == http.MethodGet, cookieIn(resp) != nil, "the client has sent it back by then")
		body := bodyOf(t, resp)
		if m == http.MethodHead {
			require.Empty(t, body)
			continue
		}
		var terms map[string]any
		require.NoError(t, json.Unmarshal([]byte(body), &terms))
		require.Equal(t, map[string]any{"needed": true, "challenge": c.Text, "ttl": 10.0, "work": 16.0}, terms)
	}
	one, two := challengeIn(t, fetched(h)), challengeIn(t, fetched(h))
	require.NotEqual(t, one.Text, two.Text, "each is fresh")
}

// A page of another site must not spend its visitor's address, nor plant what it
// bought. Programs that are no browsers say nothing of where they come from.
func TestCrossSiteRedeems(t *testing.T) {
	h := newSite(t, challenging(new(clock), middleware.Newcomers))
	proof := solved(t, fetched(h))
	for _, test := range []struct {
		name   string
		origin option
		passes bool
	}{
		{"cross-site", with("Sec-Fetch-Site", "cross-site"), false},
		{"same-site, another origin", with("Sec-Fetch-Site", "same-site"), false},
		{"an old browser, elsewhere", with("Origin", "https://evil.example"), false},
		{"a prefix of our host", with("Origin", "https://example.com.evil.example"), false},
		{"an opaque origin", with("Origin", "null"), false},
		{"cross-site, whatever its origin", with("Sec-Fetch-Site", "cross-site", "Origin", "https://example.com"), false},
		{"same origin", with("Sec-Fetch-Site", "same-origin"), true},
		{"typed in", with("Sec-Fetch-Site", "none"), true},
		{"an old browser, here", with("Origin", "http://example.com"), true},
		{"no browser", with(), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			resp := redeemed(h, proof, test.origin)
			require.Equal(t, test.passes, resp.StatusCode == http.StatusOK)
			if !test.passes {
				require.Equal(t, http.StatusForbidden, resp.StatusCode)
				require.Empty(t, resp.Cookies())
				require.Empty(t, tokenIn(resp))
				require.Empty(t, resp.Header.Get(middleware.ChallengeHeader))
			}
		})
	}
	require.EqualValues(t, 24, challengeIn(t, fetched(h)).Work, "one sale")
	for _, origin := range []string{"cross-site", "same-site"} { // a GET changes nothing
		require.Equal(t, http.StatusOK, fetched(h, with("Sec-Fetch-Site", origin)).StatusCode)
	}
}

// Who cannot be told, or may not come in, gets no challenge either.
func TestEndpointIdentities(t *testing.T) {
	cfg := challenging(new(clock), middleware.Newcomers)
	nobody := func(r *http.Request) { r.RemoteAddr = "@" }
	h := newSite(t, cfg)
	for _, resp := range []*http.Response{fetched(h, nobody), redeemed(h, "x", nobody)} {
		require.Equal(t, http.StatusForbidden, resp.StatusCode)
		require.Equal(t, "https://github.com/tallystick/tallystick/blob/main/docs/clients.md#identity-unknown", problemIn(t, resp).Type)
		require.Empty(t, resp.Header.Get(middleware.ChallengeHeader))
	}
	cfg.Identity = func(*http.Request) (middleware.Identity, error) {
		return middleware.Identity{}, &middleware.Denial{Status: 401, WWWAuthenticate: "Basic"}
	}
	h = newSite(t, cfg)
	for _, resp := range []*http.Response{fetched(h), redeemed(h, "x")} {
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
		requireHeader(t, resp, "WWW-Authenticate", "Basic", "Cache-Control", "no-store")
	}
}

// Endpoints inside of another limiter leave its fields alone.
func TestEndpointsInsideALimiter(t *testing.T) {
	now := new(clock)
	inner := newSite(t, challenging(now, middleware.Newcomers))
	cfg := contact(now)
	cfg.Policy, cfg.Limits[0].Quota = "work", 9
	outer := newLimiter(t, cfg).Handler(inner)
	proof := solved(t, fetched(outer))
	ok, no := redeemed(outer, proof), redeemed(outer, "x")
	for want, resp := range map[int]*http.Response{200: ok, 403: no} {
		require.Equal(t, want, resp.StatusCode)
		tokens := resp.Header.Values(middleware.TokenHeader)
		require.NotEmpty(t, tokens)
		require.Contains(t, resp.Header.Values("RateLimit-Policy"), `"work";q=9;w=60`)
		require.EqualValues(t, map[int]int{200: 2, 403: 3}[want], claimsIn(t, tokens[0]).T[2], "used of the outer quota")
		require.Contains(t, cookieNames(resp), "__Host-tallystick-work")
		require.Equal(t, want == 200, strings.Contains(fmt.Sprint(cookieNames(resp)), "tallystick-contact"))
	}
	require.Len(t, ok.Header.Values(middleware.TokenHeader), 2, "one of each policy")
	require.Equal(t, []string{`"work";q=9;w=60`}, ok.Header.Values("RateLimit-Policy"))
	require.Equal(t, http.StatusOK, send(outer, showing(ok.Header.Values(middleware.TokenHeader)...)).StatusCode)
}

// An outer middleware, or a cache, may have been told to store all of a site, errors and other methods too. Anybody
// can cause these errors, and none of them may stand in the place of a challenge, a purchase or a script.
func TestErrorsOfEndpointsAreNotStored(t *testing.T) {
	cfg := challenging(new(clock), middleware.WhenExhausted)
	h := newSite(t, cfg)
	fields := []string{"CDN-Cache-Control", "Example-Cache-Control", "X-Accel-Expires", "Edge-Control"}
	outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=600")
		for _, field := range fields {
			w.Header().Set(field, "600")
		}
		h.ServeHTTP(w, r)
	})
	crossSite := with("Sec-Fetch-Site", "cross-site")
	script := h.M.ScriptURL()
	const get, post = "GET, HEAD", "POST"
	for _, test := range []struct {
		name         string
		status       int
		method, path string
		options      []option
		allow        string
	}{
		{"wrong path", 404, "GET", "/tally/nothing", nil, ""},
		{"wrong path, POST", 404, "POST", "/tally/nothing", nil, ""},
		{"no path", 404, "GET", "/tally/", nil, ""},
		{"below a path", 404, "GET", "/tally/challenge/", nil, ""},
		{"above a path", 404, "GET", "/tally/x/challenge", nil, ""},
		{"a longer path", 404, "POST", "/tally/redeemed", nil, ""},
		{"a path in capitals", 404, "GET", "/tally/Challenge", nil, ""},
		{"no such asset", 404, "GET", "/tally/tally.0123.js", nil, ""},
		{"challenge by POST", 405, "POST", "/tally/challenge", nil, get},
		{"challenge by OPTIONS", 405, "OPTIONS", "/tally/challenge", nil, get},
		{"challenge by DELETE", 405, "DELETE", "/tally/challenge", nil, get},
		{"redeem by GET", 405, "GET", "/tally/redeem", nil, post},
		{"redeem by HEAD", 405, "HEAD", "/tally/redeem", nil, post},
		{"redeem by PUT", 405, "PUT", "/tally/redeem", nil, post},
		{"asset by POST", 405, "POST", script, nil, get},
		{"redeem from another site", 403, "POST", "/tally/redeem", []option{crossSite}, ""},
		{"redeem from another origin", 403, "POST", "/tally/redeem", []option{with("Origin", "https://evil.example")}, ""},
		{"redeem without a proof", 403, "POST", "/tally/redeem", nil, ""},
		{"challenge for nobody", 403, "GET", "/tally/challenge", []option{func(r *http.Request) { r.RemoteAddr = "@" }}, ""},
		{"asset, another version wanted", 412, "GET", script, []option{with("If-Match", `"x"`)}, ""},
		{"asset, no such range", 416, "GET", script, []option{with("Range", "bytes=1000000-")}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			resp := requireStatus(t, test.status, send(outer, append(test.options, method(test.method), path(test.path))...))
			requireHeader(t, resp, "Cache-Control", "no-store", "Allow", test.allow)
			require.Equal(t, test.name == "redeem without a proof", resp.Header.Get(middleware.ChallengeHeader) != "")
			for _, field := range fields {
				require.Empty(t, resp.Header.Values(field), field)
			}
		})
	}
	for _, verb := range []string{"GET", "HEAD"} {
		require.Equal(t, http.StatusOK, send(outer, method(verb), path("/tally/challenge")).StatusCode)
	}
	require.Zero(t, h.Spy.Calls.Load())
	require.Empty(t, h.Decisions.All, "the endpoints are no part of the policy")
	t.Run("assets are", func(t *testing.T) {
		for _, options := range [][]option{nil, {with("Range", "bytes=0-9")}} {
			resp := send(outer, append(options, method("GET"), path(script))...)
			require.Less(t, resp.StatusCode, 300)
			require.Equal(t, []string{"public, max-age=31536000, immutable"}, resp.Header.Values("Cache-Control"))
			resp = send(outer, append(options, method("GET"), path("/tally/tally.js"))...)
			require.Equal(t, []string{"no-cache"}, resp.Header.Values("Cache-Control"))
		}
	})
	t.Run("where there is no challenge", func(t *testing.T) {
		cfg.Challenge = nil
		require.NoError(t, h.M.Reconfigure(cfg))
		resp := requireStatus(t, http.StatusNotFound, send(outer, method("GET"), path("/tally/challenge")))
		require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
	})
}
