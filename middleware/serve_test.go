// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/kit"
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

// A request is decided as of the time when the program has said who asks and what it costs. What is decided as of a window that
// is over would have its client begin the present one anew.
func TestADecisionIsOfThePresent(t *testing.T) {
	slow := func(r *http.Request) {
		if r.Header.Get("Slow") != "" {
			time.Sleep(3 * time.Second)
		}
	}
	for name, change := range map[string]func(*middleware.Config){
		"a cost": func(cfg *middleware.Config) {
			cfg.Cost = func(r *http.Request) int64 { slow(r); return 1 }
		},
		"the cost of a unit": func(cfg *middleware.Config) {
			cfg.Units = map[string]middleware.Unit{"calls": {Limits: []string{"contact"}, Cost: func(r *http.Request) int64 { slow(r); return 1 }}}
		},
		"an identity": func(cfg *middleware.Config) {
			cfg.Identity = func(r *http.Request) (middleware.Identity, error) { slow(r); return middleware.PeerAddress(r) }
		},
		"a counter in an outage": func(cfg *middleware.Config) {
			cfg.Exact = &middleware.Exact{Outage: middleware.FailOpen, Deadline: 3 * time.Second, Counter: &altered{OnTake: func(ctx context.Context, _ exact.Call) (exact.Verdict, error) {
				if time.Now().Unix()%10 == 8 { // it hangs when the slow ones come, and then fails at once
					<-ctx.Done()
				}
				return exact.Verdict{}, exact.ErrNotCounted
			}}}
		},
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			cfg := contact(new(clock))
			cfg.Now, cfg.Limits = time.Now, []middleware.Limit{fixed(20, 10*time.Second)}
			cfg.Limits[0].Name = "contact"
			change(&cfg)
			h := newLimiter(t, cfg).Handler(new(spy))
			time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(18 * time.Second)))
			for i := range 3 {
				time.AfterFunc(time.Duration(i)*100*time.Millisecond, func() { send(h, with("Slow", "1")) })
			}
			time.Sleep(3050 * time.Millisecond)
			got := 0
			for range 6 {
				for range 25 {
					if send(h).StatusCode == http.StatusOK {
						got++
					}
				}
				time.Sleep(100 * time.Millisecond)
			}
			require.LessOrEqual(t, got, 20)
			require.Positive(t, got)
		})
	}
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
	cfg := changed(contact(new(clock)), forms(middleware.WhenExhausted), func(cfg *middleware.Config) { cfg.Challenge.Path = "/tally/" })
	for _, p := range []string{
		"/tally", "/tally/", "/tally/contact", "/tally/challenge/", "/tally/challenge/x", "/tally//challenge", "//tally/challenge", "/tally/../contact",
		"/tally/../tally/challenge", "/tally/challenge/../../contact", "/tally/x/../challenge", "/tally/./challenge", "/tally/Challenge", "/Tally/challenge",
		"/tally/challenge;x", "/tally/challenge ", "/tally/challenge\x00", "/tally/%2e%2e/contact", "/tally/challenge%2f..", "/tally\\challenge", "/tally/\\challenge",
		"/tally/tally.js/contact", "/tally/0123456789abcdef/", "/tally/0123456789abcdef/contact", "/tally/0123456789abcdef/../tally.js", "/x/tally/challenge", "tally/challenge", "",
	} {
		page := new(spy)
		h := newLimiter(t, cfg).Handler(page) // which looks at no path
		require.Equal(t, 5, admitted(h, 9, path(p)), "%q", p)
		require.EqualValues(t, 5, page.Calls.Load(), "%q", p)
	}
	// As a server reads them off the wire: what is escaped is the same path, or none of these.
	_, h, _, page := siteWide(t, cfg, true)
	server, client := serve(t, h), clientAt(t, "127.0.0.1")
	status := func(raw string) int {
		r := kit.Must(http.NewRequest(http.MethodGet, server.URL+raw, http.NoBody))(t)
		resp := kit.Must(client.Do(r))(t)
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

// platforms imitate, for each row of docs/operations.md, what a server there is sent: which address connects, where %s is the
// client, and the fields of the platform, where a client at addr has written madeUp into every field that names clients;
// or none, if madeUp is empty. What the platform passes on is there already.
var platforms = map[string]struct {
	peer string
	adds func(r *http.Request, addr, madeUp string)
}{
	"Fly.io": {"172.16.4.2:4711", func(r *http.Request, addr, _ string) {
		forward(r, addr)
		forward(r, "66.241.125.1") // the app's own
		r.Header.Set("Fly-Client-IP", addr)
	}},
	"Cloud Run": {"169.254.169.126:4711", func(r *http.Request, addr, _ string) {
		forward(r, addr)
		r.Header.Set("Forwarded", `for="`+addr+`";proto=https`)
	}},
	"Lambda, function URL": {"%s", keepsTheFirst},
	"Lambda, API Gateway v1 (REST)": {"%s", func(r *http.Request, addr, _ string) {
		forward(r, addr)
		forward(r, fmt.Sprintf("130.176.1.%d", edge.Add(1)%250)) // CloudFront, of an edge-optimized API
	}},
	"Lambda, API Gateway v2 (HTTP)": {"%s", appendsTo},
	"Lambda, ALB":                   {"", appendsTo},
	"Lambda Web Adapter, function URL or API Gateway": {"127.0.0.1:4711", func(r *http.Request, addr, madeUp string) {
		keepsTheFirst(r, addr, madeUp)
		r.Header.Set("X-Amzn-Request-Context", `{"http":{"method":"POST","sourceIp":"`+addr+`"}}`)
		if strings.HasSuffix(addr, "1") { // as well as the other format
			r.Header.Set("X-Amzn-Request-Context", `{"identity":{"userAgent":"curl","sourceIp":"`+addr+`"}}`)
		}
	}},
	"Lambda Web Adapter, ALB": {"127.0.0.1:4711", appendsTo},
	"Cloudflare":              {"173.245.48.9:4711", cloudflare},
	"Cloudflare Tunnel":       {"[::1]:4711", cloudflare},
	"nginx":                   {"127.0.0.1:4711", replaces},
	"nginx, Unix socket":      {"@", replaces},
	"Caddy":                   {"127.0.0.1:4711", replaces},
	"HAProxy, HTTP":           {"127.0.0.1:4711", func(r *http.Request, addr, _ string) { r.Header.Add("X-Forwarded-For", addr) }}, // a line of its own
	"HAProxy, PROXY protocol": {"%s:4711", func(*http.Request, string, string) {}},
}

func appendsTo(r *http.Request, addr, _ string)          { forward(r, addr) }
func replaces(r *http.Request, addr, _ string)           { r.Header.Set("X-Forwarded-For", addr) }
func keepsTheFirst(r *http.Request, addr, madeUp string) { replaces(r, cmp.Or(madeUp, addr), "") } // entry of all

func cloudflare(r *http.Request, addr, _ string) {
	forward(r, addr)
	r.Header.Set("CF-Connecting-IP", addr)
}

// edge counts the machines of an edge: none serves two requests.
var edge atomic.Int64

// forward appends to the list of addresses as most proxies do, in one line.
func forward(r *http.Request, entry string) {
	if before := r.Header.Get("X-Forwarded-For"); before != "" {
		entry = before + ", " + entry
	}
	r.Header.Set("X-Forwarded-For", entry)
}

// docs/operations.md prints this function.
func lambdaClient(r *http.Request) (middleware.Identity, error) {
	var event struct{ HTTP, Identity struct{ SourceIP string } }
	err := json.Unmarshal([]byte(r.Header.Get("X-Amzn-Request-Context")), &event)
	addr, _ := netip.ParseAddr(cmp.Or(event.HTTP.SourceIP, event.Identity.SourceIP))
	return middleware.Address(addr), err
}

// A platformRow holds what the documentation says of a platform.
type platformRow struct{ name, trusted, identity string }

func platformRows(t *testing.T) (rows []platformRow) {
	t.Helper()
	page := kit.Must(os.ReadFile("../docs/operations.md"))(t)
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[1]) == "Platform" {
			continue
		}
		rows = append(rows, platformRow{strings.TrimSpace(cells[1]), cells[2], cells[3]})
	}
	return rows
}

// build makes the identity function that a row says, from its words.
func (row platformRow) build(t *testing.T) middleware.IdentityFunc {
	t.Helper()
	var trusted []netip.Prefix
	for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row.trusted, -1) {
		trusted = append(trusted, netip.MustParsePrefix(quoted[1]))
	}
	call := regexp.MustCompile("`(\\w+)(?:\\((?:\"([^\"]+)\")?(?:, )?(trusted\\.\\.\\.)?\\))?`").FindStringSubmatch(row.identity)
	require.NotNil(t, call, row.identity)
	function, header := call[1], call[2]
	require.Equal(t, len(trusted) > 0, call[3] != "", "the networks are in the call")
	var identify middleware.IdentityFunc
	var err error
	switch function {
	case "PeerAddress":
		identify = middleware.PeerAddress
	case "lambdaClient":
		identify = lambdaClient
	case "ForwardedFor":
		identify, err = middleware.ForwardedFor(trusted...)
	case "AddressFromHeader":
		identify, err = middleware.AddressFromHeader(header, trusted...)
	case "InsecureNoPeer":
		identify, err = middleware.InsecureNoPeer(header, trusted...)
	}
	require.NoError(t, err)
	require.NotNil(t, identify, function)
	return identify
}

// On each platform, as its row says: two clients have two quotas, one has one, and what
// a client makes up gains it nothing.
func TestPlatforms(t *testing.T) {
	rows := platformRows(t)
	require.Len(t, rows, len(platforms), "a row is a test")
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			platform, known := platforms[row.name]
			require.True(t, known)
			now := new(clock)
			h := newSite(t, changed(contact(now), func(cfg *middleware.Config) { cfg.Limits[0].Window = time.Hour; cfg.Identity = row.build(t) }))
			client := func(addr string, madeUp func(i int) string) (passed int) {
				for i := range 10 {
					now.Advance(time.Second) // so that each is checked
					said := madeUp(i)
					passed += admitted(h, 1, func(r *http.Request) {
						if said != "" {
							with("X-Forwarded-For", said, "Forwarded", "for="+said, "X-Real-IP", said, "True-Client-IP", said, "Fly-Client-IP", said,
								"CF-Connecting-IP", said, "X-Amzn-Request-Context", `{"http":{"sourceIp":"`+said+`"}}`)(r)
						}
						r.RemoteAddr = strings.Replace(platform.peer, "%s", addr, 1)
						platform.adds(r, addr, said)
					})
				}
				return passed
			}
			silent := func(int) string { return "" }
			require.Equal(t, 5, client("203.0.113.1", silent))
			require.Equal(t, 5, client("203.0.113.2", silent), "another client")
			require.Empty(t, h.Log.Lines(), "nothing to mend")
			require.Zero(t, client("203.0.113.1", func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }), "the spent one")
			require.Equal(t, 5, client("203.0.113.3", func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }), "and a new one")
			require.Equal(t, 5, client("203.0.113.4", func(int) string { return "198.51.100.77" }), "a client that names another")
			require.Equal(t, 5, client("198.51.100.77", silent), "has spent nothing of that one's")
		})
	}
}

// through runs a handler behind the limiter with a writer of our own.
func through(t *testing.T, w http.ResponseWriter, httpMethod string, handler http.HandlerFunc, changes ...change) {
	t.Helper()
	r := httptest.NewRequest(httpMethod, "/", nil)
	newLimiter(t, changed(contact(new(clock)), changes...)).Handler(handler).ServeHTTP(w, r)
}

// TestWrapKeepsTheInterfaces of package reply has the optional interfaces of a writer.
func TestThreatsOfWrapping(t *testing.T) {
	t.Run("T36 the header is settled once", func(t *testing.T) {
		raw := &writer{header: http.Header{}}
		through(t, raw, http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			clear(w.Header())
			w.Header().Set("Cache-Control", "upstream's")
			_, _ = io.WriteString(w, "ok")
		})
		require.NotEmpty(t, raw.sent.Get(middleware.TokenHeader))
		require.Equal(t, http.Header{"Cache-Control": {"upstream's"}}, raw.header, "what comes later are trailers")
	})
	t.Run("T36 switching protocols is a final response", func(t *testing.T) {
		raw := &writer{header: http.Header{}}
		through(t, raw, http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusSwitchingProtocols)
		})
		require.NotEmpty(t, raw.sent.Get(middleware.TokenHeader))
	})
	t.Run("T36 rc.Flush through wrappers", func(t *testing.T) {
		raw := &writer{header: http.Header{}}
		through(t, unwrapping{flushes{raw}}, http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
			require.NoError(t, http.NewResponseController(unwrapping{w}).Flush())
		})
		require.Equal(t, 1, raw.flushes)
		require.NotEmpty(t, raw.sent.Get(middleware.TokenHeader))
	})
	t.Run("T36 rc.Flush where there is none leaves the header open", func(t *testing.T) {
		raw := &writer{header: http.Header{}}
		through(t, raw, http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
			require.ErrorIs(t, http.NewResponseController(w).Flush(), http.ErrNotSupported)
			w.Header().Set("Cache-Control", "public, max-age=60")
			w.WriteHeader(http.StatusOK)
		})
		require.Empty(t, raw.sent.Get(middleware.TokenHeader))
	})
	t.Run("T36 other controls reach the server", func(t *testing.T) {
		resp := over(t, clientAt(t, "127.0.0.2"), behind(t, func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, "ok")
		}).URL, method(http.MethodGet))
		requireWhole(t, resp)
	})
	t.Run("T36 the header is written once under concurrent writers", func(t *testing.T) {
		raw := &writer{header: http.Header{}}
		through(t, raw, http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
			kit.Together(8, func(int) {
				if _, err := w.Write([]byte("ok")); err != nil {
					t.Error(err)
				}
			})
		})
		require.Equal(t, 16, raw.written)
		require.Len(t, raw.sent.Values(middleware.TokenHeader), 1)
		require.Len(t, raw.sent.Values("Set-Cookie"), 1)
	})
	t.Run("T36 Hijack", func(t *testing.T) {
		cfg := contact(new(clock))
		cfg.Limits[0].Quota = 1
		h := newLimiter(t, cfg).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, buf, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = buf.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			_ = buf.Flush()
			_ = conn.Close()
		}))
		server, client := serve(t, h), clientAt(t, "127.0.0.2")
		require.Empty(t, tokenIn(over(t, client, server.URL, method(http.MethodGet))), "gone with the connection")
		require.Equal(t, http.StatusTooManyRequests, over(t, client, server.URL, method(http.MethodGet)).StatusCode, "charged before")
	})
}

// An unwrapping is a middleware's writer that only knows how to unwrap.
type unwrapping struct{ http.ResponseWriter }

func (u unwrapping) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// requireWhole checks that a response carries all that it should, each once.
func requireWhole(t *testing.T, resp *http.Response) {
	t.Helper()
	for _, name := range []string{middleware.TokenHeader, "RateLimit", "RateLimit-Policy"} {
		require.Len(t, resp.Header.Values(name), 1, name)
		require.NotEqual(t, "upstream's", resp.Header.Get(name), name)
		require.Empty(t, resp.Trailer.Values(name), name)
	}
	require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
	require.NotNil(t, cookieIn(resp))
	require.Empty(t, resp.Header.Values("Retry-After"))
}

// behind serves a handler behind the limiter on a real server.
func behind(t *testing.T, handler http.HandlerFunc, around ...func(http.Handler) http.Handler) *httptest.Server {
	h := newLimiter(t, contact(new(clock))).Handler(handler)
	for _, wrap := range around {
		h = wrap(h)
	}
	return serve(t, h)
}

// The table of T36: our fields stand on the final response, each once, by every method, alone and in a stack, whatever a handler
// does to headers that were set before it ran, or tries to do after.
func TestThreatsOfWriting(t *testing.T) {
	files := http.FileServerFS(fstest.MapFS{"a": {Data: []byte("ok"), ModTime: midnight}})
	get := []string{http.MethodGet}
	all := append(get, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions)
	cleared := func(then http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			clear(w.Header())
			then(w, r)
		}
	}
	nothing := func(http.ResponseWriter, *http.Request) {}
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }
	panics := cleared(func(http.ResponseWriter, *http.Request) { panic("handler") })
	asking := func(path, ranged string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = path
			r.Header.Set("Range", ranged)
			files.ServeHTTP(w, r)
		}
	}
	for name, row := range map[string]struct {
		status  int
		methods []string
		handler http.HandlerFunc
		around  func(http.Handler) http.Handler
	}{
		"the handler writes before we could":   {200, all, ok, plain},
		"the handler writes nothing":           {200, all, nothing, plain},
		"the handler clears the map":           {200, all, cleared(ok), plain},
		"the handler clears the map alone":     {200, all, cleared(nothing), plain},
		"the handler clears it for no content": {204, all, cleared(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), plain},
		"the handler takes the token alone":    {200, all, func(w http.ResponseWriter, r *http.Request) { w.Header().Del(middleware.TokenHeader); ok(w, r) }, plain},
		"the handler flushes":                  {200, all, cleared(func(w http.ResponseWriter, r *http.Request) { w.(http.Flusher).Flush(); ok(w, r) }), plain},
		"the handler copies":                   {200, all, cleared(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader("ok")) }), plain},
		"a file":                               {200, all, asking("/a", ""), plain},
		"FileServer error":                     {404, all, asking("/missing", ""), plain},
		"ServeContent error":                   {416, get, asking("/a", "bytes=100-200"), plain},
		"http.Error":                           {418, all, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusTeapot) }, plain},
		"an early hint, or two":                {200, all, func(w http.ResponseWriter, r *http.Request) { hint(w, r); hint(w, r); ok(w, r) }, plain},
		"a timeout inside that is not reached": {200, all, http.TimeoutHandler(http.HandlerFunc(ok), time.Hour, "").ServeHTTP, plain},
		"ReverseProxy, upstream is down":       {502, all, proxyTo(t, "http://127.0.0.1:1").ServeHTTP, plain},
		"a panic, recovered outside":           {500, all, panics, recoverer},
		"a panic, recovered inside":            {500, all, recoverer(panics).ServeHTTP, plain},
		"the handler replaces Cache-Control": {200, all, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Cache-Control", "no-cache")
			w.WriteHeader(http.StatusOK)
		}, plain},
		"the handler flushes by a controller": {200, all, cleared(func(w http.ResponseWriter, r *http.Request) {
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			ok(w, r)
		}), plain},
		"the handler sets the same names": {200, get, func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{middleware.TokenHeader, "RateLimit", "RateLimit-Policy", "Cache-Control"} {
				w.Header().Add(name, "upstream's")
				w.Header().Add(name, "upstream's")
			}
		}, plain},
		"set after write": {200, all, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "Checksum")
			_, _ = io.WriteString(w, "ok")
			clear(w.Header())
			w.Header().Set("RateLimit", "upstream's")
			w.Header().Set(http.TrailerPrefix+"Late", "1")
			_, _ = io.WriteString(w, "ok")
		}, plain},
	} {
		for _, m := range row.methods {
			t.Run("T36 "+name+", "+m, func(t *testing.T) {
				resp := over(t, clientAt(t, "127.0.0.2"), behind(t, row.handler, row.around).URL, method(m))
				requireWhole(t, requireStatus(t, row.status, resp))

				_, _, h := stack(t, new(clock), plain, row.handler)
				resp = over(t, clientAt(t, "127.0.0.2"), serve(t, row.around(h)).URL, method(m))
				requireOnce(t, resp, "site", "page")
				require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
			})
		}
	}
	t.Run("T36 a panic before the first write, not recovered", func(t *testing.T) {
		aborting := newLimiter(t, contact(new(clock))).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}))
		for range 5 {
			require.PanicsWithValue(t, http.ErrAbortHandler, func() { send(aborting, method(http.MethodGet)) })
		}
		require.Equal(t, http.StatusTooManyRequests, send(aborting).StatusCode, "each was charged")
	})
}

func recoverer(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				http.Error(w, "internal error", http.StatusInternalServerError)
			}
		}()
		h.ServeHTTP(w, r)
	})
}

// stuck returns a handler that is still busy when its time is over, and a
// function that lets it go and waits until it has.
func stuck(h func(http.Handler) http.Handler) (handler http.Handler, release func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	inner := h(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-end
		w.WriteHeader(http.StatusOK)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			inner.ServeHTTP(w, r)
		}), func() {
			close(end)
			<-ended
		}
}

func timeout(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Nanosecond, "too slow") }

func TestThreatsOfTimeouts(t *testing.T) {
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		t.Run("T36 TimeoutHandler inside, "+m, func(t *testing.T) {
			slow, release := stuck(plain)
			resp := over(t, clientAt(t, "127.0.0.2"), behind(t, timeout(slow).ServeHTTP).URL, method(m))
			release()
			require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			requireWhole(t, resp)
		})
		t.Run("T36 TimeoutHandler outside loses the token, not the charge, "+m, func(t *testing.T) {
			cfg := contact(new(clock))
			cfg.Limits[0].Quota = 1
			decisions := record(&cfg)
			limiter := newLimiter(t, cfg)
			slow, release := stuck(limiter.Handler)
			resp := over(t, clientAt(t, "127.0.0.2"), serve(t, timeout(slow)).URL, method(m))
			release()
			require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			require.Empty(t, tokenIn(resp))
			require.True(t, decisions.Last().Admitted)
			require.Equal(t, http.StatusTooManyRequests, send(limiter.Handler(new(spy)), from("127.0.0.2")).StatusCode)
		})
	}
}

// A writer records what reaches it, and what of the header was there when the
// header was written. One that flushes is a Flusher too.
type writer struct {
	mu      sync.Mutex
	header  http.Header
	sent    http.Header // at the first write
	written int
	flushes int
}

type flushes struct{ *writer }

func (f flushes) Flush() { f.begin(); f.flushes++ }

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin()
}

func (w *writer) begin() {
	if w.sent == nil {
		w.sent = w.header.Clone()
	}
}

func (w *writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin()
	w.written += len(b)
	return len(b), nil
}
