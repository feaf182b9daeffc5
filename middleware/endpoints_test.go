// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/keptform"
	"github.com/tallystick/tallystick/proof/kit"
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
	for name, spoil := range map[string]change{
		"no challenge": func(cfg *middleware.Config) { cfg.Challenge = nil },
		"no path":      func(cfg *middleware.Config) { cfg.Challenge.Path = "" },
		"another path": func(cfg *middleware.Config) { cfg.Challenge.Path = "/elsewhere/" },
	} {
		m := newLimiter(t, changed(challenging(new(clock), middleware.Newcomers), spoil))
		h := m.Endpoints()
		require.Equal(t, http.StatusNotFound, fetched(h).StatusCode, name)
		require.Equal(t, http.StatusNotFound, redeemed(h, "x").StatusCode, name)
		if name == "no path" {
			p := problemIn(t, send(m.Handler(new(spy))))
			require.NotEmpty(t, p.Challenge)
			require.Empty(t, p.ChallengeURL+p.RedeemURL, "and no URL is named")
			require.Equal(t, http.StatusNotFound, send(h, method("GET"), path("challenge")).StatusCode, "nor below a StripPrefix")
		}
	}
	play(t, []scenario{{"while serving", working(middleware.Newcomers), []step{
		{as: toFetch, want: 200}, {do: becomes(func(cfg *middleware.Config) { cfg.Challenge = nil }), as: toFetch, want: 404},
	}}})
}

func TestChallengeEndpoint(t *testing.T) {
	h := newSite(t, challenging(new(clock), middleware.Newcomers))
	server := serve(t, h)
	client := clientAt(t, "127.0.0.1")
	for _, m := range []string{http.MethodGet, http.MethodHead} {
		r := kit.Must(http.NewRequest(m, server.URL+"/tally/challenge", http.NoBody))(t)
		resp := kit.Must(client.Do(r))(t)
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

func TestEndpoints(t *testing.T) {
	unknown := typed("https://github.com/tallystick/tallystick/blob/main/docs/clients.md#identity-unknown")
	nothing := fields{"Set-Cookie": "", middleware.TokenHeader: ""}
	denied := fields{"WWW-Authenticate": "Basic", "Cache-Control": "no-store"}
	ticket := both(method(http.MethodGet), path("/tally/ticket"))
	noTicket := fields{"Set-Cookie": "", "Cache-Control": "no-store"}
	elsewhere := func(pairs ...string) step {
		return step{as: both(toRedeem, with(pairs...)), prove: "offer", want: 403, fields: fields{"Set-Cookie": "", middleware.TokenHeader: "", middleware.ChallengeHeader: ""}}
	}
	here := func(pairs ...string) step { return step{as: both(toRedeem, with(pairs...)), prove: "offer", want: 200} }
	instead := func(s *scene) { // the challenge that is offered instead
		require.Equal(s, challengeIn(s, s.answer()).Text, problemIn(s, s.answer()).Challenge)
	}
	// foresees is what a page is told before it takes work on.
	foresees := func(shown, body string) step {
		return step{as: toFetch, show: shown, want: 200, see: all{func(s *scene) {
			require.Equal(s, body, regexp.MustCompile(`"challenge":"[^"]+"`).ReplaceAllString(strings.TrimSpace(s.body), `"challenge":…`))
		}}}
	}
	play(t, []scenario{
		// It must not spend its visitor's address, nor plant what it bought. Programs that are no browsers say nothing of where they come from.
		{"a page of another site redeems nothing", working(middleware.Newcomers), []step{
			{as: toFetch, want: 200, keep: "offer"},
			elsewhere("Sec-Fetch-Site", "cross-site"), elsewhere("Sec-Fetch-Site", "same-site"), // another origin
			elsewhere("Origin", "https://evil.example"), elsewhere("Origin", "https://example.com.evil.example"), elsewhere("Origin", "null"), // old browsers
			elsewhere("Sec-Fetch-Site", "cross-site", "Origin", "https://example.com"),
			here("Sec-Fetch-Site", "same-origin"), here("Sec-Fetch-Site", "none"), here("Origin", "http://example.com"), here(),
			{as: toFetch, want: 200, see: all{work(24)}},                                                                                              // one sale
			{as: both(toFetch, with("Sec-Fetch-Site", "cross-site")), want: 200}, {as: both(toFetch, with("Sec-Fetch-Site", "same-site")), want: 200}, // a GET changes nothing
		}},
		{"a client that cannot be told gets no challenge", working(middleware.Newcomers), []step{
			{as: both(toFetch, unaddressed), want: 403, fields: fields{middleware.ChallengeHeader: ""}, see: all{unknown}},
			{as: both(toRedeem, both(unaddressed, proving("x"))), want: 403, fields: fields{middleware.ChallengeHeader: ""}, see: all{unknown}},
		}},
		{"a client that is denied is denied", working(middleware.Newcomers, telling(middleware.Identity{}, &middleware.Denial{Status: 401, WWWAuthenticate: "Basic"})), []step{
			{as: toFetch, want: 401, fields: denied}, {as: both(toRedeem, proving("x")), want: 401, fields: denied},
		}},
		// What is not worth a token is answered with a fresh challenge, as on the route.
		{"no proof buys nothing", working(middleware.Newcomers), []step{
			{as: toRedeem, want: 403, keep: "offer", fields: nothing, see: all{because(middleware.NoToken), instead}},
			{as: both(toRedeem, proving("")), want: 403, keep: "offer", fields: nothing, see: all{because(middleware.NoToken), instead}}, {as: toRedeem, prove: "offer", want: 200},
		}},
		{"a wrong proof buys nothing", working(middleware.Newcomers), []step{
			{as: both(toRedeem, proving("x")), want: 403, keep: "offer", fields: nothing, see: all{because("wrong-solution"), instead}}, {as: toRedeem, prove: "offer", want: 200},
			{as: both(toRedeem, both(proving("x"), html)), want: 403, fields: fields{"Content-Type": "text/html; charset=utf-8"}},
		}},
		{"a proof of another client buys nothing", working(middleware.Newcomers), []step{
			{as: both(toFetch, from("203.0.113.2")), want: 200, keep: "theirs"},
			{as: toRedeem, prove: "theirs", want: 403, keep: "offer", fields: nothing, see: all{because("client-changed"), instead}}, {as: toRedeem, prove: "offer", want: 200},
		}},
		{"a dear request is told when a dear one passes", working(middleware.WhenExhausted, limits(middleware.Limit{
			Name: "b", Algorithm: middleware.TokenBucket, Quota: 5, Window: 5 * time.Minute,
		}), func(cfg *middleware.Config) { cfg.Challenge.Crowd, cfg.Challenge.SalesPerHour = 1, 4 }), []step{
			{times: 5, want: 200},
			{do: func(s *scene) { s.site.M.SellOut(s.now.Now(), peerIdentity) }, as: both(toFetch, query("cost=5")), want: 429, see: all{func(s *scene) {
				require.GreaterOrEqual(s, retryAfter(s, s.last), 5*time.Minute)
				require.LessOrEqual(s, retryAfter(s, s.last), 6*time.Minute, "sooner than a tally is for sale again")
			}}},
		}},
		{"without a room there is no ticket", roomed(middleware.Newcomers, func(cfg *middleware.Config) {
			cfg.Challenge.WaitingRoom, cfg.Challenge.NoWaitingRoom = 0, true
		}), []step{{as: ticket, want: 404, fields: noTicket}}},
		{"nor by POST, nor for more than the room holds, nor for a client that cannot be told", roomed(middleware.Newcomers), []step{
			{as: path("/tally/ticket"), want: 405, fields: noTicket}, {as: both(ticket, query("cost=9")), want: 404, fields: noTicket},
			{as: both(ticket, unaddressed), want: 403, fields: noTicket},
		}},
		{"foresight: WhenExhausted", working(middleware.WhenExhausted), []step{
			foresees("", `{"needed":false,"left":5,"challenge":…,"ttl":10,"work":16}`), {times: 9, passes: 5},
			foresees("", `{"needed":true,"left":0,"challenge":…,"ttl":10,"work":16}`), {do: buys("own")},
			foresees("own", `{"needed":false,"left":5,"carried":true,"challenge":…,"ttl":10,"work":24}`), // of its own
			{after: 8 * time.Minute}, foresees("", `{"needed":false,"left":5,"challenge":…,"ttl":10,"work":16}`),
		}},
		{"foresight: Newcomers", working(middleware.Newcomers), []step{foresees("", `{"needed":true,"challenge":…,"ttl":10,"work":16}`)}},
		{"foresight: EveryRequest", working(middleware.EveryRequest), []step{
			foresees("", `{"needed":true,"left":5,"challenge":…,"ttl":10,"work":16}`), {times: 5, prove: fresh, want: 200},
			{as: toFetch, want: 429, see: all{says("quota-exceeded")}}, // no proof would help
		}},
		{"foresight: quiet", working(middleware.WhenExhausted, quietly), []step{foresees("", `{"needed":false,"challenge":…,"ttl":10,"work":16}`)}},
	})
}

// Endpoints inside of another limiter leave its fields alone.
func TestEndpointsInsideALimiter(t *testing.T) {
	now := new(clock)
	inner := newSite(t, challenging(now, middleware.Newcomers))
	outer := newLimiter(t, changed(contact(now), func(cfg *middleware.Config) { cfg.Policy, cfg.Limits[0].Quota = "work", 9 })).Handler(inner)
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

// An outer middleware, or a cache, may have been told to store all of a site, errors and other methods too. Any
// client can cause these errors, and none of them may stand in the place of a challenge, a purchase or a script.
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
		{"challenge for no identity", 403, "GET", "/tally/challenge", []option{func(r *http.Request) { r.RemoteAddr = "@" }}, ""},
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

// transports are how a policy may carry tokens and proofs.
var transports = map[string]change{
	"default":        func(*middleware.Config) {},
	"HeaderOnly":     func(cfg *middleware.Config) { cfg.TokenTransport = middleware.HeaderOnly },
	"CookieOnly":     func(cfg *middleware.Config) { cfg.TokenTransport = middleware.CookieOnly },
	"EmbeddedCookie": func(cfg *middleware.Config) { cfg.EmbeddedCookie = true },
	"InsecureCookie": func(cfg *middleware.Config) { cfg.InsecureCookie = true },
}

// transportsAnd are these, and more changes of a policy.
func transportsAnd(more map[string]change) map[string]change {
	maps.Copy(more, transports)
	return more
}

// Redeeming answers the tally's first token, and asking again the same bytes.
func TestRedeem(t *testing.T) {
	for name, change := range transportsAnd(map[string]change{
		"BindOwn":     func(cfg *middleware.Config) { cfg.Challenge.BindOwn = true },
		"X-RateLimit": func(cfg *middleware.Config) { cfg.Fields = middleware.RateLimitFields | middleware.XRateLimitInSeconds },
		"no memory":   func(cfg *middleware.Config) { cfg.InsecureNoMemory = true },
	}) {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, middleware.Newcomers)
			change(&cfg)
			h := newSite(t, cfg)
			proof := solved(t, fetched(h))
			now.Advance(4 * time.Second)
			first := requireStatus(t, http.StatusOK, redeemed(h, proof))
			requireHeader(t, first, "Cache-Control", "no-store", "Content-Type", "application/json")
			require.Empty(t, first.Header.Get("RateLimit"), "no limit was asked")
			requireHeader(t, first, "RateLimit-Policy", "", "X-RateLimit-Limit", "", middleware.ChallengeHeader, "")
			require.JSONEq(t, `{"expires-in":3596}`, bodyOf(t, first))

			cookie, tok := cookieIn(first), tokenIn(first)
			require.Equal(t, cfg.TokenTransport == middleware.HeaderOnly, cookie == nil)
			require.Equal(t, cfg.TokenTransport == middleware.CookieOnly, tok == "")
			if cookie != nil {
				requireCookie(t, cfg, cookie, 3596)
				require.Len(t, first.Cookies(), 1)
				if tok == "" {
					tok = cookie.Value
				}
				require.Equal(t, tok, cookie.Value)
			}
			require.Empty(t, claimsIn(t, tok).T, "count zero")

			send(h, showing(tok), showingCookie(tok))
			second := redeemed(h, proof, showing("x")) // whatever happened since
			if tokenIn(second) != "" {
				require.Equal(t, tok, tokenIn(second), "byte for byte")
			}
			require.Equal(t, first.Header.Values("Set-Cookie"), second.Header.Values("Set-Cookie"))
		})
	}
}

// In EveryRequest the cookie carries the proof along with one form post.
func TestProofCookie(t *testing.T) {
	now := new(clock)
	for name, change := range transports {
		t.Run(name, func(t *testing.T) {
			cfg := challenging(now, middleware.EveryRequest)
			change(&cfg)
			h := newSite(t, cfg)
			proof := solved(t, fetched(h))
			now.Advance(4 * time.Second)
			resp := requireStatus(t, http.StatusOK, redeemed(h, proof))
			require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
			require.Equal(t, "{\"expires-in\":7}\n", bodyOf(t, resp))
			require.Empty(t, tokenIn(resp), "it is a proof, not a token")
			cookie := cookieIn(resp)
			if name == "HeaderOnly" {
				require.Nil(t, cookie)
				require.Equal(t, http.StatusForbidden, send(h, with("Cookie", "__Host-tallystick-contact.proof.0badcafe="+proof)).StatusCode)
				return
			}
			prefix := "__Host-"
			if cfg.InsecureCookie {
				prefix = ""
			}
			require.Regexp(t, "^"+prefix+"tallystick-contact\\.proof\\.[0-9a-f]{8}$", cookie.Name)
			require.Equal(t, proof, cookie.Value)
			requireCookie(t, cfg, cookie, 7)

			require.Equal(t, cookie.Raw, cookieIn(redeemed(h, proof)).Raw, "again, while it is not spent")
			carried := with("Cookie", "session=1; "+cookie.Name+"="+cookie.Value+"; theme=dark")
			require.Equal(t, http.StatusOK, send(h, carried).StatusCode)
			replay := requireStatus(t, http.StatusForbidden, send(h, carried))
			require.Equal(t, middleware.ProofReplayed, problemIn(t, replay).Reason)

			fresh := solved(t, fetched(h))
			require.Equal(t, http.StatusOK, send(h, carried, proving(fresh)).StatusCode, "the field comes first")
			planted := with("Cookie", cookie.Name+"=nonsense")
			require.Equal(t, http.StatusOK, send(h, planted, with("Cookie", cookie.Name+"="+solved(t, fetched(h)))).StatusCode)
		})
	}
}

// The whole way of a browser: fetch, solve, redeem, post the form; once.
func TestBrowserPostsAForm(t *testing.T) {
	inAllModes(t, func(t *testing.T, mode middleware.Mode) {
		h := newSite(t, challenging(new(clock), mode))
		url, client := browser(t, h)
		ask := func(verb, path string, options ...option) *http.Response {
			return over(t, client, url+path, append(options, method(verb), with("Sec-Fetch-Site", "same-origin", "Origin", url))...)
		}
		proof := solved(t, ask("GET", "/tally/challenge"))
		require.Equal(t, http.StatusOK, ask("POST", "/tally/redeem", proving(proof)).StatusCode)
		posts := map[middleware.Mode]int{middleware.WhenExhausted: 10, middleware.Newcomers: 5, middleware.EveryRequest: 1}[mode]
		for range posts {
			require.Equal(t, http.StatusOK, ask("POST", "/").StatusCode)
		}
		require.NotEqual(t, http.StatusOK, ask("POST", "/").StatusCode)
		require.EqualValues(t, posts, h.Spy.Calls.Load())
	})
}

// A proof that came by cookie opens the tally that it opens by field, for its client and for no other. While the memory is
// full it stays for a while, and must not stand before what the client has besides.
func TestProofCookieOpensTheSameTally(t *testing.T) {
	stranger := from("203.0.113.77")
	for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers} {
		byCookie := ""
		cookie := func(r *http.Request) { r.Header.Add("Cookie", "__Host-tallystick-contact.proof.0badcafe="+byCookie) }
		kept := step{as: toFetch, want: 200, keep: "offer", see: all{func(s *scene) { byCookie = solve(s, s.challenges["offer"]) }}}
		play(t, []scenario{
			{"the same tally", working(mode), []step{
				exhausting(mode), kept, {as: cookie, times: 3, passes: 3}, {prove: "offer", times: 3, passes: 2}, {as: cookie, times: 3, passes: 0}, // five in all
				exhausting(mode, stranger), {as: both(cookie, stranger), times: 3, passes: 0},
			}},
			{"hides nothing", working(mode), []step{kept, {as: cookie, times: 5, passes: 5}, {do: buys("own"), as: cookie, cookie: "own", times: 5, passes: 5}}},
		})
	}
}

// Two pages that are checked before either is sent: each has a proof of its own, and the
// cookie of one that is spent goes away.
func TestProofsOfTwoPages(t *testing.T) {
	at := func(t *testing.T) (*site, []string, []*http.Cookie) {
		h := newSite(t, changed(challenging(new(clock), middleware.EveryRequest), func(cfg *middleware.Config) { cfg.Limits[0].Quota = 8 }))
		var proofs []string
		var cookies []*http.Cookie
		for range 6 {
			proof := solved(t, fetched(h))
			proofs, cookies = append(proofs, proof), append(cookies, cookieIn(redeemed(h, proof)))
		}
		return h, proofs, cookies
	}
	showing := func(cookies ...*http.Cookie) option {
		return func(r *http.Request) {
			for _, c := range cookies {
				r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
			}
		}
	}
	// gone returns the names of the cookies that a response takes away.
	gone := func(resp *http.Response) (names []string) {
		for _, c := range resp.Cookies() {
			if c.MaxAge < 0 {
				require.Empty(t, c.Value)
				require.True(t, c.Secure && c.HttpOnly)
				require.Equal(t, "/", c.Path)
				names = append(names, c.Name)
			}
		}
		return names
	}
	t.Run("one after the other", func(t *testing.T) {
		h, _, cookies := at(t)
		require.NotEqual(t, cookies[0].Name, cookies[1].Name)
		first := requireStatus(t, http.StatusOK, send(h, showing(cookies[0], cookies[1])))
		require.Equal(t, []string{cookies[0].Name}, gone(first))
		second := requireStatus(t, http.StatusOK, send(h, showing(cookies[1])))
		require.Equal(t, []string{cookies[1].Name}, gone(second))
	})
	t.Run("both at once, with the cookies of both", func(t *testing.T) {
		h, _, cookies := at(t)
		both := showing(cookies[0], cookies[1])
		require.Equal(t, http.StatusOK, send(h, both).StatusCode)
		second := requireStatus(t, http.StatusOK, send(h, both))
		require.Equal(t, []string{cookies[0].Name, cookies[1].Name}, gone(second))
		third := requireStatus(t, http.StatusForbidden, send(h, both), "a proof is one request")
		require.Equal(t, middleware.ProofReplayed, h.Decisions.Last().Proof)
		require.Equal(t, []string{cookies[0].Name, cookies[1].Name}, gone(third))
	})
	t.Run("four are looked at", func(t *testing.T) {
		h, proofs, cookies := at(t)
		for _, proof := range proofs[:4] {
			require.Equal(t, http.StatusOK, send(h, proving(proof)).StatusCode)
		}
		require.Equal(t, http.StatusOK, send(h, showing(cookies[1:]...)).StatusCode)
		replay := requireStatus(t, http.StatusForbidden, send(h, showing(cookies[:5]...)))
		require.Len(t, gone(replay), 4, "so that the fifth is looked at the next time")
		require.Equal(t, http.StatusOK, send(h, showing(cookies[5])).StatusCode)
	})
	t.Run("a request that is refused spends none", func(t *testing.T) {
		h, _, cookies := at(t)
		for range 8 {
			require.Equal(t, http.StatusOK, send(h, proving(solved(t, fetched(h)))).StatusCode)
		}
		full := requireStatus(t, http429, send(h, showing(cookies[0])))
		require.Empty(t, gone(full))
	})
}

func requireCookie(t *testing.T, cfg middleware.Config, cookie *http.Cookie, maxAge int) {
	t.Helper()
	require.Equal(t, []any{maxAge, true, "/", !cfg.InsecureCookie, cfg.EmbeddedCookie},
		[]any{cookie.MaxAge, cookie.HttpOnly, cookie.Path, cookie.Secure, cookie.Partitioned})
}

// A browser that keeps cookies shows one with the proof, and so need not ask what has become of what it bought. One
// that shows a cookie already is sent none to be tried.
func TestRedeemTellsWhetherCookiesAreKept(t *testing.T) {
	for name, change := range transportsAnd(map[string]change{
		"EveryRequest": func(cfg *middleware.Config) { cfg.Challenge.Mode = middleware.EveryRequest },
	}) {
		t.Run(name, func(t *testing.T) {
			cfg := challenging(new(clock), middleware.Newcomers)
			change(&cfg)
			h := newSite(t, cfg)
			resp := fetched(h)
			kept := cookieIn(resp)
			if name == "HeaderOnly" {
				require.Nil(t, kept)
				require.NotContains(t, bodyOf(t, redeemed(h, solved(t, resp), with("Cookie", "__Host-tallystick-contact.kept=1"))), "carried")
				return
			}
			require.Regexp(t, `^(__Host-)?tallystick-contact\.kept$`, kept.Name)
			requireCookie(t, cfg, kept, 10)
			require.NotContains(t, bodyOf(t, redeemed(h, solved(t, resp), with("Cookie", "session=1"))), "carried")
			back := with("Cookie", kept.Name+"="+kept.Value)
			again := fetched(h, back)
			require.Empty(t, again.Cookies())
			bought := requireStatus(t, http.StatusOK, redeemed(h, solved(t, again), back))
			require.Contains(t, bodyOf(t, bought), `,"carried":true}`)
			require.Len(t, bought.Cookies(), 1)
			require.NotContains(t, bodyOf(t, fetched(h, back)), "carried", "it is no purchase")
		})
	}
	t.Run("no work is needed", func(t *testing.T) {
		resp := fetched(newSite(t, challenging(new(clock), middleware.WhenExhausted)))
		require.Contains(t, bodyOf(t, resp), `"needed":false`)
		require.Empty(t, resp.Cookies())
	})
}

// What a page is told before it sends its form must be what becomes of the form.

// asked asks whether a request of a cost needs work.
func asked(t testing.TB, h http.Handler, cost int64, options ...option) (needed bool) {
	t.Helper()
	body := bodyOf(t, fetched(h, append(options, query(fmt.Sprintf("cost=%d", cost)))...))
	needed = !strings.Contains(body, `"needed":false`)
	require.Equal(t, !needed, strings.Contains(body, `"needed":false`), body)
	return needed
}

func TestChallengeEndpointKnowsTheCost(t *testing.T) {
	for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers} {
		h := newSite(t, changed(challenging(new(clock), mode), func(cfg *middleware.Config) {
			cfg.Cost = func(r *http.Request) int64 { return map[bool]int64{true: 3, false: 1}[r.Method == http.MethodPost] }
		}))
		var carried option = func(*http.Request) {}
		for i := range 6 {
			needed := asked(t, h, 3, carried)
			if needed {
				resp := requireStatus(t, http.StatusOK, redeemed(h, solved(t, fetched(h, carried))))
				carried = showing(tokenIn(resp))
				require.False(t, asked(t, h, 3, carried))
			}
			resp := requireStatus(t, http.StatusOK, send(h, method(http.MethodPost), carried), "%v: request %d", mode, i)
			if tok := tokenIn(resp); tok != "" {
				carried = showing(tok)
			}
		}
		require.False(t, asked(t, h, -1, carried), "a cost that is none is one")
		require.True(t, asked(t, h, 1<<40, from("192.0.2.200")) || mode == middleware.WhenExhausted)
	}
}

// Nothing but the cost is read of a query, and of a long one not even that.
func TestCostInAQuery(t *testing.T) {
	h := newSite(t, challenging(new(clock), middleware.WhenExhausted))
	require.Equal(t, 1, admitted(h, 1)) // four of five are left
	for q, dear := range map[string]bool{
		"": false, "cost": false, "cost=": false, "cost=x": false, "Cost=9": false, "xcost=9": false, "%63ost=9": false, "cost=-9": false, "cost=0": false,
		"cost=9": true, "a=%zz&&;&cost=9&cost=1": true, "cost=1&cost=9": false, "cost=99999999999999999999": true,
		"cost=9&" + strings.Repeat("a", 1017): true, "cost=9&" + strings.Repeat("a", 1018): false,
	} {
		require.Equal(t, dear, !strings.Contains(bodyOf(t, fetched(h, query(q))), `"needed":false`), "%.40q", q)
	}
}

// The held form says what it costs, because the endpoint cannot know: what the route costs, or the policy.
func TestHeldFormSaysWhatItCosts(t *testing.T) {
	for cost, want := range map[int64]string{1: `<tally-check endpoint="/tally/">`, 3: `<tally-check endpoint="/tally/" cost="3">`} {
		cfg := challenging(new(clock), middleware.Newcomers)
		cfg.PageHandler, cfg.Challenge.Path = keptform.Handler{}, "/tally/"
		route := newLimiter(t, cfg).HandlerCost(cost, new(spy))
		cfg.Cost = func(*http.Request) int64 { return cost }
		for _, h := range []http.Handler{route, newSite(t, cfg)} {
			require.Contains(t, bodyOf(t, send(h, submitting(urlencoded, "a=b"))), want)
		}
	}
}

// While the memory is full a form goes the way that it always goes: a client that is told that nothing is
// needed passes without a tally, and a client that buys one passes with it, though what they have left is
// less.
func TestFormsPassWhileTheMemoryIsFull(t *testing.T) {
	for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers} {
		now := new(clock)
		cfg := challenging(now, mode)
		cfg.MaxClients, cfg.Challenge.Crowd, cfg.Challenge.SalesPerHour = 256, 255, 1020
		cfg.Limits = []middleware.Limit{{Quota: 5, Window: time.Hour}}
		h := newSite(t, cfg)
		for i := range 2200 { // over 1536 cells
			at := from(fmt.Sprintf("%d.51.%d.%d", 11+i%100, i/256, i%256)) // one network alone takes a quarter of the room for sales
			if mode == middleware.WhenExhausted {
				send(h, at)
				continue
			}
			send(h, proving(solved(t, fetched(h, at))), at) // tallies that were bought fill it too
			now.Advance(time.Second)
		}
		require.Greater(t, h.M.Stats().Fill, 0.9)
		inherited := 0
		for i := range 40 {
			me := from(fmt.Sprintf("192.0.2.%d", i))
			var cookies []string
			if asked(t, h, 1, me) {
				resp := redeemed(h, solved(t, fetched(h, me)), me)
				require.Len(t, resp.Cookies(), 1)
				cookies = append(cookies, resp.Cookies()[0].Name+"="+resp.Cookies()[0].Value)
				require.GreaterOrEqual(t, expiresIn(t, resp), int64(3600), "as long as a tally lives")
			}
			require.Equal(t, http.StatusOK, send(h, me, with("Cookie", strings.Join(cookies, "; "))).StatusCode, "%v", mode)
			now.Advance(10 * time.Second) // sales of one moment have few places in so small a memory
			if h.Decisions.Last().Inherited > 0 {
				inherited++
			}
		}
		require.Positive(t, inherited, "the memory was full, %v", mode)
	}
}

// expiresIn is what a redemption says of how long it is worth something.
func expiresIn(t testing.TB, resp *http.Response) int64 {
	t.Helper()
	var body struct {
		ExpiresIn int64 `json:"expires-in"`
	}
	require.NoError(t, json.Unmarshal([]byte(bodyOf(t, resp)), &body))
	return body.ExpiresIn
}

// A browser that runs a script and cannot do the work asks for a ticket, waits, and
// sends its form: what was typed never leaves its page.
func TestTicketEndpoint(t *testing.T) {
	ticket := both(method(http.MethodGet), path("/tally/ticket"))
	tells := func(body string) func(*scene) { return func(s *scene) { require.JSONEq(s, body, s.body) } }
	refused := func(name string) step { return step{hold: name, times: 1} }
	full := func(name string) step {
		return step{as: ticket, hold: name, want: 200, see: all{func(s *scene) {
			require.Regexp(s, `^\{"wait":[1-9][0-9]*,"carried":true\}`, s.body, "the room is full")
			require.NotEmpty(s, waitCookieIn(s, s.last))
		}}}
	}
	inAllModes(t, func(t *testing.T, mode middleware.Mode) {
		var others []string
		play(t, []scenario{{"a ticket", roomed(mode), []step{
			{do: func(s *scene) { spendShared(s, s.site, mode) }, as: ticket, want: 200, keep: "1", see: all{tells(`{"wait":5,"carried":false}`), func(s *scene) {
				require.Len(s, s.tickets["1"], 44)
			}}},
			{after: 2 * time.Second, as: ticket, hold: "1", want: 200, see: all{tells(`{"wait":3,"carried":true}`), func(s *scene) {
				require.Equal(s, s.tickets["1"], waitCookieIn(s, s.last), "the same: its wait does not begin anew")
			}}},
			refused("1"),
			{after: 3 * time.Second, as: ticket, hold: "1", want: 200, see: all{tells(`{"wait":0,"carried":true}`), func(s *scene) {
				require.Empty(s, waitCookieIn(s, s.last), "nothing is charged, nothing has changed")
			}}},
			{hold: "1", times: laneQuota + 1, passes: 1}, // what one ticket is good for
			{as: ticket, hold: "1", want: 200, keep: "2", see: all{tells(`{"wait":5,"carried":true}`), func(s *scene) {
				require.NotEqual(s, s.tickets["1"], s.tickets["2"], "the next, though this one is used up")
				s.tickets["spare"], others = ticketsOf(s, s.site, 1)[0], ticketsOf(s, s.site, laneQuota)
			}}},
			{after: 5 * time.Second, as: ticket, hold: "spare", want: 200, see: all{tells(`{"wait":0,"carried":true}`), func(s *scene) {
				require.Equal(s, laneQuota-1, admittedWith(s.site, others))
			}}},
			full("1"), refused("1"), full("spare"), refused("spare"), // a form that is sent now is refused
		}}})
	})
}

// A page that has bought something asks whether its browser brings it along.
func TestPurchasesThatComeAlong(t *testing.T) {
	carried := func(t *testing.T, h http.Handler, options ...option) bool {
		body := bodyOf(t, fetched(h, options...))
		require.True(t, strings.HasPrefix(body, `{"needed":`), body)
		return strings.Contains(body, `"carried":true`)
	}
	inAllModes(t, func(t *testing.T, mode middleware.Mode) {
		now := new(clock)
		h := newSite(t, challenging(now, mode))
		require.False(t, carried(t, h))
		redemption := requireStatus(t, http.StatusOK, redeemed(h, solved(t, fetched(h))))
		cookies := redemption.Cookies()
		require.Len(t, cookies, 1)
		bring := func(r *http.Request) { r.AddCookie(cookies[0]) }
		require.True(t, carried(t, h, bring))
		require.Equal(t, mode != middleware.EveryRequest, carried(t, h, bring, from("203.0.113.9")), "a tally belongs to its holder, a proof to the client that was asked")
		now.Advance(3 * time.Hour)
		require.False(t, carried(t, h, bring), "it has ended")
	})
}

func browserSite(t *testing.T) (http.Handler, *middleware.Middleware) {
	t.Helper()
	m := newLimiter(t, challenging(new(clock), middleware.Newcomers))
	return m.Endpoints(), m
}

var assets = []string{"tally.js", "fetch.js", "texts.js", "solver.js", "page.js", "tally.css", "page.css"}

func TestAssetsAreServedUnderTwoNames(t *testing.T) {
	h, m := browserSite(t)
	require.Regexp(t, `^/tally/[0-9a-f]{16}/tally\.js$`, m.ScriptURL())
	folder := strings.TrimSuffix(m.ScriptURL(), "tally.js")
	require.Equal(t, folder+"tally.css", m.StyleURL())
	compressed, plainly := with("Accept-Encoding", "gzip, deflate, br, zstd"), with("Accept-Encoding", "gzip;q=0, br")
	for _, name := range assets {
		kind := "text/javascript; charset=utf-8"
		if strings.HasSuffix(name, ".css") {
			kind = "text/css; charset=utf-8"
		}
		var tags []string
		var whole string
		for _, encoding := range []option{plainly, compressed} {
			plain, hashed := send(h, method("GET"), path("/tally/"+name), encoding), send(h, method("GET"), path(folder+name), encoding)
			for url, resp := range map[string]*http.Response{"/tally/" + name: plain, folder + name: hashed} {
				require.Equal(t, http.StatusOK, resp.StatusCode)
				requireHeader(t, resp, "Content-Type", kind, "X-Content-Type-Options", "nosniff", "Vary", "Accept-Encoding")
				require.Empty(t, resp.Cookies())
				body := bodyOf(t, resp)
				require.Equal(t, strconv.Itoa(len(body)), resp.Header.Get("Content-Length"))
				if resp.Header.Get("Content-Encoding") == "gzip" {
					r := kit.Must(gzip.NewReader(strings.NewReader(body)))(t)
					text := kit.Must(io.ReadAll(r))(t)
					require.Equal(t, whole, string(text))
					require.Less(t, len(body), len(whole))
				} else {
					require.NotEmpty(t, body)
					whole = body
				}
				again := requireStatus(t, http.StatusNotModified, send(h, method("GET"), path(url), encoding, with("If-None-Match", resp.Header.Get("Etag"))))
				requireHeader(t, again, "Vary", "Accept-Encoding", "Content-Encoding", "")
				head := send(h, method("HEAD"), path(url), encoding)
				require.Equal(t, resp.Header.Get("Content-Length"), head.Header.Get("Content-Length"))
				require.Empty(t, bodyOf(t, head))
			}
			// One range is served. Of several, each has a head of its own: whole is less.
			ranged := requireStatus(t, http.StatusPartialContent, send(h, method("GET"), path("/tally/"+name), encoding, with("Range", "bytes=0-9")))
			require.Len(t, bodyOf(t, ranged), 10)
			for _, dear := range []option{with("Range", "bytes=0-0,1-1"), with("If-None-Match", strings.Repeat(`"",`, 85)+plain.Header.Get("Etag"))} {
				require.Equal(t, http.StatusOK, send(h, method("GET"), path("/tally/"+name), encoding, dear).StatusCode)
			}
			require.Equal(t, "no-cache", plain.Header.Get("Cache-Control"))
			require.Equal(t, "public, max-age=31536000, immutable", hashed.Header.Get("Cache-Control"))
			tags = append(tags, hashed.Header.Get("Etag"))
		}
		require.NotEqual(t, tags[0], tags[1], "each encoding has a tag of its own")

		// Another version's name gets this version, which may not be kept for ever.
		resp := requireStatus(t, http.StatusOK, send(h, method("GET"), path("/tally/0123456789abcdef/"+name)))
		require.Equal(t, "no-cache", resp.Header.Get("Cache-Control"))
		require.Empty(t, resp.Header.Get("Content-Encoding"), "a client that says nothing may not know it")
		for _, none := range []string{"x" + name, "0123456789abcdeg/" + name, "0123456789abcde/" + name, "/" + name, "0123456789abcdef/x/" + name} {
			require.Equal(t, http.StatusNotFound, send(h, method("GET"), path("/tally/"+none)).StatusCode, none)
		}
		require.Equal(t, http.StatusMethodNotAllowed, send(h, method("POST"), path("/tally/"+name)).StatusCode)
	}
	require.Empty(t, newLimiter(t, contact(new(clock))).ScriptURL())
}

// Scripts import each other by names that are relative. So one of a version imports what is of it, and a
// copy of the files works wherever it lies.
func TestAssetsImportWhatIsBesideThem(t *testing.T) {
	h, m := browserSite(t)
	folder, seen := strings.TrimSuffix(m.ScriptURL(), "tally.js"), map[string]bool{}
	for name := range strings.SplitSeq("tally.js page.js fetch.js texts.js solver.js", " ") {
		text := bodyOf(t, send(h, method("GET"), path(folder+name)))
		text = strings.ReplaceAll(text, "import(`./texts-${", "") // see TestOneFileForEachLanguage
		for _, found := range regexp.MustCompile(`\b(?:import|from)\b\s*\(?\s*["'\x60]([^"'\x60]*)`).FindAllStringSubmatch(text, -1) {
			file, beside := strings.CutPrefix(found[1], "./")
			require.True(t, beside, "%s: %s", name, found[1])
			require.Contains(t, assets, file)
			seen[file] = true
		}
	}
	require.Len(t, seen, 3, "fetch, texts, and one solver, by whichever way")
}

// TestOneFileForEachLanguage: a browser gets the texts of its page's language, and of no other. They are too small to be
// worth compressing.
func TestOneFileForEachLanguage(t *testing.T) {
	h, m := browserSite(t)
	folder := strings.TrimSuffix(m.ScriptURL(), "tally.js")
	seen := map[string]bool{}
	for tag := range strings.SplitSeq("de fr es it pt nl pl ja zh he ru ko tr uk", " ") {
		name := "texts-" + tag + ".js"
		plain := requireTarget(t, h, "/tally/"+name, "no-cache")
		require.Equal(t, plain, requireTarget(t, h, folder+name, "public, max-age=31536000, immutable"))
		require.Regexp(t, `(?s)^export default *\{idle:"",working:"[^"]+",.*cancel:"[^"]+"\};$`, plain)
		require.Less(t, len(plain), 1400, tag)
		require.False(t, seen[plain], tag)
		seen[plain] = true
	}
	for _, none := range []string{"en", "xx", "", "d", "DE", "de export", "de\nfr", ".", "de.js", "de-AT"} {
		target := "/tally/" + url.PathEscape("texts-"+none+".js")
		require.Equal(t, http.StatusNotFound, send(h, method("GET"), path(target)).StatusCode, none)
	}
	require.Equal(t, http.StatusNotFound, send(h, method("GET"), path("/tally/texts-de")).StatusCode)
}

// requireTarget returns a script that is served as it is, with the same tag each time.
func requireTarget(t *testing.T, h http.Handler, target, cached string) string {
	t.Helper()
	first := requireStatus(t, http.StatusOK, send(h, method("GET"), path(target), with("Accept-Encoding", "gzip")))
	require.Empty(t, first.Header.Get("Content-Encoding"))
	require.Equal(t, cached, first.Header.Get("Cache-Control"))
	require.Equal(t, "text/javascript; charset=utf-8", first.Header.Get("Content-Type"))
	tag := first.Header.Get("Etag")
	require.NotEmpty(t, tag)
	requireStatus(t, http.StatusNotModified, send(h, method("GET"), path(target), with("If-None-Match", tag)))
	return bodyOf(t, first)
}

// TestAssetsAreSmall holds the files of the element together to what docs/forms.md says: 24 KB, and
// 11 KB as browsers get them. A language takes 1 KB more.
func TestAssetsAreSmall(t *testing.T) {
	h, _ := browserSite(t)
	raw, compressed := 0, 0
	for _, file := range []string{"tally.js", "fetch.js", "texts.js", "solver.js", "tally.css"} {
		whole := bodyOf(t, send(h, method("GET"), path("/tally/"+file)))
		small := bodyOf(t, send(h, method("GET"), path("/tally/"+file), with("Accept-Encoding", "gzip")))
		t.Logf("%s: %d bytes, %d compressed", file, len(whole), len(small))
		raw += len(whole)
		compressed += len(small)
	}
	t.Logf("%d bytes in all, %d compressed", raw, compressed)
	require.Less(t, raw, 23_900)
	require.Less(t, compressed, 10_900)
	text := kit.Must(os.ReadFile("../docs/forms.md"))(t)
	for _, size := range []int{raw, compressed} {
		figure := fmt.Sprintf("%.0f KB", float64(size)/1000)
		require.True(t, strings.Contains(string(text), figure), "docs/forms.md does not say %s", figure)
	}
}
