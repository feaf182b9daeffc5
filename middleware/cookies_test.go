// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/client"
	"github.com/tallystick/tallystick/proof/handlers"
)

// A straight transport calls a handler, by TLS as far as that can tell.
type straight struct{ http.Handler }

func (s straight) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	r = r.Clone(r.Context())
	from("203.0.113.1")(r)
	s.ServeHTTP(w, r)
	return w.Result(), nil
}

// keepingCookies is an honest browser.
func keepingCookies(t *testing.T, h http.Handler) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &http.Client{Jar: jar, Transport: straight{h}}
}

// byPath has each path but those of the endpoints a quota of its own.
func byPath(cfg middleware.Config) middleware.Config {
	cfg.Identity = func(r *http.Request) (middleware.Identity, error) {
		id, err := middleware.PeerAddress(r)
		if strings.HasPrefix(r.URL.Path, "/tally/") {
			return id, err
		}
		return id.For(strings.Trim(r.URL.Path, "/")), err
	}
	return cfg
}

// byTurns has a client ask for each of the paths, so often, and returns how often each let it in.
// Each round goes to the next instance.
func byTurns(t *testing.T, c *http.Client, round *int, rounds int, by string, paths ...string) []int {
	t.Helper()
	passed := make([]int, len(paths))
	for range rounds {
		*round++
		for i, path := range paths {
			passed[i] += admittedOver(t, c, "https://example.com"+path, 1, method(by))
		}
	}
	return passed
}

// rounds sends the requests of a round to one of the instances.
func rounds(round *int, instances ...http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		instances[*round%len(instances)].ServeHTTP(w, r)
	})
}

// The first row of docs/bounds.md, of each thing: an honest browser gets L, on any number of instances.
func TestBrowserOnThingsByTurns(t *testing.T) {
	eight := []string{"/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h"}
	all5 := func(n int) (want []int) {
		for range n {
			want = append(want, 5)
		}
		return want
	}
	for _, kind := range []string{http.MethodGet, http.MethodPost} {
		t.Run(kind, func(t *testing.T) {
			for name, change := range map[string]func(*middleware.Config){
				"as it is": func(*middleware.Config) {},
				"insecure": func(cfg *middleware.Config) { cfg.InsecureCookie = true },
				"embedded": func(cfg *middleware.Config) { cfg.EmbeddedCookie = true },
				"cookies":  func(cfg *middleware.Config) { cfg.TokenTransport = middleware.CookieOnly },
				"challenged": func(cfg *middleware.Config) {
					cfg.Challenge = &middleware.Challenge{Mode: middleware.WhenExhausted, Work: 16}
				},
			} {
				t.Run(name, func(t *testing.T) {
					cfg := byPath(contact(new(clock)))
					change(&cfg)
					round := 0
					c := keepingCookies(t, rounds(&round, fleet(t, 2, cfg)...))
					require.Equal(t, all5(8), byTurns(t, c, &round, 12, kind, eight...))
				})
			}
		})
	}
	t.Run("by field", func(t *testing.T) {
		round := 0
		c := &http.Client{Transport: &client.Transport{Base: straight{rounds(&round, fleet(t, 2, byPath(contact(new(clock))))...)}, MaxSolves: -1, MaxWait: -1}}
		require.Equal(t, all5(2), byTurns(t, c, &round, 12, http.MethodPost, "/a", "/b"))
	})
	t.Run("a stack of two policies", func(t *testing.T) {
		now, round := new(clock), 0
		inner, outer := byPath(contact(now)), byPath(contact(now))
		outer.Policy, outer.Limits[0].Quota = "contact-outer", 8
		var instances []http.Handler
		for range 2 {
			instances = append(instances, newLimiter(t, outer).Handler(newLimiter(t, inner).Handler(new(spy))))
		}
		c := keepingCookies(t, rounds(&round, instances...))
		require.Equal(t, all5(8), byTurns(t, c, &round, 12, http.MethodPost, eight...))
	})
	t.Run("Reconfigure and another key", func(t *testing.T) {
		cfg, round := byPath(contact(new(clock))), 0
		var instances []http.Handler
		var limiters []*middleware.Middleware
		for range 2 {
			m := newLimiter(t, cfg)
			limiters, instances = append(limiters, m), append(instances, m.Handler(new(spy)))
		}
		c := keepingCookies(t, rounds(&round, instances...))
		require.Equal(t, []int{3, 3}, byTurns(t, c, &round, 3, http.MethodPost, "/a", "/b"))
		cfg.Secrets = [][]byte{secret("b"), secret("a")}
		for _, m := range limiters {
			require.NoError(t, m.Reconfigure(cfg))
		}
		require.Equal(t, []int{2, 2}, byTurns(t, c, &round, 12, http.MethodPost, "/a", "/b"))
	})
}

// However many things there are, there are eight cookies, which all servers take. What that costs is
// what a client gets that shows no token.
func TestThingsFillNoCookieField(t *testing.T) {
	cfg, round := byPath(contactForm(new(clock))), 0
	var longest, most int
	instances := fleet(t, 2, cfg)
	c := keepingCookies(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		longest, most = max(longest, len(r.Header.Get("Cookie"))), max(most, len(r.Cookies()))
		instances[round%2].ServeHTTP(w, r)
	}))
	var paths []string
	for i := range 40 {
		paths = append(paths, fmt.Sprint("/", i))
	}
	for _, n := range byTurns(t, c, &round, 12, http.MethodGet, paths...) {
		require.GreaterOrEqual(t, n, 5)
		require.LessOrEqual(t, n, 10)
	}
	require.Equal(t, 8, most)
	require.Less(t, longest, 4<<10)
}

// What was bought for nothing in particular is good for each thing, and is counted once: its cookie
// is that of no thing.
func TestBoughtTallyIsOfNoThing(t *testing.T) {
	cfg, round := byPath(challenging(new(clock), middleware.Newcomers)), 0
	one, two := newSite(t, cfg), newSite(t, cfg)
	c := keepingCookies(t, rounds(&round, one, two))
	require.Equal(t, []int{0, 0}, byTurns(t, c, &round, 1, http.MethodPost, "/a", "/b"))
	asked, err := c.Get("https://example.com/tally/challenge")
	require.NoError(t, err)
	req, err := http.NewRequest(http.MethodPost, "https://example.com/tally/redeem", nil)
	require.NoError(t, err)
	proving(solved(t, asked))(req)
	redeemed, err := c.Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, redeemed.StatusCode)
	passed := byTurns(t, c, &round, 12, http.MethodPost, "/a", "/b")
	require.Equal(t, 5, passed[0]+passed[1], "of one pass")
}

// A token is put in place of the one that was issued, in the same cookie.
func TestSettledThingKeepsItsCookie(t *testing.T) {
	cfg := byPath(contact(new(clock)))
	m := newLimiter(t, cfg)
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cost := int64(3)
		if r.URL.Path == "/b" {
			cost = 0
		}
		if err := middleware.Settle(r, cost); err != nil {
			panic(err)
		}
		w.WriteHeader(http.StatusOK)
	}))
	of := func(path_ string, options ...option) (lines []string, left string) {
		resp := send(h, append(options, path(path_))...)
		return resp.Header["Set-Cookie"], resp.Header.Get("RateLimit")
	}
	lines, _ := of("/a")
	require.Len(t, lines, 1)
	cookie, err := http.ParseSetCookie(lines[0])
	require.NoError(t, err)
	require.Regexp(t, `^__Host-tallystick-contact\.for\.[0-7]$`, cookie.Name)
	require.Regexp(t, `^[0-9a-f]{8}~eyJ`, cookie.Value)
	again, left := of("/a", with("Cookie", cookie.Name+"="+cookie.Value))
	require.Len(t, again, 1)
	require.True(t, strings.HasPrefix(again[0], cookie.Name+"="), "a thing keeps its place: %s", again[0])
	require.Equal(t, `"contact";r=0;t=60`, left, "3 twice, of 5")
	lines, _ = of("/b")
	require.Empty(t, lines, "nothing was used")
}

// Of the cookies of other things nothing is believed, whatever they say of themselves, and those of
// things are none for who has no thing.
func TestCookieOfAnotherThing(t *testing.T) {
	cfg := byPath(contact(new(clock)))
	cfg.Limits[0].Quota = 50
	decisions := record(&cfg)
	h, _ := limited(t, cfg)
	a, b := cookieIn(send(h, path("/a"))), cookieIn(send(h, path("/b")))
	require.NotEqual(t, a.Name, b.Name)
	markOf := func(c *http.Cookie) string { return c.Value[:9] }
	for name, test := range map[string]struct {
		cookie string
		tokens int
	}{
		"its own":                      {a.Name + "=" + a.Value, 1},
		"in another place":             {b.Name + "=" + a.Value, 1},
		"of another thing":             {a.Name + "=" + b.Value, 0},
		"of another that says ours":    {a.Name + "=" + markOf(a) + b.Value[9:], 0},
		"without the mark":             {a.Name + "=" + a.Value[9:], 0},
		"in a place that there is not": {a.Name[:len(a.Name)-1] + "8=" + a.Value, 1},
		"another there":                {a.Name[:len(a.Name)-1] + "f=" + b.Value, 0},
		"in no place":                  {"__Host-tallystick-contact=" + a.Value, 0},
	} {
		t.Run(name, func(t *testing.T) {
			resp := send(h, path("/a"), with("Cookie", test.cookie))
			require.Equal(t, test.tokens, decisions.Last().Tokens)
			require.Regexp(t, `\.for\.[0-7]$`, cookieIn(resp).Name)
		})
	}
	plain := newSite(t, contact(new(clock)))
	resp := send(plain, with("Cookie", a.Name+"="+a.Value))
	require.Zero(t, plain.Decisions.Last().Tokens)
	require.Equal(t, "__Host-tallystick-contact", cookieIn(resp).Name)
}

// A browser that shows the cookie of a thing keeps cookies: no alarm.
func TestThingsAreNoDroppedCookies(t *testing.T) {
	alarms := func(options ...option) []string {
		cfg := byPath(contact(new(clock)))
		log := logTo(&cfg)
		h, _ := limited(t, cfg)
		send(h, append(options, path("/a"), with("Origin", "http://example.com"))...)
		return log.Lines()
	}
	h, _ := limited(t, byPath(contact(new(clock))))
	c := cookieIn(send(h, path("/a")))
	require.Len(t, alarms(), 1)
	require.Empty(t, alarms(with("Cookie", c.Name+"="+c.Value)))
}

// Answers on their way together take places of their own, as long as there are some.
func TestThingsAtOnce(t *testing.T) {
	h, _ := limited(t, byPath(contact(new(clock))))
	names := map[string]bool{}
	for _, p := range []string{"/a", "/b", "/c"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, p, nil))
		names[cookieIn(w.Result()).Name] = true
	}
	require.Len(t, names, 3)
}

// tenants is how many tenants docs/api.md speaks of.
const tenants = 10_000

// numbersOf are those of one tenant: all different, or those of one of five plans.
func numbersOf(i int, plans bool) []middleware.Limit {
	quota := int64(100 + i)
	if plans {
		quota = int64(100 * (1 + i%5))
	}
	return []middleware.Limit{{Name: "minute", Quota: quota, Window: time.Minute}, {Name: "day", Quota: 100 * quota, Window: 24 * time.Hour}}
}

// ownNumbers is a policy where each tenant has limits of its own.
func ownNumbers(plans bool) middleware.Config {
	cfg := contact(new(clock))
	cfg.Limits, cfg.MaxClients = numbersOf(0, plans), 0
	cfg.Identity = byCustomer
	cfg.LimitsFor = patiently(func(_ context.Context, id middleware.Identity) ([]middleware.Limit, error) {
		i, err := strconv.Atoi(id.Name())
		return numbersOf(i, plans), err
	})
	return cfg
}

// tiered is the same with a tier for each tenant.
func tiered() middleware.Config {
	cfg := ownNumbers(false)
	cfg.LimitsFor, cfg.Tiers = nil, make(map[string][]middleware.Limit, tenants)
	for i := range tenants {
		cfg.Tiers[strconv.Itoa(i)] = numbersOf(i, false)
	}
	return cfg
}

// grown returns by how much the heap grows with what do makes, for each tenant.
func grown(do func() any) float64 {
	before := handlers.Heap()
	made := do()
	after := handlers.Heap()
	runtime.KeepAlive(made)
	return float64(after-before) / tenants
}

// visit has each tenant send one request.
func visit(h http.Handler) {
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	w := &sink{Fields: http.Header{}}
	for i := range tenants {
		clear(w.Fields)
		r.Header.Set("X-Customer", strconv.Itoa(i))
		h.ServeHTTP(w, r)
	}
}

// BenchmarkTenants measures what docs/api.md says of 10,000 tenants in one Middleware:
//
//	go test -run '^$' -bench Tenants -benchtime 20x ./middleware
func BenchmarkTenants(b *testing.B) {
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	made := func(cfg middleware.Config) *middleware.Middleware {
		m, err := middleware.New(cfg)
		require.NoError(b, err)
		return m
	}
	none := ownNumbers(false)
	none.LimitsFor = nil
	fixed := grown(func() any { return made(none) })
	for _, way := range []struct {
		name string
		cfg  middleware.Config
	}{
		{"a tier each", tiered()},
		{"LimitsFor, numbers of their own", ownNumbers(false)},
		{"LimitsFor, five plans", ownNumbers(true)},
	} {
		b.Run(way.name+"/New", func(b *testing.B) {
			for b.Loop() {
				made(way.cfg)
			}
		})
		b.Run(way.name+"/heap", func(b *testing.B) {
			bytes := 0.0
			for b.Loop() {
				bytes = grown(func() any { m := made(way.cfg); visit(m.Handler(nothing)); return m })
			}
			b.ReportMetric(bytes-fixed, "B/tenant")
			b.ReportMetric(0, "ns/op")
		})
		b.Run(way.name+"/first requests", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				h := made(way.cfg).Handler(nothing)
				b.StartTimer()
				visit(h)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tenants, "ns/request")
		})
		b.Run(way.name+"/next requests", func(b *testing.B) {
			h := made(way.cfg).Handler(nothing)
			visit(h)
			b.ResetTimer()
			for b.Loop() {
				visit(h)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tenants, "ns/request")
		})
	}
}

// Ten thousand tenants fit into one Middleware, each with its numbers and its counts, and without a tier.
func TestTenThousandTenants(t *testing.T) {
	cfg := ownNumbers(false)
	h := newSite(t, cfg)
	for _, i := range []int{0, 1, 4711, tenants - 1} {
		resp := send(h, customer(strconv.Itoa(i)))
		require.Equal(t, fmt.Sprintf(`"minute";q=%d;w=60, "day";q=%d;w=86400`, 100+i, 100*(100+i)), resp.Header.Get("RateLimit-Policy"))
		require.EqualValues(t, 99+i, h.Decisions.Last().Limits()[0].Remaining)
	}
}

func TestCookieAttributes(t *testing.T) {
	for name, test := range map[string]struct {
		config func(*middleware.Config)
		want   http.Cookie
	}{
		"by default": {func(*middleware.Config) {}, http.Cookie{
			Name: "__Host-tallystick-contact", Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		}},
		"EmbeddedCookie": {func(cfg *middleware.Config) { cfg.EmbeddedCookie = true }, http.Cookie{
			Name: "__Host-tallystick-contact", Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteNoneMode, Partitioned: true,
		}},
		"InsecureCookie": {func(cfg *middleware.Config) { cfg.InsecureCookie = true }, http.Cookie{
			Name: "tallystick-contact", Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := contact(now)
			test.config(&cfg)
			now.Advance(45 * time.Second)
			h, _ := limited(t, cfg)
			resp := send(h)
			lines := resp.Header.Values("Set-Cookie")
			require.Len(t, lines, 1)
			require.LessOrEqual(t, len(lines[0]), 1024)
			cookie, err := http.ParseSetCookie(lines[0])
			require.NoError(t, err)
			require.NoError(t, cookie.Valid())
			require.Empty(t, cookie.Unparsed)

			test.want.Value, test.want.Raw = tokenIn(resp), cookie.Raw
			test.want.MaxAge = 120 - 45 // the end of the window after this one
			require.Equal(t, test.want, *cookie)

			again := send(h, with("Cookie", cookie.Name+"="+cookie.Value))
			require.Equal(t, `"contact";r=3;t=15`, again.Header.Get("RateLimit"))
			require.Empty(t, tokenIn(again), "it came by cookie and is answered by cookie")
		})
	}
}

// An insecure name is never read where a secure one is set: a sibling domain or
// a plain-http attacker could have planted it.
func TestOtherCookieNamesAreIgnored(t *testing.T) {
	cfg := contact(new(clock))
	h := newSite(t, cfg)
	tok := spend(t, h, 1)
	send(h, with("Cookie", "tallystick-contact="+tok))
	require.Zero(t, h.Decisions.Last().Tokens)
}

// The limiter's cookie is one among others, which it leaves alone.
func TestHandlersCookiesSurvive(t *testing.T) {
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		h := newLimiter(t, contact(new(clock))).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "1"})
			http.SetCookie(w, &http.Cookie{Name: "theme", Value: "dark"})
		}))
		resp := send(h, method(m))
		require.ElementsMatch(t, []string{"session", "theme", "__Host-tallystick-contact"}, cookieNames(resp))
	}
}

// docs/operations.md says what a cookie adds to every request of the site.
func TestCookieWeighsWhatThePageSays(t *testing.T) {
	page, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	said := regexp.MustCompile(`\bcookie\b[^.]* (\d+) bytes[^.]* (\d+) more[^.]* limit\b`).FindSubmatch(page)
	require.NotNil(t, said)
	one, err := strconv.Atoi(string(said[1]))
	require.NoError(t, err)
	further, err := strconv.Atoi(string(said[2]))
	require.NoError(t, err)
	for n := range 8 {
		cfg := contact(new(clock))
		for i := range n {
			cfg.Limits = append(cfg.Limits, middleware.Limit{Quota: 1000, Window: time.Hour * time.Duration(i+1)})
		}
		h, _ := limited(t, cfg)
		cookies := send(h).Cookies()
		require.Len(t, cookies, 1)
		require.InDelta(t, one+n*further, len(cookies[0].Name+"="+cookies[0].Value), 20, "%d limits", n+1)
	}
}
