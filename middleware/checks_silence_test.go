// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// Two policies of one name are one to a client: each takes the other's tokens for its own.
func TestPoliciesOfOneNameAreTold(t *testing.T) {
	told := []string{"policy-made-twice", "policy-twice"}
	require.Equal(t, told, codesIn(nested(plain, "site")(t)))
	require.Equal(t, told, codesIn(nested(func(h http.Handler) http.Handler {
		return newLimiter(t, contact(new(clock))).Handler(http.StripPrefix("/", h)) // another between, and a router
	}, "site")(t)), "however much is between")
}

func TestNoCheckWithoutTrouble(t *testing.T) {
	const shop = "http://shop.example"
	at := func(site string) []option { return []option{host(site), with("Origin", "http://"+site)} }
	get := []option{method(http.MethodGet), html}
	as := func(w http.ResponseWriter) http.ResponseWriter { return w }
	for name, lines := range map[string]trouble{
		"a page on TLS":                     around(nil, page("https://shop.example", overTLS)),
		"a page on TLS, which a proxy ends": around(nil, page("https://shop.example")),
		"a page of another site":            around(nil, page("http://other.example")),
		"a page of nobody":                  around(nil, page("null"), at(""), page(shop, with("Origin", shop))),
		"localhost":                         around(nil, at("localhost:8080"), at("a.localhost"), at("127.0.0.1:80"), at("[::1]:80")),
		"a browser that keeps the cookie":   around(nil, page(shop, showingCookie("x"))),
		"no cookie is sent":                 around(func(cfg *middleware.Config) { cfg.TokenTransport = middleware.HeaderOnly }, page(shop)),
		"plain HTTP in development":         around(insecure, page(shop)),
		"two clients in private": around(nil,
			programs(40, func(i int) string { return []string{"10.0.0.1", "10.0.0.2"}[i%2] })...),
		"one public client of many programs": around(nil, programs(40, always("203.0.113.1"))...),
		"one private client of few programs": around(nil, append(programs(7, always("10.0.0.1")), programs(7, always("10.0.0.1"))...)...),
		"programs without a name": around(nil,
			programs(40, always("10.0.0.1"), func(r *http.Request) { r.Header.Del("User-Agent") })...),
		"one request a second is checked": func(t *testing.T) []string {
			h := newSite(t, contact(new(clock)))
			for _, options := range programs(40, always("127.0.0.1")) {
				send(h, options...)
			}
			return h.Log.Lines()
		},
		"keys from one address":               around(telling(middleware.APIKey("x"), nil), programs(40, always("10.0.0.1"))...),
		"clients that a proxy names":          around(trusting, programs(40, always("10.0.0.1"), with("X-Forwarded-For", "203.0.113.1"))...),
		"the same policy one after the other": around(nil, nil, nil),
		"another policy inside":               nested(plain, "page"),
		"a handler that serves other requests by its own limiter": nested(func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for range 2 {
					h.ServeHTTP(httptest.NewRecorder(), r.Clone(r.Context()))
				}
			})
		}, ""),
		"a page before WhenExhausted": around(forms(middleware.WhenExhausted), get),
		"a script's GET":              around(forms(middleware.Newcomers), []option{method(http.MethodGet)}),
		"a script's POST":             around(forms(middleware.Newcomers), []option{html, with("Sec-Fetch-Mode", "cors")}),
		"a form that may wait":        around(forms(middleware.WhenExhausted), []option{html}),
		"a gate of its own": around(func(cfg *middleware.Config) {
			forms(middleware.Newcomers)(cfg)
			cfg.PageHandler = http.NotFoundHandler()
		}, get),
		"fields that everybody may store": wrapped(as, http.MethodGet,
			func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "public, max-age=60") }),
		"fields of an upstream beside": wrapped(as, http.MethodPost, func(w http.ResponseWriter, _ *http.Request) {
			clear(w.Header())
			w.Header().Set("RateLimit", `"upstream";r=1`)
			w.WriteHeader(200)
		}),
		"a field that is nobody's":             wrapped(stripping("Server"), http.MethodPost, writing(200)),
		"a framework that hands its writer on": wrapped(frameworks, http.MethodGet, writing(204)),
		"a clock that trembles": func(t *testing.T) []string {
			now := new(clock)
			h := newSite(t, contact(now))
			for i := range 60 {
				now.Advance(time.Duration(i%2*118-59) * time.Second)
				send(h)
			}
			return h.Log.Lines()
		},
		"limits that each can refuse": around(func(cfg *middleware.Config) { cfg.Limits = contactForm(nil).Limits }),
		"a limit that a tier needs": around(func(cfg *middleware.Config) {
			cfg.Limits, cfg.Tiers = anHourOfLess, map[string][]middleware.Limit{"pro": anHourOfMore}
		}),
		"a limit that customers may need": around(func(cfg *middleware.Config) {
			cfg.Limits, cfg.Identity = anHourOfLess, only(middleware.APIKey("x"))
			cfg.LimitsFor = patiently(func(context.Context, middleware.Identity) ([]middleware.Limit, error) {
				return anHourOfMore, nil
			})
		}, nil),
		"endpoints that are mounted": func(t *testing.T) []string {
			h := newSite(t, challenging(new(clock), middleware.Newcomers))
			send(h)
			return h.Log.Lines()
		},
		"one request a second is checked for proxies": func(t *testing.T) []string {
			h := newSite(t, contact(new(clock)))
			send(h)
			send(h, from("10.0.0.1"), with("X-Forwarded-For", "203.0.113.5"))
			return h.Log.Lines()
		},
		"a denial": around(telling(middleware.Identity{}, &middleware.Denial{}), nil),
	} {
		t.Run(name, func(t *testing.T) { require.Empty(t, lines(t)) })
	}
}

// However often a check finds something, it is one line a minute; and newcomers-on-get, which
// may be meant, is one at all, as are form-unsolvable and endpoints-misplaced.
func TestChecksFillNoDisk(t *testing.T) {
	now := new(clock)
	cfg := contact(now)
	idleHour(&cfg)
	log := logTo(&cfg)
	forms(middleware.Newcomers)(&cfg)
	m := newLimiter(t, cfg)
	h := m.Handler(m.Handler(new(spy)))
	for range 180 {
		now.Advance(time.Second)
		send(h, method(http.MethodGet), html, host("shop.example"), with("Referer", "http://shop.example/form"))
		require.NoError(t, m.Reconfigure(cfg))
	}
	count := map[string]int{}
	for _, code := range codesIn(log.Lines()) {
		count[code]++
	}
	require.Equal(t, map[string]int{"limit-idle": 4, "cookie-dropped": 3, "newcomers-on-get": 1}, count)
}

// Nothing that a client sent is told: neither names nor values that it chose.
func TestChecksTellNothingThatWasSent(t *testing.T) {
	const mark = "zzmarkzz"
	for name, change := range map[string]func(*middleware.Config){
		"as it is": nil, "insecure": insecure, "newcomers": forms(middleware.Newcomers),
		"nobody": telling(middleware.Identity{}, errors.New(mark)),
	} {
		var requests [][]option
		for i := range 12 {
			requests = append(requests, []option{method(http.MethodGet), html, from("127.0.0.1"), host(mark + ".example"), path("/" + mark),
				with("Origin", "http://"+mark+".example", "User-Agent", fmt.Sprint(mark, i), "Cookie", "__Host-tallystick-contactx="+mark)})
		}
		lines := around(change, requests...)(t)
		require.NotEmpty(t, lines, name)
		require.NotContains(t, strings.Join(lines, ""), mark, name)
	}
}

// A client that lies in every field that the checks read has at most a line a minute for each
// check, and no word of its own in any.
func TestNoClientWritesTheLog(t *testing.T) {
	const evil = "evil\r\nlevel=ERROR msg=owned\x1b[2J"
	now, rnd := new(clock), random(3)
	cfg := challenging(now, middleware.Newcomers)
	log := logTo(&cfg)
	h, _ := limited(t, cfg)
	minutes := 0
	for i := range 1800 {
		if now.Advance(time.Second); i%60 == 0 {
			minutes++
		}
		host := []string{"example.org", evil, "localhost", ""}[rnd.IntN(4)]
		send(h, from([]string{"10.0.0.1", "203.0.113.9", "2001:db8::1", "192.168.1.1"}[rnd.IntN(4)]), func(r *http.Request) {
			r.Host = host
			if rnd.IntN(2) == 0 {
				r.Method = http.MethodGet
			}
			for name, value := range map[string]string{
				"Origin": "http://" + host, "Referer": "https://" + host + "/" + evil, "User-Agent": evil + strings.Repeat("x", rnd.IntN(9)),
				"X-Forwarded-For": "198.51.100." + string(rune('1'+rnd.IntN(9))) + ", " + evil, "Forwarded": "for=" + evil,
				"X-Real-Ip": evil, "Accept": "text/html", "Cookie": "__Host-tallystick-contact=" + evil,
				middleware.TokenHeader: evil, middleware.ProofHeader: evil,
			} {
				if rnd.IntN(2) == 0 {
					r.Header.Set(name, value)
				}
			}
		})
	}
	told := map[string]int{}
	for _, code := range codesIn(log.Lines()) {
		require.NotEmpty(t, code)
		told[code]++
	}
	for code, n := range told {
		require.LessOrEqual(t, n, minutes+1, code)
	}
	require.NotEmpty(t, told)
	for _, word := range []string{"evil", "owned", "198.51.100"} {
		require.NotContains(t, log.String(), word)
	}
}

// A page's scripts are not missed where a browser has asked for one, or has run one on another instance; nor by programs,
// nor for what a browser fetches ahead.
func TestScriptsThatAreNotMissing(t *testing.T) {
	cfg := waiting(new(clock), middleware.Newcomers)
	elsewhere := newSite(t, cfg)
	for name, test := range map[string]struct {
		before func(*site)
		asking option
		times  int
	}{
		"a script":        {func(h *site) { send(h, method(http.MethodGet), path(h.M.ScriptURL())) }, navigating(), 40},
		"an endpoint":     {func(h *site) { fetched(h) }, navigating(), 40},
		"a purchase":      {func(h *site) { send(h, showing(bought(t, elsewhere))) }, navigating(), 40},
		"seven pages":     {nil, navigating(), 7},
		"programs":        {nil, func(r *http.Request) { method(http.MethodGet)(r); html(r) }, 40},
		"HEAD":            {nil, func(r *http.Request) { navigating()(r); r.Method = http.MethodHead }, 40},
		"fetched ahead":   {nil, navigating("Sec-Purpose", "prefetch;prerender"), 40},
		"another's frame": {nil, navigating("Sec-Fetch-Dest", "iframe", "Sec-Fetch-Site", "cross-site"), 40}, // its page has none
	} {
		t.Run(name, func(t *testing.T) {
			h := newSite(t, cfg)
			if test.before != nil {
				test.before(h)
			}
			for range test.times {
				send(h, test.asking)
			}
			require.Empty(t, h.Log.Lines())
		})
	}
}
