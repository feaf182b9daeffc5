// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/span"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// A trouble sets a check off, once. What comes of it is a line that docs/checks.md prints.
type trouble func(t *testing.T) []string

// around serves requests by a policy; each comes a second after the other.
func around(change func(*middleware.Config), requests ...[]option) trouble {
	return func(t *testing.T) []string {
		now := new(clock)
		cfg := contact(now)
		cfg.Limits[0].Quota = 1 << 20
		log := logTo(&cfg)
		if change != nil {
			change(&cfg)
		}
		h := newLimiter(t, cfg).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for _, options := range requests {
			now.Advance(time.Second)
			send(h, options...)
		}
		return log.Lines()
	}
}

// host names the site that a request is for, and page is a request of a page of the site shop.example.
func host(name string) option { return func(r *http.Request) { r.Host = name } }

func page(origin string, more ...option) []option {
	return append([]option{host("shop.example"), with("Origin", origin)}, more...)
}

func overTLS(r *http.Request) { r.TLS = new(tls.ConnectionState) }

func forms(mode middleware.Mode) func(*middleware.Config) {
	return func(cfg *middleware.Config) { cfg.Challenge = &middleware.Challenge{Mode: mode, Work: 16} }
}

func insecure(cfg *middleware.Config) { cfg.InsecureCookie = true }

func trusting(cfg *middleware.Config) {
	cfg.Identity, _ = middleware.ForwardedFor(netip.MustParsePrefix("10.0.0.0/8"))
}

func telling(id middleware.Identity, err error) func(*middleware.Config) {
	return func(cfg *middleware.Config) {
		cfg.Identity = func(*http.Request) (middleware.Identity, error) { return id, err }
	}
}

func programs(n int, addr func(i int) string, more ...option) (requests [][]option) {
	for i := range n {
		requests = append(requests, append([]option{from(addr(i)), with("User-Agent", fmt.Sprintf("program/%d", i))}, more...))
	}
	return requests
}

func always(addr string) func(int) string { return func(int) string { return addr } }

// A framework is a writer that says whether a response has begun, as gin's does.
type framework struct{ http.ResponseWriter }

func (f *framework) Written() bool { return true }

func frameworks(w http.ResponseWriter) http.ResponseWriter { return &framework{w} }

// A stripper takes a field away when the header is written.
type stripper struct {
	http.ResponseWriter
	name string
}

func (s *stripper) WriteHeader(status int) {
	s.Header().Del(s.name)
	s.ResponseWriter.WriteHeader(status)
}

func stripping(name string) func(http.ResponseWriter) http.ResponseWriter {
	return func(w http.ResponseWriter) http.ResponseWriter { return &stripper{w, name} }
}

// endpoints serves requests, one each second, by a policy that wants work, around all of a site.
func endpoints(n int, first func(*middleware.Middleware, http.Handler)) trouble {
	return func(t *testing.T) []string {
		now := new(clock)
		cfg := challenging(now, middleware.Newcomers)
		log := logTo(&cfg)
		m := newLimiter(t, cfg)
		h := m.Handler(http.NewServeMux())
		first(m, h)
		for range n {
			send(h)
			now.Advance(time.Second)
		}
		return log.Lines()
	}
}

// visits asks for a page n times, of a site where something has happened before.
func visits(n int, asking option, before func(*testing.T, *site)) trouble {
	return func(t *testing.T) []string {
		h := newSite(t, waiting(new(clock), middleware.Newcomers))
		if before != nil {
			before(t, h)
		}
		for range n {
			send(h, asking)
		}
		return h.Log.Lines()
	}
}

// formsRefused sends many forms to a site that keeps them, and returns the log.
func formsRefused(t *testing.T, change func(*middleware.Config)) []string {
	h := newSite(t, changed(keeping(new(clock), middleware.Newcomers), change))
	for range 40 {
		send(h, submitting(urlencoded, "a=b"))
	}
	require.Contains(t, bodyOf(t, send(h, submitting(urlencoded, "a=b"))), `name="a"`)
	return h.Log.Lines()
}

// sentFrom has a page of an origin send something to a site behind a proxy that names itself as the Host.
func sentFrom(origin string, sends func(h *site, page option)) trouble {
	return func(t *testing.T) []string {
		h := newSite(t, keeping(new(clock), middleware.Newcomers))
		sends(h, both(host("127.0.0.1:8080"), with("Origin", origin), func(r *http.Request) { r.Header.Del("Sec-Fetch-Site") }))
		return h.Log.Lines()
	}
}

// wrapped serves a request by a limiter whose writer is what wrap makes of the server's.
func wrapped(wrap func(http.ResponseWriter) http.ResponseWriter, verb string, handle http.HandlerFunc) trouble {
	return func(t *testing.T) []string {
		cfg := contact(new(clock))
		log := logTo(&cfg)
		newLimiter(t, cfg).Handler(handle).ServeHTTP(wrap(httptest.NewRecorder()), httptest.NewRequest(verb, "/", nil))
		return log.Lines()
	}
}

func writing(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// nested serves requests by a policy around another.
func nested(between func(http.Handler) http.Handler, inner string) trouble {
	return func(t *testing.T) []string {
		cfg := contact(new(clock))
		cfg.Policy = "site"
		log := logTo(&cfg)
		outer := newLimiter(t, cfg)
		page := outer
		if inner != "" {
			cfg.Policy = inner
			page = newLimiter(t, cfg)
		}
		send(outer.Handler(between(page.Handler(new(spy)))))
		return log.Lines()
	}
}

// ofCounter returns one line, of several, of the log of an exact route: what happens to its engine comes first.
func ofCounter(line int, happens func(c *clock, l *ledger, h http.Handler)) trouble {
	return func(t *testing.T) []string {
		c, l, h := paidSite(t)
		happens(c, l, h)
		return h.Log.Lines()[line : line+1]
	}
}

func failure(err error) trouble {
	return ofCounter(0, func(_ *clock, l *ledger, h http.Handler) {
		l.Fault = func(context.Context, int) error { return err }
		send(h)
	})
}

// outageAndAfter is an engine that is down for a while.
func outageAndAfter(c *clock, l *ledger, h http.Handler) {
	l.Fault = onFire
	breaks(h, c)
	l.Fault = nil
	for range 20 {
		c.Advance(time.Second)
		send(h)
	}
}

var (
	anHourOfLess = []middleware.Limit{{Quota: 10, Window: time.Minute}, {Quota: 1000, Window: time.Hour}} // never refuses
	anHourOfMore = []middleware.Limit{{Quota: 100, Window: time.Minute}, {Quota: 1000, Window: time.Hour}}
)

func idleHour(cfg *middleware.Config) { cfg.Limits = anHourOfLess }

func troubles() map[string]trouble {
	field := func(value string) []option { return []option{from("10.0.0.1"), with("X-Forwarded-For", value)} }
	tiered := middleware.APIKey("x")
	tiered.Tier = "pro"
	return map[string]trouble{
		"configured": func(t *testing.T) []string {
			return startingWith(t, changed(contactForm(new(clock)), func(cfg *middleware.Config) { cfg.MaxClients = 0 }))[:1]
		},
		"bounds": func(t *testing.T) []string { return startingWith(t, contactForm(new(clock)))[1:] },
		"hour-unlimited": func(t *testing.T) []string {
			return startingWith(t, changed(contact(new(clock)), forms(middleware.Newcomers)))[2:]
		},
		"secret-weak": around(func(cfg *middleware.Config) { cfg.Secrets = [][]byte{secret("a"), bytes.Repeat([]byte("k3X9"), 11)} }),
		"limit-idle":  around(idleHour),
		"failures-free": around(func(cfg *middleware.Config) {
			logger := cfg.Logger
			*cfg = login(new(clock))
			cfg.Policy, cfg.Logger, cfg.ByOutcome.Free = "contact", logger, []int{http.StatusUnauthorized}
		}),
		"identity-unknown":     around(nil, []option{from("@")}),
		"identity-unavailable": around(func(cfg *middleware.Config) { cfg.Identity = away }, nil),
		"tier-unknown":         around(telling(tiered, nil), nil),
		"limits-failed": around(func(cfg *middleware.Config) {
			telling(middleware.APIKey("x"), nil)(cfg)
			cfg.LimitsFor = patiently(func(context.Context, middleware.Identity) ([]middleware.Limit, error) {
				return nil, errors.New("the database is away")
			})
		}, nil),
		"proxy-untrusted": around(nil, field("203.0.113.9")),
		"proxy-suspected": around(trusting, field("203.0.113.5, 66.241.125.1"), field("203.0.113.6, 66.241.125.1"),
			field("203.0.113.7, 66.241.125.1"), field("203.0.113.8, 66.241.125.1")),
		"proxy-silent":    around(trusting, []option{from("10.0.0.1")}),
		"proxy-forgetful": around(trusting, field("203.0.113.5"), []option{from("10.0.0.1")}),
		"everybody-one":   around(nil, programs(8, always("127.0.0.1"))...),
		"cookie-dropped":  around(nil, page("http://shop.example")),
		"cookie-insecure": around(insecure, []option{overTLS}),
		"fields-lost":     wrapped(stripping("Tallystick-Token"), http.MethodPost, writing(http.StatusNoContent)),
		"writer-bypassed": wrapped(frameworks, http.MethodGet, func(http.ResponseWriter, *http.Request) {}),
		"policy-made-twice": func(t *testing.T) []string {
			cfg := contact(new(clock))
			log := logTo(&cfg)
			first := newLimiter(t, cfg)
			newLimiter(t, cfg)
			runtime.KeepAlive(first)
			return log.Lines()
		},
		"policy-twice":        nested(plain, ""),
		"endpoints-unmounted": endpoints(11, func(*middleware.Middleware, http.Handler) {}),
		"page-scripts-missing": visits(8, navigating(), func(_ *testing.T, h *site) {
			send(h, method(http.MethodGet), path(h.M.StyleURL())) // it may load where scripts may not
		}),
		"newcomers-on-get": around(forms(middleware.Newcomers), []option{method(http.MethodGet), html}),
		"endpoints-misplaced": func(t *testing.T) []string {
			cfg := challenging(new(clock), middleware.Newcomers)
			log := logTo(&cfg)
			h := newLimiter(t, cfg).Endpoints()
			for range 3 {
				resp := requireStatus(t, http.StatusNotFound, send(h, method(http.MethodGet), path("/other/challenge")))
				require.Contains(t, bodyOf(t, resp), "404: mount these endpoints at /tally/ or, where a proxy takes its beginning away, at the rest")
			}
			return log.Lines()
		},
		"endpoints-idle": func(t *testing.T) []string {
			cfg := contact(new(clock))
			log := logTo(&cfg)
			h := newLimiter(t, cfg).Endpoints()
			require.Contains(t, bodyOf(t, requireStatus(t, http.StatusNotFound, fetched(h))), "no Challenge.Path")
			return log.Lines()
		},
		"form-unsolvable": around(forms(middleware.Newcomers), []option{html}),
		"host-changed":    sentFrom("http://shop.example", func(h *site, page option) { send(h, submitting(urlencoded, "a=b"), page) }),
		"cost-above-quota": func(t *testing.T) []string {
			cfg := contact(new(clock))
			cfg.Limits[0].Quota, cfg.Tiers = 25, tierOf(cfg.Limits[0], 20)
			log := logTo(&cfg)
			newLimiter(t, cfg).HandlerCost(25, new(spy))
			return log.Lines()
		},
		"exact-outside": func(t *testing.T) []string {
			c, _, cfg := paidRoute()
			log := logTo(&cfg)
			send(newLimiter(t, cfg).Handler(spentPage(t, c, nil)))
			return log.Lines()
		},
		"cost-negative": around(func(cfg *middleware.Config) { cfg.Cost = func(*http.Request) int64 { return -1 } }, nil),
		"secret-unknown": func(t *testing.T) []string {
			theirs, _ := limited(t, changed(contact(new(clock)), func(cfg *middleware.Config) { cfg.Secrets = [][]byte{secret("b")} }))
			var requests [][]option
			for i := range 4 {
				who := from(fmt.Sprintf("203.%d.113.1", i))
				requests = append(requests, []option{who, showing(spend(t, theirs, 1, who))})
			}
			return around(nil, requests...)(t)
		},
		"clock-differs": func(t *testing.T) []string {
			ahead := new(clock)
			ahead.Advance(90 * time.Second)
			theirs, _ := limited(t, contact(ahead))
			return around(nil, []option{showing(spend(t, theirs, 1))})(t)
		},
		"clock-jumped": func(t *testing.T) []string {
			now := new(clock)
			h := newSite(t, contact(now))
			send(h)
			now.Advance(-time.Hour)
			send(h)
			return h.Log.Lines()
		},
		"memory-full": func(t *testing.T) []string {
			f := handlers.NewFlood(contact(new(clock)))
			f.Cfg.MaxClients = 1
			log := logTo(&f.Cfg)
			f.Send(newLimiter(t, f.Cfg).Handler(new(spy)), 1000)
			return log.Lines()
		},
		"sales-full": func(t *testing.T) []string {
			h := newSite(t, changed(challenging(new(clock), middleware.Newcomers), func(cfg *middleware.Config) { cfg.MaxClients = 1 }))
			for i := range 40 {
				addr := from(fmt.Sprintf("198.%d.100.1", i))
				send(h, addr, proving(solved(t, fetched(h, addr))))
			}
			return slices.DeleteFunc(h.Log.Lines(), func(line string) bool { return strings.Contains(line, "code=memory-full") })
		},
		"price-high": func(t *testing.T) []string {
			now := new(clock)
			h := newSite(t, changed(challenging(now, middleware.Newcomers), func(cfg *middleware.Config) { cfg.Challenge.Crowd = 8 }))
			h.M.SellOut(now.Now(), peerIdentity)
			now.Advance(time.Hour)
			for range 3 {
				send(h)
			}
			return h.Log.Lines()
		},
		"challenge-failed": around(func(cfg *middleware.Config) {
			forms(middleware.Newcomers)(cfg)
			cfg.Now = func() time.Time { return time.Unix(-3600, 0) }
		}, nil),
		"counter-down": ofCounter(1, outageAndAfter),
		"counter-back": ofCounter(2, outageAndAfter),
		"counter-refuses": ofCounter(0, func(c *clock, l *ledger, h http.Handler) {
			l.Fault = func(context.Context, int) error { return exact.ErrContended }
			for range 10 {
				send(h)
				c.Advance(time.Second)
			}
		}),
		"counter-full":   failure(fmt.Errorf("%w: file: no room on the disk", exact.ErrFull)),
		"counter-failed": failure(errEngine),
	}
}

// startingWith returns the lines that a policy writes when it starts.
func startingWith(t *testing.T, cfg middleware.Config) []string {
	var b strings.Builder
	cfg.Logger = slog.New(slog.NewTextHandler(&b, nil))
	newLimiter(t, cfg)
	return slices.Collect(strings.Lines(b.String()))
}

// An hour's limit is advised where tallies are sold that a minute's limit alone makes worth many times itself, and
// nowhere else.
func TestAnHoursLimitIsAdvised(t *testing.T) {
	quota := func(windows ...time.Duration) (all []middleware.Limit) {
		for i, w := range windows {
			all = append(all, middleware.Limit{Name: fmt.Sprint(i), Quota: 5, Window: w})
		}
		return all
	}
	tried := []middleware.Limit{{Quota: 5, Window: time.Minute}, {Name: "tried", Quota: 50, Window: time.Hour, Shadow: true}}
	for name, test := range map[string]struct {
		limits []middleware.Limit
		mode   middleware.Mode
		sells  bool
		told   bool
	}{
		"a minute":               {quota(time.Minute), middleware.WhenExhausted, true, true},
		"minutes":                {quota(time.Minute, 10*time.Minute-time.Second), middleware.Newcomers, true, true},
		"and an hour on trial":   {tried, middleware.Newcomers, true, true},
		"ten minutes":            {quota(time.Minute, 10*time.Minute), middleware.Newcomers, true, false},
		"and an hour":            {quota(time.Minute, time.Hour), middleware.Newcomers, true, false},
		"and a day":              {quota(time.Minute, 24*time.Hour), middleware.WhenExhausted, true, false},
		"nothing is sold":        {quota(time.Minute), 0, false, false},
		"a proof buys a request": {quota(time.Minute), middleware.EveryRequest, true, false},
	} {
		cfg := contact(new(clock))
		cfg.Limits = test.limits
		if test.sells {
			forms(test.mode)(&cfg)
		}
		told := strings.Contains(strings.Join(startingWith(t, cfg), ""), " code=hour-unlimited ")
		require.Equal(t, test.told, told, name)
	}
}

type section struct{ code, text, example string }

func sections(t *testing.T) (all []section) {
	t.Helper()
	page := kit.Must(os.ReadFile("../docs/checks.md"))(t)
	example := regexp.MustCompile("(?s)```text\n(.*?)\n```")
	for _, part := range strings.Split(string(page), "\n### ")[1:] {
		code, text, _ := strings.Cut(part, "\n")
		text, _, _ = strings.Cut(text, "\n## ")
		shown := example.FindStringSubmatch(text)
		require.NotNil(t, shown, "%s has no example", code)
		all = append(all, section{code, text, shown[1]})
	}
	return all
}

// Each code of the sources has a section in docs/checks.md and each section a code: a line, what it
// means, and a cure if there is more of one than the remedy in the line. The lines are what the checks write, word for word.
func TestEveryCheckHasItsPage(t *testing.T) {
	var explained []string
	for _, s := range sections(t) {
		if !regexp.MustCompile("^(redis|remote|peers)-").MatchString(s.code) { // those packages have tests of these
			explained = append(explained, s.code)
		}
		require.Regexp(t, "(?s)^\n```text\n[^\n]+\n```\n\n\\S", s.text, "%s: the line, and what it means", s.code)
		if !strings.Contains(s.example, ` remedy="`) {
			require.Contains(t, s.text, "\n\n**Cure.** ", s.code)
		}
		require.Contains(t, s.example, " code="+s.code+" ")
		require.Contains(t, s.example, " page="+middleware.ChecksPage+s.code)
	}
	require.ElementsMatch(t, middleware.Codes(), explained)
}

func TestChecks(t *testing.T) {
	examples := map[string]string{}
	for _, s := range sections(t) {
		examples[s.code] = s.example
	}
	stamp := regexp.MustCompile(`^time=\S+ `)
	address := regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+\b|::|[0-9a-f]:[0-9a-f]+:`)
	all := troubles()
	for _, code := range middleware.Codes() {
		t.Run(code, func(t *testing.T) {
			require.Contains(t, all, code)
			lines := all[code](t)
			require.Equal(t, []string{code}, codesIn(lines))
			line := stamp.ReplaceAllString(strings.TrimSuffix(lines[0], "\n"), "")
			require.NotRegexp(t, address, line, "no line holds the address of a client: docs/watching.md says so")
			require.Equal(t, examples[code], line, "the example in docs/checks.md, and the line that is written, which belongs there")
			require.Contains(t, line, ` remedy="`, "what is told has a cure")
		})
	}
}

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
		"a page of no origin":               around(nil, page("null"), at(""), page(shop, with("Origin", shop))),
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
		"a field of no limiter":                wrapped(stripping("Server"), http.MethodPost, writing(200)),
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
		"a limit of another unit": around(func(cfg *middleware.Config) {
			cfg.Limits = []middleware.Limit{{Name: "requests", Quota: 60, Window: time.Minute}, {Name: "tokens", Quota: 1000, Window: time.Minute}}
			cfg.Units = map[string]middleware.Unit{"tokens": {Limits: []string{"tokens"}}}
		}),
		"a limit that a tier needs": around(func(cfg *middleware.Config) {
			cfg.Limits, cfg.Tiers = anHourOfLess, map[string][]middleware.Limit{"pro": anHourOfMore}
		}),
		"a limit that customers may need": around(func(cfg *middleware.Config) {
			cfg.Limits, cfg.Identity = anHourOfLess, only(middleware.APIKey("x"))
			cfg.LimitsFor = patiently(func(context.Context, middleware.Identity) ([]middleware.Limit, error) {
				return anHourOfMore, nil
			})
		}, nil),
		// Whether a policy around a whole site is asked for its own URLs is known when there was the time to.
		"endpoints that are mounted, though no client has asked": endpoints(11, func(m *middleware.Middleware, _ http.Handler) { m.Endpoints() }),
		"endpoints that have answered, around all of a site":     endpoints(11, func(_ *middleware.Middleware, h http.Handler) { send(h, method("GET"), path("/tally/tally.js")) }),
		"endpoints that may be asked in a moment":                endpoints(10, func(*middleware.Middleware, http.Handler) {}),
		"one request a second is checked for proxies": func(t *testing.T) []string {
			h := newSite(t, contact(new(clock)))
			send(h)
			send(h, from("10.0.0.1"), with("X-Forwarded-For", "203.0.113.5"))
			return h.Log.Lines()
		},
		"a denial": around(telling(middleware.Identity{}, &middleware.Denial{}), nil),
		// A page's scripts are not missed where a browser has asked for one, or has run one on another instance; nor by
		// programs, nor for what a browser fetches ahead.
		"a script":    visits(40, navigating(), func(_ *testing.T, h *site) { send(h, method(http.MethodGet), path(h.M.ScriptURL())) }),
		"an endpoint": visits(40, navigating(), func(_ *testing.T, h *site) { fetched(h) }),
		"a purchase": visits(40, navigating(), func(t *testing.T, h *site) {
			send(h, showing(bought(t, newSite(t, waiting(new(clock), middleware.Newcomers)))))
		}),
		"forms without a script": func(t *testing.T) []string {
			return formsRefused(t, func(cfg *middleware.Config) { cfg.Challenge = nil })
		},
		"a form of the Host":      sentFrom("http://127.0.0.1:8080", func(h *site, page option) { send(h, submitting(urlencoded, "a=b"), page) }),
		"a form of a hidden page": sentFrom("null", func(h *site, page option) { send(h, submitting(urlencoded, "a=b"), page) }),
		"a form of another site": sentFrom("https://other.example", func(h *site, page option) {
			send(h, submitting(urlencoded, "a=b"), page, with("Sec-Fetch-Site", "cross-site"))
		}),
		"a script's request of another origin": sentFrom("http://other.example", func(h *site, page option) { send(h, page) }),
		"seven pages":                          visits(7, navigating(), nil),
		"programs":                             visits(40, both(method(http.MethodGet), html), nil),
		"HEAD":                                 visits(40, both(navigating(), method(http.MethodHead)), nil),
		"fetched ahead":                        visits(40, navigating("Sec-Purpose", "prefetch;prerender"), nil),
		"another's frame":                      visits(40, navigating("Sec-Fetch-Dest", "iframe", "Sec-Fetch-Site", "cross-site"), nil), // its page has none
	} {
		t.Run(name, func(t *testing.T) { require.Empty(t, lines(t)) })
	}
}

// A form that is kept needs a script as a page does.
func TestScriptsOfFormsAreMissed(t *testing.T) {
	require.Equal(t, []string{"page-scripts-missing"}, codesIn(formsRefused(t, func(*middleware.Config) {})))
}

// A page cannot buy either where the Host is not its own.
func TestPurchasesOfAnotherHostAreTold(t *testing.T) {
	require.Equal(t, []string{"host-changed"}, codesIn(sentFrom("http://shop.example", func(h *site, page option) {
		requireStatus(t, http.StatusForbidden, send(h, path("/tally/redeem"), page))
	})(t)))
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

// Nothing that a client sent is told, neither names nor values that it chose: one that lies in every field that the checks read
// has at most a line a minute for each check, and no word of its own in any.
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
			r.Host, r.URL.Path = host, "/"+evil
			if rnd.IntN(2) == 0 {
				r.Method = http.MethodGet
			}
			for name, value := range map[string]string{
				"Origin": "http://" + host, "Referer": "https://" + host + "/" + evil, "User-Agent": evil + strings.Repeat("x", rnd.IntN(9)),
				"X-Forwarded-For": "198.51.100." + string(rune('1'+rnd.IntN(9))) + ", " + evil, "Forwarded": "for=" + evil,
				"X-Real-Ip": evil, "Accept": "text/html", "Cookie": "__Host-tallystick-contact=" + evil, "evil": "evil",
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

// What the log says of proxies: no client has spent the quota, and a request comes each second.
func TestProxiesAreLogged(t *testing.T) {
	// named is a request of an address, with a field that names the i-th client of a network.
	named := func(addr, field, client string) func(i int) option {
		return func(i int) option {
			return both(from(strings.ReplaceAll(addr, "%d", fmt.Sprint(i))), with(field, strings.ReplaceAll(client, "%d", fmt.Sprint(i))))
		}
	}
	const list = "X-Forwarded-For"
	asks := func(n int, nth func(int) option, see ...func(*scene)) step {
		if n == 0 {
			return step{see: see}
		}
		return step{times: n, every: time.Second, nth: nth, want: 200, see: see}
	}
	by := func(identity middleware.IdentityFunc) setup {
		return limiting(limits(fixed(1<<20, time.Minute)), func(cfg *middleware.Config) { cfg.Identity = identity })
	}
	others := mustIdentity(middleware.ForwardedFor(netip.MustParsePrefix("192.0.2.0/24")))
	shared := func(s *scene) {
		require.Contains(s, s.site.Log.Only(s), "all of its clients share one quota")
		require.NotContains(s, s.site.Log.Lines()[0], "203.0.113", "nothing that was sent")
	}
	noise := named("203.0.113.%d", list, "198.51.100.1")
	ofLoadBalancer := func(n int, see ...func(*scene)) step { return asks(n, named("35.191.0.5", list, "192.0.2.%d"), see...) }
	fly := mustIdentity(middleware.ForwardedFor(netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("fdaa::/16")))
	scenarios := []scenario{
		// Fly.io ends the list with the app's own address: to ForwardedFor, that is every client.
		{"a list that ends with the same public address", by(fly), []step{
			asks(3, named("172.16.4.2", list, "203.0.113.%d, 66.241.125.1"), told()), asks(1, named("172.16.4.2", list, "203.0.113.9, 66.241.125.1"), shared),
		}},
		// A proxy that is not named makes one client of all: the commonest mistake there is.
		{"another proxy than those that are named", by(others), []step{
			asks(1, named("198.51.100.1", list, "203.0.113.9"), told()), asks(1, named("10.1.2.3", "X-Other", ""), told()), asks(1, named("10.1.2.3", list, "203.0.113.9"), shared),
		}},
		{"a list that ends with a private address", by(fly), []step{{see: all{told()}}, asks(1, named("172.16.4.2", list, "203.0.113.5, 10.0.0.7"), shared)}},
		// A client can cause one line a minute, and no more: neither by addresses that it invents nor by connections from many.
		{"the log does not fill the disk", by(nil), []step{asks(1200, func(i int) option {
			return both(from(fmt.Sprintf("203.0.113.%d", i%50)), with(list, fmt.Sprintf("198.51.%d.%d", i/250, i%250)))
		}, func(s *scene) {
			require.LessOrEqual(s, len(s.site.Log.Lines()), 20)
			require.NotEmpty(s, s.site.Log.Lines())
		})}},
		{"noise hides a proxy for a day, and an old day does not count", by(nil), []step{
			asks(8, noise), ofLoadBalancer(20, told()), // all places are taken
			{after: 24 * time.Hour}, ofLoadBalancer(3), {after: 24 * time.Hour}, ofLoadBalancer(3, told()), // three a day
			ofLoadBalancer(4, func(s *scene) { require.Len(s, s.site.Log.Lines(), 1) }),
		}},
	}
	for peer, clients := range map[string]int{
		"172.16.4.2": 1, "10.1.2.3": 1, "192.168.0.9": 1, "fdaa:0:1::3": 1, "127.0.0.1": 1, "::1": 1, // private
		"169.254.169.126": 1, "fe80::1": 1, // link-local: sandboxes
		"100.64.0.3": 1, "100.127.255.255": 1, // shared: platforms
		"::ffff:10.0.0.1": 1,
		"35.191.0.5":      4, "2600:1901::5": 4, // public: a load balancer, or a client that invents
		"100.63.255.255": 4, "100.128.0.0": 4, "172.32.0.1": 4,
	} {
		for _, field := range []string{
			list, "Forwarded", "X-Real-IP", "Fly-Client-IP", "CF-Connecting-IP", "True-Client-IP", "X-Client-IP", "Fastly-Client-IP", "X-Envoy-External-Address",
		} {
			value := map[bool]string{true: "for="}[field == "Forwarded"] + "203.0.113."
			scenarios = append(scenarios, scenario{peer + " " + field, by(nil), []step{
				asks(1, named(peer, "X-Other", "")), asks(clients-1, named(peer, field, value+"%d"), told()),
				asks(1, named(peer, field, value+"9"), shared, func(s *scene) {
					require.Contains(s, strings.ToLower(s.site.Log.Lines()[0]), "field="+strings.ToLower(field))
				}),
			}})
		}
	}
	for name, of := range map[string]struct {
		identity middleware.IdentityFunc
		nth      func(i int) option
	}{
		"clients of a trusted proxy":              {mustIdentity(middleware.ForwardedFor(proxies...)), named("10.0.0.1", list, "203.0.113.%d")},
		"clients that each name themselves":       {nil, named("203.0.113.%d", list, "203.0.113.%d")},
		"one that names another, always the same": {nil, named("203.0.113.1", list, "198.51.100.1")},
		"one that names one network":              {nil, named("203.0.113.1", list, "2001:db8::1%d")},
		"a company's proxy that names its own":    {nil, named("203.0.113.1", list, "10.0.0.%d")},
		"one that writes garbage": {nil, func(i int) option {
			return with(list, fmt.Sprintf("x%d", i), "Forwarded", fmt.Sprintf("for=_%d", i), "X-Real-IP", fmt.Sprint(i))
		}},
		"private ones, without a field": {nil, func(i int) option { return from(fmt.Sprintf("10.0.0.%d", i)) }},
		"keys":                          {only(middleware.APIKey("k")), named("10.0.0.1", list, "203.0.113.%d")},
	} {
		scenarios = append(scenarios, scenario{name + " are no proxies", by(of.identity), []step{asks(40, of.nth, told())}})
	}
	play(t, scenarios)
}

// Twins are two instances behind a balancer that sends a client to each in turn. The second differs
// in its secret, or the first in its clock.
type twins struct {
	one, other    *site
	now, ahead    *clock
	first, second *handlers.Logged

	requests, told int // in all, and by the first line
}

func newTwins(t *testing.T, cfg middleware.Config, secretOfOther string, ahead time.Duration) *twins {
	p := &twins{now: new(clock), ahead: new(clock)}
	p.ahead.Advance(ahead)
	cfg.Now = p.ahead.Now
	p.first = logTo(&cfg)
	p.one = newSite(t, cfg)
	cfg.Now, cfg.Secrets = p.now.Now, [][]byte{secret(secretOfOther)}
	p.second = logTo(&cfg)
	p.other = newSite(t, cfg)
	return p
}

// visitor is the i-th client, of a network of its own, a second after the one before.
func (p *twins) visitor(i int) option {
	p.now.Advance(time.Second)
	p.ahead.Advance(time.Second)
	return from(fmt.Sprintf("203.%d.113.1", i))
}

// codes are the codes in both logs.
func (p *twins) codes() []string {
	return append(codesIn(p.first.Lines()), codesIn(p.second.Lines())...)
}

// asked counts requests, and notes the first that the log told of.
func (p *twins) asked(n int) {
	if p.requests += n; p.told == 0 && len(p.codes()) > 0 {
		p.told = p.requests
	}
}

// What log and metrics say where two instances have different secrets, or clocks, and with which request.
func TestWhatInstancesDisagreeAbout(t *testing.T) {
	for _, scene := range []struct {
		name, secret string
		ahead        time.Duration
		code         string

		tokens, work int // requests
	}{
		{"one secret, one clock", "a", 0, "", 0, 0},
		{"clocks as far apart as they may be", "a", 2 * time.Second, "", 0, 0},
		{"another secret", "b", 0, "secret-unknown", 3*12 + 2, 3*6 + 2}, // of the fourth visitor the second
		{"90 s ahead", "a", 90 * time.Second, "clock-differs", 2, 2},
		{"an hour ahead", "a", time.Hour, "clock-differs", 2, 2},
		{"90 s behind", "a", -90 * time.Second, "clock-differs", 3, 4},
	} {
		t.Run(scene.name+", tokens", func(t *testing.T) {
			cfg := contact(new(clock))
			p := newTwins(t, cfg, scene.secret, scene.ahead)
			admitted := 0
			for i := range 4 {
				who, tok := p.visitor(i), ""
				for n := range 12 {
					h := []http.Handler{p.one, p.other}[n%2]
					resp := send(h, who, showing(tok))
					p.asked(1)
					if tokenIn(resp) != "" {
						tok = tokenIn(resp)
					}
					if i == 0 && resp.StatusCode == http.StatusOK {
						admitted++
					}
				}
			}
			require.Equal(t, scene.tokens, p.told)
			stats := []map[string]uint64{p.one.M.Stats().Tokens, p.other.M.Stats().Tokens}
			t.Logf("%d of 5 admitted; told with request %d: %v %+v", admitted, p.told, p.codes(), stats)
			if scene.code == "" {
				require.Equal(t, 5, admitted)
				require.Zero(t, stats[0]["secret-unknown"]+stats[0]["clock-differs"]+stats[1]["secret-unknown"]+stats[1]["clock-differs"])
				return
			}
			require.Contains(t, p.codes(), scene.code)
			require.Equal(t, 10, admitted, "of one visitor: a quota of each instance")
			switch {
			case scene.secret != "a":
				require.Positive(t, stats[0]["secret-unknown"])
				require.Positive(t, stats[1]["secret-unknown"])
				require.NotEqual(t, p.one.M.Stats().KeyIDs, p.other.M.Stats().KeyIDs)
			case scene.ahead > 0:
				require.Empty(t, p.first.Lines(), "what is old proves nothing")
				require.Positive(t, stats[1]["clock-differs"])
				require.Positive(t, stats[0]["expired"]+stats[0]["accepted"])
			default:
				require.Positive(t, stats[0]["clock-differs"])
			}
			if scene.ahead > 0 {
				_, by, _ := strings.Cut(p.second.Lines()[0], ` ahead="`)
				by, _, _ = strings.Cut(by, `"`)
				ahead := kit.Must(time.ParseDuration(strings.NewReplacer(" ", "", "min", "m").Replace(by)))(t)
				require.LessOrEqual(t, ahead, scene.ahead)
				require.Greater(t, ahead, scene.ahead-time.Minute, "to a window")
			}
		})

		t.Run(scene.name+", work", func(t *testing.T) {
			p := newTwins(t, challenging(new(clock), middleware.Newcomers), scene.secret, scene.ahead)
			reasons := map[middleware.Reason]int{}
			for i := range 4 {
				who := p.visitor(i)
				resp := fetched(p.one, who)
				for n := range 3 { // as our clients do
					proof := solved(t, resp)
					resp = redeemed([]http.Handler{p.other, p.one}[n%2], proof, who)
					p.asked(2) // the challenge of the next may be asked for
					if resp.StatusCode == http.StatusOK {
						break
					}
					reasons[middleware.Reason(problemIn(t, resp).Reason)]++
				}
			}
			require.Equal(t, scene.work, p.told)
			stats := []map[string]uint64{p.one.M.Stats().Proofs, p.other.M.Stats().Proofs}
			t.Logf("told with request %d: %v %v %+v", p.told, p.codes(), reasons, stats)
			if scene.code == "" {
				require.Empty(t, reasons)
				return
			}
			require.Contains(t, p.codes(), scene.code)
			require.Positive(t, reasons[middleware.Reason(scene.code)])
			require.Zero(t, reasons["wrong-solution"], "no solver is broken")
			require.Zero(t, stats[0]["accepted"]+stats[1]["accepted"], "no client gets in")
			if scene.ahead > 0 {
				require.Contains(t, p.second.Lines()[0], fmt.Sprintf(" ahead=%q ", span.Text(scene.ahead)), "a challenge says the second")
			}
		})
	}
}

// A page tells the truth to a visitor whose work was for nothing: nothing of it is the visitor's fault.
func TestPageOfASiteThatIsSetUpWrongly(t *testing.T) {
	const truth = "This site is set up wrongly. Please tell its owner."
	for name, p := range map[string]*twins{
		"another secret": newTwins(t, challenging(new(clock), middleware.Newcomers), "b", 0),
		"another clock":  newTwins(t, challenging(new(clock), middleware.Newcomers), "a", time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			proof := solved(t, fetched(p.one))
			require.Contains(t, bodyOf(t, send(p.other, html, proving(proof))), truth)
			require.NotContains(t, bodyOf(t, send(p.other, html)), truth)
			require.NotContains(t, bodyOf(t, send(p.one, html, proving(proof+"0"))), truth, "that is the client's")
		})
	}
}

// A page that has just bought something, and asks an instance that does not believe it, hears what they
// disagree about, and not that its browser keeps no cookies.
func TestAPurchaseThatAnotherInstanceDoesNotBelieve(t *testing.T) {
	type answer struct {
		Carried bool
		Reason  string
	}
	hears := func(t *testing.T, h http.Handler, shown option) (a answer) {
		require.NoError(t, json.Unmarshal([]byte(bodyOf(t, fetched(h, shown))), &a))
		return a
	}
	for name, mode := range map[string]middleware.Mode{"a tally": middleware.Newcomers, "a request": middleware.EveryRequest} {
		t.Run(name, func(t *testing.T) {
			for want, p := range map[string]*twins{
				"":               newTwins(t, challenging(new(clock), mode), "a", 0),
				"secret-unknown": newTwins(t, challenging(new(clock), mode), "b", 0),
				"clock-differs":  newTwins(t, challenging(new(clock), mode), "a", 2*time.Hour),
			} {
				resp := requireStatus(t, http.StatusOK, redeemed(p.one, solved(t, fetched(p.one))))
				cookie := func(r *http.Request) {
					for _, c := range resp.Cookies() {
						r.AddCookie(c)
					}
				}
				require.Equal(t, answer{Carried: true}, hears(t, p.one, cookie))
				require.Equal(t, answer{want == "", want}, hears(t, p.other, cookie))
				if stats := p.other.M.Stats().Tokens; mode == middleware.Newcomers {
					require.Equal(t, []bool{want == "", want == "secret-unknown", want == "clock-differs"},
						[]bool{stats["accepted"] > 0, stats["secret-unknown"] > 0, stats["clock-differs"] > 0})
				}
				require.Equal(t, answer{}, hears(t, p.other, func(*http.Request) {}), "no cookies: no more can be said of these")
			}
		})
	}
}

// No client can raise secret-unknown by itself: not by many addresses of a host, nor as one
// customer, nor by many requests.
func TestOneClientRaisesNoAlarmOfSecrets(t *testing.T) {
	of := func(format string) func(i int) string {
		return func(i int) string { return fmt.Sprintf(format, i) }
	}
	key := func(r *http.Request) (middleware.Identity, error) {
		return middleware.APIKey("customer").For(r.RemoteAddr), nil
	}
	each := func(r *http.Request) (middleware.Identity, error) { return middleware.APIKey(r.RemoteAddr), nil }
	for name, test := range map[string]struct {
		from     func(i int) string
		identity middleware.IdentityFunc
		told     bool
	}{
		"an address":                 {always("203.0.113.1"), nil, false},
		"a /16":                      {of("203.0.%d.1"), nil, false},
		"a /32 of IPv6":              {of("2001:db8:%x::1"), nil, false},
		"a customer, of many things": {of("203.%d.113.1"), key, false},
		"a network of one's own":     {of("10.0.%d.1"), nil, true},
		"four networks in an hour":   {of("203.%d.113.1"), nil, true},
		"four customers":             {of("203.%d.113.1"), each, true},
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, middleware.Newcomers)
			cfg.Identity = test.identity
			other := cfg
			other.Secrets = [][]byte{secret("b")}
			theirs := newSite(t, other)
			h := newSite(t, cfg)
			for i := range 12 {
				now.Advance(2 * time.Second)
				who := from(test.from(i))
				send(h, who, showing(bought(t, theirs, who)))
				send(h, who, proving(solved(t, fetched(theirs, who))))
			}
			require.Equal(t, test.told, h.Log.Count("secret-unknown") > 0, h.Log)
			require.Positive(t, h.M.Stats().Tokens["secret-unknown"])
		})
	}
}

// A few in a day are tokens that clients have kept since a secret was retired. One request a second is looked at, as
// for proxies.
func TestSecretsOfLongAgoAreNotTold(t *testing.T) {
	// toldOf has n visitors come, of networks of their own, with tokens of a secret that is retired; each some time after
	// the one before. It returns the log.
	toldOf := func(n int, after time.Duration) []string {
		now := new(clock)
		cfg := contact(now)
		h := newSite(t, cfg)
		cfg.Secrets = [][]byte{secret("retired")}
		theirs := newSite(t, cfg)
		for i := range n {
			now.Advance(after)
			who := from(fmt.Sprintf("203.%d.113.1", i))
			send(h, who, showing(spend(t, theirs, 1, who)))
		}
		return h.Log.Lines()
	}
	require.Empty(t, toldOf(12, 20*time.Minute+time.Second))
	require.Empty(t, toldOf(8, 0))
	require.NotEmpty(t, toldOf(8, time.Second))
}

// The line at start holds what instances must have in common, and no secret.
func TestConfiguredTellsNoSecret(t *testing.T) {
	var b strings.Builder
	cfg := challenging(new(clock), middleware.Newcomers)
	cfg.Logger = slog.New(slog.NewTextHandler(&b, nil))
	identity := mustIdentity(middleware.ForwardedFor(netip.MustParsePrefix("10.0.0.0/8")))
	cfg.Identity, cfg.Shadow, cfg.Instances, cfg.Secrets = identity, true, 3, [][]byte{secret("a"), secret("b")}
	m := newLimiter(t, cfg)
	line := b.String()
	for _, word := range []string{"kids=" + strings.Join(m.Stats().KeyIDs, ","), `identity="a field of trusted proxies"`, "instances=3", "challenge=Newcomers work=16", "shadow=true", "tiers=0"} {
		require.Contains(t, line, word)
	}
	for _, s := range cfg.Secrets {
		require.NotContains(t, line, string(s))
		require.NotContains(t, line, fmt.Sprintf("%x", s[:4]))
	}
	b.Reset()
	cfg.Secrets = [][]byte{secret("c"), secret("a")}
	require.NoError(t, m.Reconfigure(cfg))
	require.Contains(t, b.String(), "kids="+strings.Join(m.Stats().KeyIDs, ","), "what is in force now, however soon")
}

// A reload that renames a limit gives every client a fresh count, and the line says so.
func TestLimitsThatBeginAnewAreTold(t *testing.T) {
	counted := func(cfg *middleware.Config) {
		cfg.Exact = &middleware.Exact{Counter: memory.New(0, nil), Outage: middleware.FailClosed}
	}
	for name, test := range map[string]struct {
		change func(*middleware.Config)
		anew   string
		before func(*middleware.Config)
	}{
		"nothing":                 {func(*middleware.Config) {}, "", nil},
		"a quota":                 {func(cfg *middleware.Config) { cfg.Limits[0].Quota = 9 }, "", nil},
		"a limit gone":            {func(cfg *middleware.Config) { cfg.Limits = cfg.Limits[1:] }, "", nil},
		"a name":                  {func(cfg *middleware.Config) { cfg.Limits[0].Name = "short" }, "short", nil},
		"a window":                {func(cfg *middleware.Config) { cfg.Limits[1].Window = 2 * time.Hour }, "long", nil},
		"an algorithm":            {func(cfg *middleware.Config) { cfg.Limits[1].Algorithm = middleware.FixedWindow }, "long", nil},
		"an exact counter":        {counted, "minute,long", nil},
		"the counter's algorithm": {func(cfg *middleware.Config) { cfg.Limits[0].Algorithm = storeless.SlidingLog }, "minute", counted},
		"the counter's calendar": {func(cfg *middleware.Config) {
			cfg.Limits[1] = middleware.Limit{Name: "long", Quota: 50, Calendar: "day"}
		}, "long", counted},
		"the counter's zone": {func(cfg *middleware.Config) {
			cfg.Limits[1] = middleware.Limit{Name: "long", Quota: 50, Calendar: "day", Zone: "Europe/Berlin"}
		}, "", func(cfg *middleware.Config) {
			counted(cfg)
			cfg.Limits[1] = middleware.Limit{Name: "long", Quota: 50, Calendar: "day"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			cfg := contact(new(clock))
			cfg.Limits = []middleware.Limit{{Name: "minute", Quota: 5, Window: time.Minute}, {Name: "long", Quota: 50, Window: time.Hour}}
			cfg.Logger = slog.New(slog.NewTextHandler(&b, nil))
			if test.before != nil {
				test.before(&cfg)
			}
			m := newLimiter(t, cfg)
			require.NotContains(t, b.String(), "anew=", "all begin")
			b.Reset()
			cfg.Limits = slices.Clone(cfg.Limits)
			test.change(&cfg)
			require.NoError(t, m.Reconfigure(cfg))
			found := regexp.MustCompile(` code=configured .* anew=(\S+) remedy=`).FindStringSubmatch(b.String())
			if test.anew == "" {
				require.Nil(t, found)
				return
			}
			require.NotNil(t, found, b.String())
			require.Equal(t, test.anew, found[1])
		})
	}
}

// The highest price of this minute and the one before is told, whatever other addresses are asked for, and the log says
// once a minute that it is more than people wait for.
func TestAHighPriceIsSeen(t *testing.T) {
	now := new(clock)
	h := newSite(t, changed(challenging(now, middleware.Newcomers), func(cfg *middleware.Config) { cfg.Challenge.Crowd = 8 }))
	highest := func() uint64 { return h.M.Stats().HighestWork }
	require.Zero(t, highest(), "no client has asked")
	challengeIn(t, send(h, from("203.0.113.9")))
	require.EqualValues(t, 16, highest())

	h.M.SellOut(now.Now(), peerIdentity)
	require.NotEqual(t, http.StatusOK, send(h).StatusCode)
	require.Equal(t, middleware.SoldOut, h.Decisions.Last().Reason)
	require.EqualValues(t, 1<<32, highest(), "more than a challenge can ask for")
	require.Equal(t, []string{"price-high"}, codesIn(h.Log.Lines()))

	now.Advance(time.Hour)
	for range 70 { // seconds
		now.Advance(time.Second)
		challengeIn(t, send(h, from("203.0.113.9")))
		asked := challengeIn(t, send(h)).Work
		require.Greater(t, asked, uint64(1<<24))
		require.GreaterOrEqual(t, highest(), asked)
		require.LessOrEqual(t, highest(), asked+asked/8)
	}
	require.Equal(t, []string{"price-high", "price-high", "price-high"}, codesIn(h.Log.Lines()), "once a minute")
	now.Advance(2 * time.Minute)
	require.Zero(t, highest())

	now.Advance(90 * time.Minute)
	asked := challengeIn(t, send(h)).Work
	require.Less(t, asked, uint64(1<<24))
	require.Equal(t, asked, highest())
	require.Len(t, h.Log.Lines(), 3)
}

// Of requests at once the highest is kept.
func TestTheHighestPriceOfMany(t *testing.T) {
	now := new(clock)
	h := newSite(t, challenging(now, middleware.Newcomers))
	h.M.SellOut(now.Now(), peerIdentity)
	kit.Together(50, func(i int) {
		if i == 25 {
			send(h)
			return
		}
		send(h, stranger(i))
	})
	require.EqualValues(t, 1<<32, h.M.Stats().HighestWork)
}

// What the operator of a service is told, and what is kept out of his log.

func TestWhyNobodyCanBeTold(t *testing.T) {
	proxies := netip.MustParsePrefix("192.0.2.0/24")
	forwarded := mustIdentity(middleware.ForwardedFor(proxies))
	down := errors.New("db down for customer 4711")
	for name, tt := range map[string]struct {
		identity     middleware.IdentityFunc
		options      []option
		because, err string
	}{
		"no address":  {nil, []option{from("@")}, "the connection has no address, as on a Unix socket; set Config.Identity", "no address"},
		"bad hop":     {forwarded, []option{from("192.0.2.1"), with("X-Forwarded-For", "banana")}, "X-Forwarded-For from a trusted proxy holds something that is not an address", "X-Forwarded-For"},
		"nobody":      {only(middleware.Identity{}), nil, "returned the zero Identity", ""},
		"a failure":   {func(*http.Request) (middleware.Identity, error) { return middleware.Identity{}, down }, nil, "Decision.IdentityErr", "4711"},
		"and a value": {func(*http.Request) (middleware.Identity, error) { return middleware.APIKey("x"), down }, nil, "Decision.IdentityErr", "4711"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newSite(t, changed(contact(new(clock)), func(cfg *middleware.Config) { cfg.Identity = tt.identity }))
			require.Equal(t, http.StatusForbidden, send(h, tt.options...).StatusCode)
			require.Contains(t, h.Log.Lines()[0], tt.because)
			require.NotContains(t, h.Log.Lines()[0], "4711", "it may be the client's")
			require.NotContains(t, h.Log.Lines()[0], "banana")
			if tt.err == "" {
				require.NoError(t, h.Decisions.Last().IdentityErr)
			} else {
				require.ErrorContains(t, h.Decisions.Last().IdentityErr, tt.err)
			}
		})
	}
}

func TestLog(t *testing.T) {
	counts := func(want map[string]uint64) func(*scene) { // of tokens, by what came of each
		return func(s *scene) { require.Equal(s, want, noted(s.site.M.Stats().Tokens)) }
	}
	asks := func(work int) func(*scene) {
		return func(s *scene) { require.EqualValues(s, work, s.site.M.Stats().HighestWork) }
	}
	third, plenty := from("203.0.113.3"), limits(fixed(1<<20, time.Minute))
	outage := func(s *scene) { // of five seconds, and the counter answers once
		s.ledger.Fault = onFire
		breaks(s.at(0), s.now)
		s.ledger.Fault = nil
		s.now.Advance(time.Second)
		send(s.at(0))
	}
	scenarios := []scenario{
		{"tokens are counted by what came of each", limiting(), []step{
			{want: 200, keep: "own", see: all{counts(map[string]uint64{})}}, {show: "own", want: 200, see: all{counts(map[string]uint64{"accepted": 1})}},
			{do: func(s *scene) {
				other := contact(s.now)
				other.Policy = "contact-2"
				s.tokens["foreign"] = spend(s, newLimiter(s, other).Handler(new(spy)), 1)
				s.tokens["torn"], s.tokens["garbage"] = s.tokens["own"][:len(s.tokens["own"])-2]+"AA", "garbage"
			}, as: from("203.0.113.2"), show: "own", want: 200},
			{show: "torn", want: 200}, {show: "garbage", want: 200},
			{show: "foreign", want: 200, see: all{counts(map[string]uint64{"accepted": 1, "client-changed": 1, "forged": 1})}}, // what is of another policy is nothing here
			{do: becomes(signedBy("b")), show: "own", want: 429, see: all{
				err(token.ErrSecret), counts(map[string]uint64{"accepted": 1, "client-changed": 1, "forged": 1, "secret-unknown": 1}), // Reconfigure forgets none
			}},
			{as: third, want: 200, keep: "third"}, {after: time.Hour, as: third, show: "third", want: 200},
			{after: -time.Hour - 2*time.Minute, as: third, show: "third", want: 200, see: all{counts(map[string]uint64{
				"accepted": 1, "client-changed": 1, "forged": 1, "secret-unknown": 1, "expired": 1, "clock-differs": 1,
			})}},
		}},
		{"a price that the owner asks of all clients, or that no client was sent, is no news", working(middleware.Newcomers, func(cfg *middleware.Config) {
			cfg.Challenge.Work = 1 << 25
		}), []step{
			{want: 403, see: all{work(1 << 25), asks(1 << 25)}},
			{do: func(s *scene) { s.site.M.SellOut(midnight, visitor); peeked(s, s.site.M, visitor) }, see: all{asks(1 << 25), told()}},
		}},
		{"a tier that is unknown is named, and no more of it than a line holds", limiting(func(cfg *middleware.Config) {
			id := middleware.APIKey("x")
			id.Tier = "Paid" + strings.Repeat("!", 1000)
			cfg.Identity = only(id)
		}), []step{{want: 200, see: all{func(s *scene) {
			require.Contains(s, s.site.Log.Lines()[0], "Paid!")
			require.Less(s, len(s.site.Log.Lines()[0]), 400)
		}}}}},
		// The text of any other error may have the key in it that was shown.
		{"the log has the kind of an identity error alone", limiting(telling(middleware.Identity{}, fmt.Errorf("no customer has %q: %w", "sk-live-4711", syscall.ECONNREFUSED))), []step{
			{want: 403, see: all{told("identity-unknown"), func(s *scene) {
				require.Contains(s, s.site.Log.Lines()[0], "the identity function failed with a syscall.Errno")
				require.NotContains(s, s.site.Log.Lines()[0], "sk-live")
			}}},
		}},
		// A counter that fails now and then is told of from the first failure, and never more often than once a minute for each kind of line.
		{"the failure of a counter does not fill the disk", byCounter(plenty), []step{
			{do: fails(onFire), want: 503, see: all{tells("counter-failed", 1), func(s *scene) { require.Contains(s, s.site.Log.String(), errEngine.Error()) }}},
			{do: func(s *scene) {
				for range 25 { // in less than a minute
					outage(s)
				}
			}, see: all{tells("counter-failed", 1), tells("counter-down", 1), tells("counter-back", 0)}}, // it comes and goes
			{after: 10 * time.Second, want: 200, see: all{tells("counter-back", 1)}}, // as often as it was said that it does not answer
			{after: time.Minute, do: outage, see: all{tells("counter-down", 2)}},
		}},
		{"load that meets few requests is told", byCounter(), []step{
			{do: fails(func(context.Context, int) error { return exact.ErrContended }), times: 30, every: 50 * time.Second, want: 503, see: all{func(s *scene) {
				require.NotEmpty(s, s.site.Log.Lines())
				require.True(s, s.site.M.Stats().Counter.Refusing)
			}}},
			{after: time.Minute, see: all{func(s *scene) {
				require.False(s, s.site.M.Stats().Counter.Refusing, "of a counter that is not asked nothing is known")
			}}},
		}},
	}
	play(t, scenarios)
}
