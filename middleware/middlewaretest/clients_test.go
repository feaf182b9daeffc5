// SPDX-License-Identifier: Apache-2.0

package middlewaretest_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/middlewaretest"
	"github.com/tallystick/tallystick/proof/kit"
)

var nothing = &http.Response{}

// Three instances that share nothing: an honest client has one quota, and one that forgets has
// one of each.
func TestClientsOfAFleet(t *testing.T) {
	for name, test := range map[string]struct {
		open func(http.Handler, string) *http.Client
		most int
	}{
		"browser":   {middlewaretest.Browser, 5},
		"script":    {middlewaretest.Script, 5},
		"forgetful": {middlewaretest.Forgetful, 15},
	} {
		t.Run(name, func(t *testing.T) {
			clock := middlewaretest.NewClock()
			var instances []http.Handler
			for range 3 {
				instances = append(instances, newSite(t, contact(clock)))
			}
			next := 0
			fleet := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next++
				instances[next%3].ServeHTTP(w, r)
			})
			require.Equal(t, test.most, admitted(t, test.open(fleet, "203.0.113.1"), 30))
			require.Equal(t, test.most, admitted(t, test.open(fleet, "[2001:db8::1]:99"), 30), "another address")
		})
	}
}

func TestTheHandlerSeesARequestOfAServer(t *testing.T) {
	var seen *http.Request
	var body string
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		b := kit.Must(io.ReadAll(r.Body))(t)
		body = string(b)
		w.Header().Set("X-Seen", "1")
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("X-Seen", "2")
	})
	resp := kit.Must(middlewaretest.Forgetful(h, "").Post("https://example.com/a%2Fb?c=d#e", "text/plain", strings.NewReader("words")))(t)
	require.Equal(t, http.StatusTeapot, resp.StatusCode)
	require.Equal(t, "1", resp.Header.Get("X-Seen"), "what was sent")
	require.Equal(t, "https://example.com/a%2Fb?c=d#e", resp.Request.URL.String())
	require.Equal(t, []any{"192.0.2.1:1234", "example.com", "/a%2Fb?c=d", "", "/a/b", true, "words"},
		[]any{seen.RemoteAddr, seen.Host, seen.RequestURI, seen.URL.Host, seen.URL.Path, seen.TLS != nil, body})

	kit.Must(middlewaretest.Browser(h, "::1").Get("http://example.com"))(t)
	require.Nil(t, seen.TLS)
	require.Equal(t, "[::1]:1234", seen.RemoteAddr)
	require.Equal(t, "/", seen.RequestURI)
	require.Contains(t, seen.Header.Get("Accept"), "text/html")
	require.Equal(t, "same-origin", seen.Header.Get("Sec-Fetch-Site"))
}

func TestDirectErrors(t *testing.T) {
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err := middlewaretest.Forgetful(h, "").Get("http://example.com")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = middlewaretest.Forgetful(h, "nonsense").Get("http://example.com")
	require.ErrorContains(t, err, "middlewaretest: ")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req := kit.Must(http.NewRequestWithContext(ctx, http.MethodGet, "http://example.com", nil))(t)
	_, err = middlewaretest.Forgetful(h, "").Do(req)
	require.ErrorIs(t, err, context.Canceled)
	fault := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a fault of the handler") })
	require.PanicsWithValue(t, "a fault of the handler", func() { _, _ = middlewaretest.Forgetful(fault, "").Get("http://example.com") })
}

func TestBuyIsForOnceOnly(t *testing.T) {
	site := newSite(t, selling(middlewaretest.NewClock(), middleware.Newcomers))
	browser := middlewaretest.Browser(site, "203.0.113.1")
	require.Equal(t, http.StatusForbidden, post(t, browser).StatusCode)
	require.True(t, middlewaretest.Buy(t, browser, "https://example.com/tally/"))
	require.False(t, middlewaretest.Buy(t, browser, "https://example.com/tally"), "it has one")
	require.Equal(t, 5, admitted(t, browser, 9))
	require.True(t, middlewaretest.Buy(t, browser, "https://example.com/tally/"))
	require.Equal(t, 5, admitted(t, browser, 9))
	said := fails(t, func(t testing.TB) {
		middlewaretest.Buy(t, middlewaretest.Browser(http.NotFoundHandler(), ""), "https://example.com/tally/")
	})
	require.Contains(t, said, "the response (404 Not Found) has no challenge")
}

// A purchase that the next request does not show is none.
func TestBuyOverPlainHTTP(t *testing.T) {
	cfg := selling(middlewaretest.NewClock(), middleware.Newcomers)
	said := fails(t, func(t testing.TB) {
		browser := middlewaretest.Browser(newSite(t, cfg), "")
		browser.Jar.SetCookies(&url.URL{Scheme: "http", Host: "example.com"}, []*http.Cookie{{Name: "other", Value: "x"}})
		middlewaretest.Buy(t, browser, "http://example.com/tally/")
	})
	require.Contains(t, said, "use an https URL, or Config.Advanced.InsecureCookie")
	cfg.InsecureCookie = true
	require.True(t, middlewaretest.Buy(t, middlewaretest.Browser(newSite(t, cfg), ""), "http://example.com/tally/"))
	cfg.InsecureCookie, cfg.TokenTransport = false, middleware.HeaderOnly
	require.True(t, middlewaretest.Buy(t, middlewaretest.Browser(newSite(t, cfg), ""), "http://example.com/tally/"), "it sends no cookie")
}

func TestProveIsAccepted(t *testing.T) {
	site := newSite(t, selling(middlewaretest.NewClock(), middleware.EveryRequest))
	c := middlewaretest.Script(site, "203.0.113.1")
	require.Equal(t, http.StatusOK, post(t, c, middleware.ProofHeader, middlewaretest.Prove(t, post(t, c))).StatusCode)
}

// What Quick changes, and what it leaves.
func TestQuick(t *testing.T) {
	clock := middlewaretest.NewClock()
	cfg := middleware.Config{MaxClients: 7, Challenge: &middleware.Challenge{Work: 1 << 20, Crowd: 3}}
	quick := middlewaretest.Quick(cfg, clock)
	require.Equal(t, clock.Now(), quick.Now())
	require.Equal(t, 7, quick.MaxClients)
	require.EqualValues(t, []int64{16, 3}, []int64{quick.Challenge.Work, quick.Challenge.Crowd})
	require.EqualValues(t, 1<<20, cfg.Challenge.Work, "the other is as it was")
	cfg = middlewaretest.Quick(middleware.Config{MaxClients: 5000, Challenge: &middleware.Challenge{NonceOnly: true}}, nil)
	require.Nil(t, cfg.Now)
	require.Equal(t, 1024, cfg.MaxClients)
	require.Zero(t, cfg.Challenge.Work)
	require.Zero(t, middlewaretest.Quick(middleware.Config{Advanced: middleware.Advanced{InsecureNoMemory: true}}, nil).MaxClients)
}

func TestClock(t *testing.T) {
	clock := middlewaretest.NewClock()
	start := clock.Now()
	require.Zero(t, start.Unix()%86_400)
	require.Equal(t, start, middlewaretest.NewClock().Now(), "always the same")
	kit.Together(8, func(int) { clock.Advance(time.Second); clock.Now() })
	clock.Advance(-time.Second)
	require.Equal(t, 7*time.Second, clock.Now().Sub(start))
	require.Equal(t, time.Minute, clock.Wait(t, &http.Response{Header: http.Header{"Retry-After": {"60"}}}))
	require.Equal(t, 67*time.Second, clock.Now().Sub(start))
}

// In a bubble time is virtual already.
func TestInABubble(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		cfg := selling(nil, middleware.WhenExhausted)
		site := newSite(t, cfg)
		r := httptest.NewRequest("POST", "/", nil)
		r.RemoteAddr = "203.0.113.1:4711"
		middlewaretest.Spend(t, site, r)
		require.NotEmpty(t, middlewaretest.OwnTokenAt(t, cfg, ada, 2))
		c := middlewaretest.Script(site, "203.0.113.1")
		require.Zero(t, admitted(t, c, 1))
		time.Sleep(time.Minute)
		require.Equal(t, 5, admitted(t, c, 9))
		require.True(t, middlewaretest.Buy(t, middlewaretest.Browser(site, "203.0.113.1"), "https://example.com/tally/"))
	})
}

func TestSpentIsRefusedWhateverItShows(t *testing.T) {
	for name, change := range map[string]func(*middleware.Config){
		"as it is":       func(*middleware.Config) {},
		"cookies alone":  func(cfg *middleware.Config) { cfg.TokenTransport = middleware.CookieOnly },
		"fields alone":   func(cfg *middleware.Config) { cfg.TokenTransport = middleware.HeaderOnly },
		"when exhausted": func(cfg *middleware.Config) { cfg.Challenge = &middleware.Challenge{Work: 16} },
		"a bucket":       func(cfg *middleware.Config) { cfg.Limits[0].Algorithm = middleware.TokenBucket },
	} {
		t.Run(name, func(t *testing.T) {
			clock := middlewaretest.NewClock()
			cfg := contact(clock)
			change(&cfg)
			site := newSite(t, cfg)
			r := httptest.NewRequest("POST", "/", strings.NewReader("words"))
			r.RemoteAddr = "203.0.113.1:4711"
			refusal := middlewaretest.Spend(t, site, r)
			require.Equal(t, http.StatusTooManyRequests, refusal.StatusCode)
			for _, c := range []*http.Client{
				middlewaretest.Browser(site, "203.0.113.1"), middlewaretest.Script(site, "203.0.113.1"), middlewaretest.Forgetful(site, "203.0.113.1"),
			} {
				require.Zero(t, admitted(t, c, 2))
			}
			require.Equal(t, 5, admitted(t, middlewaretest.Forgetful(site, "203.0.113.2"), 9), "no other client is spent")
			body := kit.Must(io.ReadAll(r.Body))(t)
			require.Equal(t, "words", string(body), "it can be sent again")

			clock.Wait(t, refusal)
			require.Positive(t, admitted(t, middlewaretest.Forgetful(site, "203.0.113.1"), 1))
		})
	}
}

// Where nothing is remembered, the tokens alone are used up.
func TestSpendShowsItsTokens(t *testing.T) {
	for name, transport := range map[string]middleware.TokenTransport{
		"either": middleware.HeaderOrCookie, "fields": middleware.HeaderOnly, "cookies": middleware.CookieOnly,
	} {
		t.Run(name, func(t *testing.T) {
			cfg := contact(middlewaretest.NewClock())
			cfg.InsecureNoMemory, cfg.MaxClients, cfg.TokenTransport = true, 0, transport
			calls := 0
			limit := kit.Must(middleware.New(cfg))(t)
			h := limit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ }))
			middlewaretest.Spend(t, h, httptest.NewRequest("POST", "/", nil))
			require.Equal(t, 5, calls)
		})
	}
}

func TestSpendUsesUpWhatWasBought(t *testing.T) {
	cfg := selling(middlewaretest.NewClock(), middleware.Newcomers)
	site := newSite(t, cfg)
	token := middlewaretest.OwnTokenAt(t, cfg, ada, 0)
	r := httptest.NewRequest("POST", "/", nil)
	r.RemoteAddr = "203.0.113.1:4711"
	r.Header.Set(middleware.TokenHeader, token)
	refusal := middlewaretest.Spend(t, site, r)
	require.NotEmpty(t, refusal.Header.Get(middleware.ChallengeHeader))
	require.Zero(t, admitted(t, middlewaretest.Forgetful(site, "203.0.113.1"), 2, middleware.TokenHeader, token))
	require.Equal(t, token, r.Header.Get(middleware.TokenHeader), "the request is as it was")
}

func TestSpendSaysWhatIsNoLimit(t *testing.T) {
	status := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	for _, code := range []int{401, 403, 503} {
		said := fails(t, func(t testing.TB) {
			middlewaretest.Spend(t, status(code), httptest.NewRequest("POST", "/x", nil))
		})
		require.Contains(t, said, fmt.Sprintf("POST /x is answered %d ", code))
	}
	site := newSite(t, selling(middlewaretest.NewClock(), middleware.Newcomers))
	said := fails(t, func(t testing.TB) { middlewaretest.Spend(t, site, httptest.NewRequest("POST", "/", nil)) })
	require.Contains(t, said, "no-token", "work comes first")
}

// A token at count n leaves what n requests would have left, of each limit.
func TestTokenAt(t *testing.T) {
	for name, change := range map[string]func(*middleware.Config){
		"one limit": func(*middleware.Config) {},
		"two": func(cfg *middleware.Config) {
			cfg.Limits = append(cfg.Limits, middleware.Limit{Quota: 6, Window: time.Hour})
		},
		"a bucket":  func(cfg *middleware.Config) { cfg.Limits[0].Algorithm = middleware.TokenBucket },
		"exhausted": func(cfg *middleware.Config) { cfg.Challenge = &middleware.Challenge{Work: 16} },
		"every request": func(cfg *middleware.Config) {
			cfg.Challenge = &middleware.Challenge{Work: 16, Mode: middleware.EveryRequest}
		},
		"all else": func(cfg *middleware.Config) {
			cfg.Quiet, cfg.Fields, cfg.InsecureCookie = true, middleware.RateLimitFields|middleware.XRateLimitInSeconds, true
			cfg.Concurrency = &middleware.Concurrency{Max: 1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for n := int64(1); n <= 5; n++ {
				cfg := contact(middlewaretest.NewClock())
				change(&cfg)
				token := middlewaretest.TokenAt(t, cfg, ada, n)
				if name == "every request" {
					continue // the count is the same, and takes a proof to see
				}
				c := middlewaretest.Forgetful(newSite(t, cfg), "203.0.113.1")
				require.EqualValues(t, 5-n, admitted(t, c, 9, middleware.TokenHeader, token), "at count %d", n)
				require.Equal(t, 5, admitted(t, middlewaretest.Forgetful(newSite(t, cfg), "203.0.113.1"), 9), "no instance remembers it")
			}
		})
	}
}

func TestTokenAtIsOfATier(t *testing.T) {
	cfg := contact(middlewaretest.NewClock())
	cfg.Tiers = map[string][]middleware.Limit{"gold": {{Algorithm: middleware.FixedWindow, Quota: 50, Window: time.Minute}}}
	gold := middleware.Principal("ada")
	gold.Tier = "gold"
	require.NotEmpty(t, middlewaretest.TokenAt(t, cfg, gold, 50))
	said := fails(t, func(t testing.TB) { middlewaretest.TokenAt(t, cfg, ada, 50) })
	require.Contains(t, said, `no client of policy "contact" has a token at count 50: cost-above-quota`)
}

func TestOwnTokenAt(t *testing.T) {
	for name, mode := range map[string]middleware.Mode{"newcomers": middleware.Newcomers, "when exhausted": middleware.WhenExhausted} {
		t.Run(name, func(t *testing.T) {
			for n := range int64(6) {
				cfg := selling(middlewaretest.NewClock(), mode)
				token := middlewaretest.OwnTokenAt(t, cfg, ada, n)
				site := newSite(t, cfg)
				if mode == middleware.WhenExhausted {
					require.Equal(t, 5, admitted(t, middlewaretest.Forgetful(site, "203.0.113.1"), 9), "of what is shared")
				}
				elsewhere := middlewaretest.Forgetful(site, "203.0.113.1")
				require.EqualValues(t, 5-n, admitted(t, elsewhere, 9, middleware.TokenHeader, token), "at count %d", n)
			}
		})
	}
}

func TestTokensThatNobodyHas(t *testing.T) {
	clock := middlewaretest.NewClock()
	for said, f := range map[string]func(testing.TB){
		"nothing is shared in Newcomers":    func(t testing.TB) { middlewaretest.TokenAt(t, selling(clock, middleware.Newcomers), ada, 1) },
		"no client has a token at count 0":  func(t testing.TB) { middlewaretest.TokenAt(t, contact(clock), ada, 0) },
		"has a token at count 6":            func(t testing.TB) { middlewaretest.TokenAt(t, contact(clock), ada, 6) },
		"at count 1: identity-unknown":      func(t testing.TB) { middlewaretest.TokenAt(t, contact(clock), middleware.Identity{}, 1) },
		`policy "contact" sells no tallies`: func(t testing.TB) { middlewaretest.OwnTokenAt(t, contact(clock), ada, 1) },
		"contact\" sells no tallies":        func(t testing.TB) { middlewaretest.OwnTokenAt(t, selling(clock, middleware.EveryRequest), ada, 1) },
		"contact\" has a token at count 6":  func(t testing.TB) { middlewaretest.OwnTokenAt(t, selling(clock, middleware.WhenExhausted), ada, 6) },
		`policy "contact" has a counter`: func(t testing.TB) {
			cfg := contact(clock)
			cfg.Exact = new(middleware.Exact)
			middlewaretest.TokenAt(t, cfg, ada, 1)
		},
		"Policy":                                 func(t testing.TB) { middlewaretest.TokenAt(t, middleware.Config{}, ada, 1) },
		"the response () has no challenge":       func(t testing.TB) { middlewaretest.Prove(t, nothing) },
		`the Retry-After of this response () is`: func(t testing.TB) { clock.Wait(t, nothing) },
	} {
		require.Contains(t, fails(t, f), said)
	}
}

// contact is a policy of five a minute, in fixed windows.
func contact(clock *middlewaretest.Clock) middleware.Config {
	return middlewaretest.Quick(middleware.Config{
		Policy:  "contact",
		Limits:  []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 5, Window: time.Minute}},
		Secrets: [][]byte{secret[:]},
		Logger:  slog.New(slog.DiscardHandler),
	}, clock)
}

// selling is the same, where tallies are sold.
func selling(clock *middlewaretest.Clock, mode middleware.Mode) middleware.Config {
	cfg := contact(clock)
	cfg.Challenge = &middleware.Challenge{Mode: mode, Work: 16, Path: "/tally/"}
	return cfg
}

// newSite returns the limiter around a handler that says ok, with its endpoints.
func newSite(t testing.TB, cfg middleware.Config) http.Handler {
	t.Helper()
	limit := kit.Must(middleware.New(cfg))(t)
	mux := http.NewServeMux()
	mux.Handle("/", limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, "ok %s", body)
	})))
	mux.Handle("/tally/", limit.Endpoints())
	return mux
}

// admitted sends n requests and returns how many were admitted.
func admitted(t testing.TB, c *http.Client, n int, fields ...string) (passed int) {
	t.Helper()
	for range n {
		if post(t, c, fields...).StatusCode < 400 {
			passed++
		}
	}
	return passed
}

// post sends one, with header fields: names and values in turn.
func post(t testing.TB, c *http.Client, fields ...string) *http.Response {
	t.Helper()
	req := kit.Must(http.NewRequest(http.MethodPost, "https://example.com/", nil))(t)
	for i := 0; i < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	resp := kit.Must(c.Do(req))(t)
	require.NoError(t, resp.Body.Close())
	return resp
}

var ada = middleware.Address(netip.MustParseAddr("203.0.113.1"))

// A failing is a test that is to fail.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	panic(f)
}

// fails requires that f fails its test, and returns what it says.
func fails(t *testing.T, f func(testing.TB)) (said string) {
	t.Helper()
	doomed := &failing{TB: t}
	defer func() {
		require.Same(t, doomed, recover(), "it does not fail")
		said = doomed.said
	}()
	f(doomed)
	return ""
}
