// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

func TestEndpointPathsAndMethods(t *testing.T) {
	h := newSite(t, challenging(new(clock), middleware.Newcomers))
	const get, post = "GET, HEAD", "POST"
	for _, test := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/tally/challenge", 200, ""},
		{"HEAD", "/tally/challenge", 200, ""},
		{"POST", "/tally/challenge", 405, get},
		{"OPTIONS", "/tally/challenge", 405, get},
		{"DELETE", "/tally/challenge", 405, get},
		{"POST", "/tally/redeem", 403, ""},
		{"GET", "/tally/redeem", 405, post},
		{"HEAD", "/tally/redeem", 405, post},
		{"PUT", "/tally/redeem", 405, post},
		{"GET", "/tally/", 404, ""},
		{"GET", "/tally/challenge/", 404, ""},
		{"GET", "/tally/x/challenge", 404, ""},
		{"POST", "/tally/redeemed", 404, ""},
		{"GET", "/tally/Challenge", 404, ""},
	} {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			resp := send(h, method(test.method), path(test.path))
			require.Equal(t, test.status, resp.StatusCode)
			require.Equal(t, test.allow, resp.Header.Get("Allow"))
			if test.status >= 404 {
				require.Empty(t, resp.Header.Get(middleware.ChallengeHeader))
			}
		})
	}
	require.Zero(t, h.spy.calls.Load())
	require.Empty(t, h.decisions.all, "the endpoints are no part of the policy")
}

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
	resp := send(mux, method("PUT"), path("/tally/redeem"))
	require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
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
		h := newSite(t, cfg)
		require.Equal(t, http.StatusNotFound, fetched(h).StatusCode, name)
		require.Equal(t, http.StatusNotFound, redeemed(h, "x").StatusCode, name)
		if name == "no path" {
			p := problemIn(t, send(h))
			require.NotEmpty(t, p.Challenge)
			require.Empty(t, p.ChallengeURL+p.RedeemURL, "and no URL is named")
		}
	}
	t.Run("while serving", func(t *testing.T) {
		cfg := challenging(new(clock), middleware.Newcomers)
		h := newSite(t, cfg)
		require.Equal(t, http.StatusOK, fetched(h).StatusCode)
		cfg.Challenge = nil
		require.NoError(t, h.m.Reconfigure(cfg))
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
		require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
		require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
		require.Empty(t, resp.Cookies())
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
		require.Equal(t, "Basic", resp.Header.Get("WWW-Authenticate"))
		require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
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
		names := []string{}
		for _, c := range resp.Cookies() {
			names = append(names, c.Name)
		}
		require.Contains(t, names, "__Host-tallystick-work")
		require.Equal(t, want == 200, strings.Contains(strings.Join(names, " "), "tallystick-contact"))
	}
	require.Len(t, ok.Header.Values(middleware.TokenHeader), 2, "one of each policy")
	require.Equal(t, []string{`"work";q=9;w=60`}, ok.Header.Values("RateLimit-Policy"))
	require.Equal(t, http.StatusOK, send(outer, showing(ok.Header.Values(middleware.TokenHeader)...)).StatusCode)
}
