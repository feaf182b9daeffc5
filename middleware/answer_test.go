// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

// requireOnce checks that the response has each line of ours once, whatever else it has.
func requireOnce(t *testing.T, resp *http.Response, policies ...string) {
	t.Helper()
	for _, policy := range policies {
		for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
			ours := slices.DeleteFunc(slices.Clone(resp.Header.Values(name)), func(line string) bool { return !strings.HasPrefix(line, `"`+policy+`"`) })
			require.Len(t, ours, 1, "%s of %s", name, policy)
		}
		cookies := slices.DeleteFunc(slices.Clone(resp.Header.Values("Set-Cookie")), func(line string) bool {
			return !strings.HasPrefix(line, "__Host-tallystick-"+policy+"=")
		})
		require.Len(t, cookies, 1, policy)
	}
	require.Len(t, resp.Header.Values(middleware.TokenHeader), len(policies))
}

// TestFinalFieldsOfHTTP10: a server of Go's sends its 1xx to those clients too.
func TestFinalFieldsOfHTTP10(t *testing.T) {
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		server := behind(t, func(w http.ResponseWriter, r *http.Request) {
			clear(w.Header())
			hint(w, r)
			_, _ = io.WriteString(w, "ok")
		})
		requireWhole(t, oneShot(t, server, m+" / HTTP/1.0\r\n\r\n"))
	}
}

// TestFinalFieldsBehindAProxy stacks two limiters around a reverse proxy, whose upstream sends a 1xx, and limits too.
func TestFinalFieldsBehindAProxy(t *testing.T) {
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		for name, hints := range map[string][]http.HandlerFunc{"plain": nil, "103": {hint}} {
			t.Run(name+", "+m, func(t *testing.T) {
				limits := contact(new(clock))
				limits.Policy = "upstream"
				upstream := serve(t, newLimiter(t, limits).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					for _, hint := range hints {
						hint(w, r)
					}
					_, _ = io.WriteString(w, "ok")
				})))
				_, _, h := stack(t, new(clock), plain, proxyTo(t, upstream.URL))
				resp := requireStatus(t, http.StatusOK, over(t, clientAt(t, "127.0.0.2"), serve(t, h).URL, method(m)))
				require.Len(t, resp.Header.Values(middleware.TokenHeader), 3, "each tally has its token")
				require.Len(t, resp.Header.Values("Set-Cookie"), 3)
				lines := []string{`"site";r=6;t=60`, `"page";r=1;t=60`}
				if m == http.MethodPost { // of a GET, the fields of those names are replaced
					lines = append(lines, `"upstream";r=4;t=60`)
				}
				require.Equal(t, lines, resp.Header.Values("RateLimit"))
				require.Contains(t, resp.Header.Values("Cache-Control"), "no-store")
			})
		}
	}
}

// A handler that says something else in the place of a field of ours has the last word, unless it
// leaves a token where a shared cache may take it. There is one rule for all methods, and for
// what an outer middleware has said before.
func TestHandlersOwnFields(t *testing.T) {
	for _, test := range []struct {
		control string
		want    string // "": as it is
		token   bool
	}{
		{"private", "", true},
		{"private, max-age=3600", "", true},
		{"max-age=3600, Private", "", true},
		{"private, no-cache", "", true},
		{"no-store, no-transform", "", true},
		{"no-store, no-cache, max-age=0", "", true},
		{"public, max-age=60", "", false},
		{"s-maxage=60", "", false},
		{"max-age=60", "", false},
		{`private="x-custom", max-age=60`, "", false},
		{`no-cache="x-custom", max-age=60`, "", false},
		// A shared cache may store it, to ask each time or when it is stale.
		{"no-cache", "no-store", true},
		{"no-cache, max-age=60", "no-store", true},
		{"stale-while-revalidate=60", "no-store", true},
		{"max-age=0", "no-store", true},
		{`private="x-custom"`, "no-store", true},
		{"no-store, must-understand", "no-store", true},
		// It contradicts itself.
		{"private, public", "no-store", true},
		{"private, s-maxage=60", "no-store", true},
		{"private, s-maxage=0", "no-store", true},
		{"no-store, public, max-age=60", "no-store", true},
	} {
		for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
			for _, before := range []bool{false, true} {
				for limiters := 1; limiters <= 2; limiters++ {
					t.Run(test.control+", "+m, func(t *testing.T) {
						say := func(w http.ResponseWriter) { w.Header().Set("Cache-Control", test.control) }
						var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
							if !before {
								say(w)
							}
							w.WriteHeader(http.StatusOK)
						})
						for range limiters {
							h = newLimiter(t, contact(new(clock))).Handler(h)
						}
						resp := send(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							if before {
								say(w)
							}
							h.ServeHTTP(w, r)
						}), method(m))
						token, want := test.token, test.want
						switch {
						case want != "":
						case before && !token && m != http.MethodGet && m != http.MethodHead:
							token, want = true, "no-store" // it was not said of this response
						default:
							want = test.control
						}
						require.Equal(t, []string{want}, resp.Header.Values("Cache-Control"))
						require.Equal(t, token, tokenIn(resp) != "")
						require.Equal(t, token, cookieIn(resp) != nil)
						require.Equal(t, token, resp.Header.Get("RateLimit") != "")
					})
				}
			}
		}
	}
	t.Run("lists are for all", func(t *testing.T) {
		for _, do := range []func(http.Header, string, string){http.Header.Set, http.Header.Add} {
			resp := send(newLimiter(t, contact(new(clock))).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				do(w.Header(), "RateLimit", `"own";r=1`)
				w.WriteHeader(http.StatusOK)
			})))
			require.Equal(t, []string{`"contact";r=4;t=60`, `"own";r=1`}, resp.Header.Values("RateLimit"))
		}
	})
	t.Run("X-RateLimit has one value", func(t *testing.T) {
		cfg := contact(new(clock))
		cfg.Fields = middleware.RateLimitFields | middleware.XRateLimitInSeconds
		resp := send(newLimiter(t, cfg).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-RateLimit-Remaining", "17")
			w.Header().Del("X-RateLimit-Limit")
			w.WriteHeader(http.StatusOK)
		})))
		requireHeader(t, resp, "X-RateLimit-Remaining", "17", "X-RateLimit-Limit", "5")
	})
	t.Run("cookies", func(t *testing.T) {
		resp := send(newLimiter(t, contact(new(clock))).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Set-Cookie", "session=1")
			w.WriteHeader(http.StatusOK)
		})))
		require.Equal(t, "session=1", resp.Header.Values("Set-Cookie")[0])
		require.Len(t, resp.Cookies(), 2)
	})
}

// TestFieldsAreSetAhead: what a handler for POST sees in the map, and after a 1xx sees again. The 1xx carries none of it, whatever
// fields are chosen, and also where the request was settled before.
func TestFieldsAreSetAhead(t *testing.T) {
	for _, settled := range []bool{false, true} {
		raw := &writer{header: http.Header{}}
		through(t, raw, http.MethodPost, func(w http.ResponseWriter, r *http.Request) {
			if settled {
				require.NoError(t, middleware.Settle(r, 3))
			}
			before := w.Header().Clone()
			require.NotEmpty(t, before.Get(middleware.TokenHeader))
			w.Header().Add("RateLimit", `"own";r=1`)
			w.Header().Add("Set-Cookie", "session=1")
			w.WriteHeader(http.StatusEarlyHints)
			require.Equal(t, http.Header{"Ratelimit": {`"own";r=1`}, "Set-Cookie": {"session=1"}, "Transfer-Encoding": nil}, raw.sent, "its own is its own")
			for _, name := range []string{middleware.TokenHeader, "RateLimit-Policy", "Cache-Control", "X-RateLimit-Limit", "X-RateLimit-Remaining"} {
				require.True(t, settled || slices.Equal(before.Values(name), w.Header().Values(name)), name)
			}
			require.Len(t, w.Header().Values("RateLimit"), 2)
			raw.sent = nil
			w.WriteHeader(http.StatusOK)
			require.Len(t, raw.sent.Values("RateLimit"), 2)
			require.Len(t, raw.sent.Values("Set-Cookie"), 2)
			require.Len(t, raw.sent.Values(middleware.TokenHeader), 1)
			require.Len(t, raw.sent.Values("X-RateLimit-Remaining"), 1)
		}, func(cfg *middleware.Config) { cfg.Fields = middleware.RateLimitFields | middleware.XRateLimitInSeconds })
	}
}

// TestSwitchedProtocols: ReverseProxy takes the connection over and writes the response
// from the header map, which is then the last to go out.
func TestSwitchedProtocols(t *testing.T) {
	upstream := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = upgraded(t, w).Close()
	}))
	server := serve(t, newLimiter(t, contact(new(clock))).Handler(proxyTo(t, upstream.URL)))
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		resp := oneShot(t, server, m+" / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\nContent-Length: 0\r\n\r\n")
		require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
		require.NotEmpty(t, tokenIn(resp))
		require.NotNil(t, cookieIn(resp))
	}
}

// TestFailedHijack: a handler that could not take the connection over may still decide what its response is.
func TestFailedHijack(t *testing.T) {
	w := unhijackable{httptest.NewRecorder()}
	through(t, w, http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
		_, _, err := http.NewResponseController(w).Hijack()
		require.ErrorIs(t, err, errNotHere)
		w.Header().Set("Cache-Control", "public, max-age=60")
		_, _ = io.WriteString(w, "ok")
	})
	resp := w.Result()
	require.Equal(t, "public, max-age=60", resp.Header.Get("Cache-Control"))
	require.Empty(t, tokenIn(resp))
	require.Nil(t, cookieIn(resp))
}

type unhijackable struct{ *httptest.ResponseRecorder }

var errNotHere = errors.New("not here")

func (unhijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, errNotHere }

// oneShot sends a request as it is spelled, and reads the header of the first response to it that is final.
func oneShot(t *testing.T, server *httptest.Server, request string) *http.Response {
	t.Helper()
	conn := kit.Must(net.Dial("tcp", server.Listener.Addr().String()))(t)
	defer func() { require.NoError(t, conn.Close()) }()
	kit.Must(io.WriteString(conn, request))(t)
	for b := bufio.NewReader(conn); ; {
		resp := kit.Must(http.ReadResponse(b, nil))(t)
		if resp.StatusCode == http.StatusSwitchingProtocols || resp.StatusCode >= 200 {
			return resp
		}
		require.Empty(t, resp.Header.Values(middleware.TokenHeader))
	}
}

type frame struct {
	request *http.Request
	writer  http.ResponseWriter
}

type frameWriter struct {
	http.ResponseWriter
	status int
}

func (w *frameWriter) WriteHeader(status int) { w.status = status }

func (w *frameWriter) Write(b []byte) (int, error) {
	if w.status != 0 {
		w.ResponseWriter.WriteHeader(w.status)
		w.status = 0
	}
	return w.ResponseWriter.Write(b)
}

// adapted serves a framework's handler behind the limiter. The adapter that comes to mind
// first hands the request on, but not the writer; the whole one hands on both.
func adapted(limiter *middleware.Middleware, whole bool, handle func(*frame)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := &frame{r, &frameWriter{ResponseWriter: w}}
		limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if f.request = r; whole {
				f.writer = w
			}
			handle(f)
		})).ServeHTTP(f.writer, r)
	})
}

func TestFrameworks(t *testing.T) {
	page := func(f *frame) {
		if f.request.URL.Path == "/public" {
			f.writer.Header().Set("Cache-Control", "public, max-age=60")
		}
		f.writer.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(f.writer, "ok")
	}
	for _, test := range []struct {
		name         string
		whole        bool
		method, path string
		fields       bool
	}{
		{"whole", true, http.MethodGet, "/", true},
		{"whole", true, http.MethodPost, "/", true},
		{"whole", true, http.MethodGet, "/public", false},
		{"past our writer", false, http.MethodPost, "/", true},
		{"past our writer", false, http.MethodDelete, "/", true},
		// There nothing would keep the token out of a cache.
		{"past our writer", false, http.MethodGet, "/", false},
		{"past our writer", false, http.MethodGet, "/public", false},
	} {
		t.Run(test.name+", "+test.method+" "+test.path, func(t *testing.T) {
			server := serve(t, adapted(newLimiter(t, contact(new(clock))), test.whole, page))
			resp := requireStatus(t, http.StatusOK, over(t, clientAt(t, "127.0.0.2"), server.URL+test.path, method(test.method)))
			if test.fields {
				requireWhole(t, resp)
				return
			}
			for _, name := range []string{middleware.TokenHeader, "Set-Cookie", "RateLimit"} {
				require.Empty(t, resp.Header.Values(name), name)
			}
		})
	}
	t.Run("past our writer, with a proof", func(t *testing.T) {
		site := newSite(t, challenging(new(clock), middleware.Newcomers))
		proof := solve(t, challengeIn(t, fetched(site)))
		resp := requireStatus(t, http.StatusOK, send(adapted(site.M, false, page), proving(proof)))
		require.NotEmpty(t, tokenIn(resp), "it has been paid for")
	})
}

// http.MaxBytesReader asks the writer that it is given to close the connection, by a method
// that none but the server's own can have. So the limit of bodies belongs outside of the
// limiter; inside of it the body is limited as well, and the connection lives on.
func TestTheLimitOfBodiesBelongsOutside(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
	})
	limit := newLimiter(t, contact(new(clock)))
	for _, test := range []struct {
		name   string
		h      http.Handler
		closes bool
	}{
		{"outside", http.MaxBytesHandler(limit.Handler(handler), 10), true},
		{"inside", limit.Handler(http.MaxBytesHandler(handler, 10)), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(test.h)
			defer server.Close()
			resp := kit.Must(server.Client().Post(server.URL, "text/plain", strings.NewReader(strings.Repeat("x", 1000))))(t)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
			require.NotEmpty(t, resp.Header.Get("Tallystick-Token"))
			require.Equal(t, test.closes, resp.Close)
		})
	}
}

func TestCORSLists(t *testing.T) {
	require.Equal(t, []string{"Tallystick-Token", "Tallystick-Proof"}, middleware.CORSAllowHeaders())
	require.Equal(t, []string{"Tallystick-Token", "Tallystick-Challenge", "RateLimit", "RateLimit-Policy", "Retry-After", "Tallystick-Degraded"}, middleware.CORSExposeHeaders())

	t.Run("cannot be changed by a handler", func(t *testing.T) {
		middleware.CORSAllowHeaders()[0] = "edited"
		middleware.CORSExposeHeaders()[0] = "edited"
		require.NotContains(t, append(middleware.CORSAllowHeaders(), middleware.CORSExposeHeaders()...), "edited")
	})
	t.Run("name every field that a script may want", func(t *testing.T) {
		h, _ := limited(t, contact(new(clock)))
		admitted(h, 5)
		resp := send(h)
		safelisted := []string{"Cache-Control", "Content-Type", "Content-Length"} // Fetch, 2.2.2
		forBrowsers := []string{"Vary", "Set-Cookie", "X-Content-Type-Options"}   // of no use to scripts, or hidden from them
		named := append(append(safelisted, forBrowsers...), middleware.CORSExposeHeaders()...)
		for name := range resp.Header {
			require.True(t, contains(named, name), "%s is sent: a script of another origin reads it only if CORSExposeHeaders has it", name)
		}
	})
}

func contains(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// ofLimits returns the fields of a response that tell of its limits, in small letters.
func ofLimits(h http.Header) map[string]string {
	told := map[string]string{}
	for name, lines := range h {
		name = strings.ToLower(name)
		if strings.Contains(name, "ratelimit") {
			told[name] = strings.Join(lines, ", ")
		}
	}
	return told
}

// A choice is a form of answer for one kind of client.
type choice struct {
	name             string
	fields           middleware.Fields
	allowed, refused map[string]string
}

// choices are told of the policy of twoSpeeds, 10.5 s after midnight.
func choices() []choice {
	type fields = map[string]string
	return []choice{
		{"the default", 0,
			fields{"ratelimit-policy": `"minute";q=2;w=60, "day";q=5;w=86400`, "ratelimit": `"minute";r=1;t=50, "day";r=4;t=86390`},
			fields{"ratelimit-policy": `"minute";q=2;w=60, "day";q=5;w=86400`, "ratelimit": `"minute";r=0;t=50, "day";r=3`}},
		{"X-RateLimit alone", middleware.XRateLimitInSeconds,
			fields{"x-ratelimit-limit": "2", "x-ratelimit-remaining": "1", "x-ratelimit-reset": "50"},
			fields{"x-ratelimit-limit": "2", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "50"}},
		{"both", middleware.RateLimitFields | middleware.XRateLimitInSeconds,
			fields{"ratelimit-policy": `"minute";q=2;w=60, "day";q=5;w=86400`, "ratelimit": `"minute";r=1;t=50, "day";r=4;t=86390`,
				"x-ratelimit-limit": "2", "x-ratelimit-remaining": "1", "x-ratelimit-reset": "50"},
			fields{"ratelimit-policy": `"minute";q=2;w=60, "day";q=5;w=86400`, "ratelimit": `"minute";r=0;t=50, "day";r=3`,
				"x-ratelimit-limit": "2", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "50"}},
	}
}

// twoSpeeds is a policy of two requests a minute and five a day. The day comes last, and is not the tightest.
func twoSpeeds(chosen middleware.Fields) middleware.Config {
	now := new(clock)
	now.Advance(10*time.Second + 500*time.Millisecond)
	cfg := contact(now)
	cfg.Fields = chosen
	cfg.Limits = []middleware.Limit{
		{Name: "minute", Algorithm: middleware.FixedWindow, Quota: 2, Window: time.Minute},
		{Name: "day", Algorithm: middleware.FixedWindow, Quota: 5, Window: 24 * time.Hour},
	}
	return cfg
}

// Each choice sends its own fields, letter for letter, and no other.
func TestChoicesOfFields(t *testing.T) {
	for _, c := range choices() {
		for _, verb := range []string{http.MethodPost, http.MethodGet} {
			t.Run(c.name+", "+verb, func(t *testing.T) {
				h, _ := limited(t, twoSpeeds(c.fields))
				resp := send(h, method(verb))
				require.Equal(t, c.allowed, ofLimits(resp.Header))
				require.NotEmpty(t, tokenIn(resp), "the token goes with any of them")
				require.Equal(t, 1, admitted(h, 1, method(verb)))
				resp = requireStatus(t, 429, send(h, method(verb)))
				require.Equal(t, c.refused, ofLimits(resp.Header))
				require.NotEmpty(t, resp.Header.Get("Retry-After"))
			})
		}
	}
}

// What a choice sends is what scripts of other origins may read.
func TestCORSFollowsTheChoice(t *testing.T) {
	for _, c := range choices() {
		t.Run(c.name, func(t *testing.T) {
			exposed := middleware.CORSExposeHeaders(c.fields)
			for name := range c.allowed {
				require.True(t, contains(exposed, name), name)
			}
			fixed := []string{"Tallystick-Token", "Tallystick-Challenge", "Retry-After", "Tallystick-Degraded"}
			require.Len(t, exposed, len(fixed)+len(c.allowed), "and no other")
			require.Subset(t, exposed, fixed)
		})
	}
	t.Run("of several policies", func(t *testing.T) {
		require.Equal(t, []string{
			"Tallystick-Token", "Tallystick-Challenge", "RateLimit", "RateLimit-Policy",
			"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After", "Tallystick-Degraded",
		}, middleware.CORSExposeHeaders(0, middleware.XRateLimitInSeconds))
	})
}

// The guard sees to the fields of any choice: a header that was cleared gets them back, what the
// handler says itself stands, and a response that shared caches may store has none.
func TestChoicesOnTheFinalResponse(t *testing.T) {
	for _, c := range choices() {
		for name, test := range map[string]struct {
			handle http.HandlerFunc
			want   map[string]string
		}{
			"cleared":     {func(w http.ResponseWriter, _ *http.Request) { clear(w.Header()) }, c.allowed},
			"an own word": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-RateLimit-Remaining", "17") }, said(c.allowed)},
			"public":      {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "max-age=60") }, map[string]string{}},
		} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				h := newLimiter(t, twoSpeeds(c.fields)).Handler(test.handle)
				require.Equal(t, test.want, ofLimits(send(h).Header))
			})
		}
	}
}

// said returns fields in which the handler has said a remaining of its own.
func said(told map[string]string) map[string]string {
	told = maps.Clone(told)
	told["x-ratelimit-remaining"] = "17"
	return told
}

// Of a stack, lists have a line for each policy; of single values the innermost stands.
func TestChoicesInAStack(t *testing.T) {
	for name, test := range map[string]struct {
		chosen middleware.Fields
		want   map[string]string
	}{
		"X-RateLimit": {middleware.XRateLimitInSeconds, map[string]string{"x-ratelimit-limit": "3", "x-ratelimit-remaining": "2", "x-ratelimit-reset": "60"}},
		"the default": {0, map[string]string{"ratelimit-policy": `"site";q=9;w=60, "page";q=3;w=60`, "ratelimit": `"site";r=8;t=60, "page";r=2;t=60`}},
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			outer, inner := contact(now), contact(now)
			outer.Policy, outer.Fields, outer.Limits = "site", test.chosen, []middleware.Limit{fixed(9, time.Minute)}
			inner.Policy, inner.Fields, inner.Limits = "page", test.chosen, []middleware.Limit{fixed(3, time.Minute)}
			for _, handle := range []http.HandlerFunc{
				func(http.ResponseWriter, *http.Request) {},
				func(w http.ResponseWriter, _ *http.Request) { clear(w.Header()) },
			} {
				h := newLimiter(t, outer).Handler(newLimiter(t, inner).Handler(handle))
				require.Equal(t, test.want, ofLimits(send(h).Header))
			}
		})
	}
}

// What clients in JavaScript know understands us: ratelimit-header-parser reads every choice but RateLimitFields,
// which came after it and which it takes for an older draft; structured-headers reads all. What they make of each answer, a request
// that is allowed and one that is refused of each choice, is in testdata/parsers/read.json; a NaN is null.
func TestNpmReadsEveryChoice(t *testing.T) {
	if _, err := os.Stat("testdata/parsers/node_modules/ratelimit-header-parser"); err != nil {
		kit.Unable(t, "there is no ratelimit-header-parser (.ci/need installs it, by npm)")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		kit.Unable(t, "there is no node (Debian: apt-get install nodejs)")
	}
	now := new(clock)
	now.Advance(10 * time.Second)
	var responses []map[string]string
	for _, c := range choices() {
		h := newSite(t, changed(twoSpeeds(c.fields), func(cfg *middleware.Config) { cfg.Now = now.Now }))
		responses = append(responses, ofLimits(send(h).Header))
		require.Equal(t, 1, admitted(h, 1))
		responses = append(responses, ofLimits(send(h).Header))
	}
	cmd := exec.Command(node, "testdata/parsers/parse.mjs")
	var complaint strings.Builder
	cmd.Stdin, cmd.Stderr = bytes.NewReader(kit.Must(json.Marshal(map[string]any{"now": now.Now().UnixMilli(), "responses": responses}))(t)), &complaint
	read, err := cmd.Output()
	require.NoError(t, err, complaint.String())
	require.JSONEq(t, string(kit.Must(os.ReadFile("testdata/parsers/read.json"))(t)), string(read))
}
