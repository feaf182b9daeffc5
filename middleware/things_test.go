// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/client"
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
