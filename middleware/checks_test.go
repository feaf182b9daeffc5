// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"crypto/tls"
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
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// codesIn returns the codes of the lines of a log, in turn.
func codesIn(lines []string) (codes []string) {
	for _, line := range lines {
		_, rest, _ := strings.Cut(line, " code=")
		code, _, _ := strings.Cut(rest, " ")
		codes = append(codes, code)
	}
	return codes
}

// A trouble sets a check off, once. What comes of it is a line that docs/checks.md prints.
type trouble func(t *testing.T) []string

// around serves requests by a policy; each comes a second after the other.
func around(t *testing.T, change func(*middleware.Config), handle http.HandlerFunc, requests ...[]option) []string {
	t.Helper()
	now := new(clock)
	cfg := contact(now)
	cfg.Limits[0].Quota = 1 << 20
	log := logTo(&cfg)
	if change != nil {
		change(&cfg)
	}
	if handle == nil {
		handle = func(http.ResponseWriter, *http.Request) {}
	}
	h := newLimiter(t, cfg).Handler(handle)
	for _, options := range requests {
		now.advance(time.Second)
		send(h, options...)
	}
	return log.lines()
}

// host names the site that a request is for.
func host(name string) option { return func(r *http.Request) { r.Host = name } }

func overTLS(r *http.Request) { r.TLS = new(tls.ConnectionState) }

// forms is a policy of forms, whose pages come by GET.
func forms(mode middleware.Mode) func(*middleware.Config) {
	return func(cfg *middleware.Config) {
		cfg.Challenge = &middleware.Challenge{Mode: mode, Work: 16}
	}
}

func insecure(cfg *middleware.Config) { cfg.InsecureCookie = true }

// programs are requests of so many programs from an address.
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

// A stripper takes a field away when the header is written.
type stripper struct {
	http.ResponseWriter
	name string
}

func (s *stripper) WriteHeader(status int) {
	s.Header().Del(s.name)
	s.ResponseWriter.WriteHeader(status)
}

// wrapped serves a request by a limiter whose writer is what wrap makes of the server's.
func wrapped(t *testing.T, wrap func(http.ResponseWriter) http.ResponseWriter, verb string, handle http.HandlerFunc) []string {
	cfg := contact(new(clock))
	log := logTo(&cfg)
	h := newLimiter(t, cfg).Handler(handle)
	r := httptest.NewRequest(verb, "/", nil)
	h.ServeHTTP(wrap(httptest.NewRecorder()), r)
	return log.lines()
}

// nested serves requests by a policy around another.
func nested(t *testing.T, between func(http.Handler) http.Handler, inner string) []string {
	now := new(clock)
	cfg := contact(now)
	cfg.Policy = "site"
	log := logTo(&cfg)
	outer := newLimiter(t, cfg)
	page := outer
	if inner != "" {
		cfg.Policy = inner
		page = newLimiter(t, cfg)
	}
	send(outer.Handler(between(page.Handler(new(spy)))))
	return log.lines()
}

// troubles sets off each check of this package.
func troubles() map[string]trouble {
	trusting := func(cfg *middleware.Config) {
		cfg.Identity, _ = middleware.ForwardedFor(netip.MustParsePrefix("10.0.0.0/8"))
	}
	field := func(value string) option { return with("X-Forwarded-For", value) }
	identity := func(id middleware.Identity, err error) func(*middleware.Config) {
		return func(cfg *middleware.Config) {
			cfg.Identity = func(*http.Request) (middleware.Identity, error) { return id, err }
		}
	}
	return map[string]trouble{
		"configured": func(t *testing.T) []string {
			var b strings.Builder
			cfg := contactForm(new(clock))
			cfg.Logger, cfg.MaxClients = slog.New(slog.NewTextHandler(&b, nil)), 0
			newLimiter(t, cfg)
			return []string{b.String()}
		},
		"limit-idle": func(t *testing.T) []string {
			return around(t, func(cfg *middleware.Config) {
				cfg.Limits = []middleware.Limit{{Quota: 10, Window: time.Minute}, {Quota: 1000, Window: time.Hour}}
			}, nil)
		},
		"identity-unknown": func(t *testing.T) []string { return around(t, nil, nil, []option{from("@")}) },
		"identity-unavailable": func(t *testing.T) []string {
			return around(t, func(cfg *middleware.Config) { cfg.Identity = away }, nil, nil)
		},
		"tier-unknown": func(t *testing.T) []string {
			id := middleware.APIKey("x")
			id.Tier = "pro"
			return around(t, identity(id, nil), nil, nil)
		},
		"limits-failed": func(t *testing.T) []string {
			return around(t, func(cfg *middleware.Config) {
				identity(middleware.APIKey("x"), nil)(cfg)
				cfg.LimitsFor = &middleware.LimitsFor{Func: func(context.Context, middleware.Identity) ([]middleware.Limit, error) {
					return nil, errors.New("the database is away")
				}}
			}, nil, nil)
		},
		"port-unknown": func(t *testing.T) []string {
			return around(t, func(cfg *middleware.Config) {
				forms(middleware.WhenExhausted)(cfg)
				cfg.PortBlocks = true
			}, nil, []option{func(r *http.Request) { r.RemoteAddr = "203.0.113.1" }})
		},
		"proxy-untrusted": func(t *testing.T) []string {
			return around(t, nil, nil, []option{from("10.0.0.1"), field("203.0.113.9")})
		},
		"proxy-suspected": func(t *testing.T) []string {
			return around(t, trusting, nil,
				[]option{from("10.0.0.1"), field("203.0.113.5, 66.241.125.1")}, []option{from("10.0.0.1"), field("203.0.113.6, 66.241.125.1")},
				[]option{from("10.0.0.1"), field("203.0.113.7, 66.241.125.1")}, []option{from("10.0.0.1"), field("203.0.113.8, 66.241.125.1")})
		},
		"proxy-silent": func(t *testing.T) []string { return around(t, trusting, nil, []option{from("10.0.0.1")}) },
		"proxy-forgetful": func(t *testing.T) []string {
			return around(t, trusting, nil, []option{from("10.0.0.1"), field("203.0.113.5")}, []option{from("10.0.0.1")})
		},
		"everybody-one": func(t *testing.T) []string { return around(t, nil, nil, programs(8, always("127.0.0.1"))...) },
		"cookie-dropped": func(t *testing.T) []string {
			return around(t, nil, nil, []option{host("shop.example"), with("Origin", "http://shop.example")})
		},
		"cookie-insecure": func(t *testing.T) []string { return around(t, insecure, nil, []option{overTLS}) },
		"fields-lost": func(t *testing.T) []string {
			return wrapped(t, func(w http.ResponseWriter) http.ResponseWriter { return &stripper{w, "Tallystick-Token"} }, http.MethodPost,
				func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		},
		"writer-bypassed": func(t *testing.T) []string {
			return wrapped(t, func(w http.ResponseWriter) http.ResponseWriter { return &framework{w} }, http.MethodGet,
				func(http.ResponseWriter, *http.Request) {})
		},
		"policy-made-twice": func(t *testing.T) []string {
			cfg := contact(new(clock))
			log := logTo(&cfg)
			first := newLimiter(t, cfg)
			newLimiter(t, cfg)
			runtime.KeepAlive(first)
			return log.lines()
		},
		"policy-twice": func(t *testing.T) []string { return nested(t, plain, "") },
		"endpoints-unmounted": func(t *testing.T) []string {
			return around(t, func(cfg *middleware.Config) {
				forms(middleware.Newcomers)(cfg)
				cfg.Challenge.Path = "/tally/"
			}, nil, nil)
		},
		"newcomers-on-get": func(t *testing.T) []string {
			return around(t, forms(middleware.Newcomers), nil, []option{method(http.MethodGet), html})
		},
		"cost-negative": func(t *testing.T) []string {
			return around(t, func(cfg *middleware.Config) { cfg.Cost = func(*http.Request) int64 { return -1 } }, nil, nil)
		},
		"secret-unknown": func(t *testing.T) []string {
			cfg := contact(new(clock))
			cfg.Secrets = [][]byte{secret("b")}
			theirs, _ := limited(t, cfg)
			var requests [][]option
			for i := range 4 {
				who := from(fmt.Sprintf("203.%d.113.1", i))
				requests = append(requests, []option{who, showing(spend(t, theirs, 1, who))})
			}
			return around(t, nil, nil, requests...)
		},
		"clock-differs": func(t *testing.T) []string {
			ahead := new(clock)
			ahead.advance(90 * time.Second)
			theirs, _ := limited(t, contact(ahead))
			return around(t, nil, nil, []option{showing(spend(t, theirs, 1))})
		},
		"clock-jumped": func(t *testing.T) []string {
			now := new(clock)
			cfg := contact(now)
			log := logTo(&cfg)
			h, _ := limited(t, cfg)
			send(h)
			now.advance(-time.Hour)
			send(h)
			return log.lines()
		},
		"memory-full": func(t *testing.T) []string {
			f := newFlood(contact(new(clock)))
			f.cfg.MaxClients = 1
			log := logTo(&f.cfg)
			f.send(newLimiter(t, f.cfg).Handler(new(spy)), 1000)
			return log.lines()
		},
		"sales-full": func(t *testing.T) []string {
			cfg := challenging(new(clock), middleware.Newcomers)
			cfg.MaxClients = 1
			log := logTo(&cfg)
			h := newSite(t, cfg)
			for i := range 40 {
				addr := from(fmt.Sprintf("198.%d.100.1", i))
				send(h, addr, proving(solved(t, fetched(h, addr))))
			}
			return slices.DeleteFunc(log.lines(), func(line string) bool { return strings.Contains(line, "code=memory-full") })
		},
		"challenge-failed": func(t *testing.T) []string {
			return around(t, func(cfg *middleware.Config) {
				forms(middleware.Newcomers)(cfg)
				cfg.Now = func() time.Time { return time.Unix(-3600, 0) }
			}, nil, nil)
		},
		"counter-down": func(t *testing.T) []string { return ofOutage(t, 1) },
		"counter-back": func(t *testing.T) []string { return ofOutage(t, 2) },
		"counter-refuses": func(t *testing.T) []string {
			c, l, cfg, log := paidRoute()
			h, _ := limited(t, cfg)
			l.fault = func(context.Context, int) error { return exact.ErrContended }
			for range 10 {
				send(h)
				c.advance(time.Second)
			}
			return strings.SplitAfter(log.String(), "\n")[:1]
		},
		"counter-full": func(t *testing.T) []string {
			_, l, cfg, log := paidRoute()
			h, _ := limited(t, cfg)
			l.fault = func(context.Context, int) error { return fmt.Errorf("%w: file: no room on the disk", exact.ErrFull) }
			send(h)
			return strings.SplitAfter(log.String(), "\n")[:1]
		},
		"counter-failed": func(t *testing.T) []string {
			_, l, cfg, log := paidRoute()
			h, _ := limited(t, cfg)
			l.fault = onFire
			send(h)
			return strings.SplitAfter(log.String(), "\n")[:1]
		},
	}
}

// ofOutage returns the n-th line, from 0, of the log of an outage.
func ofOutage(t *testing.T, n int) []string {
	c, l, cfg, log := paidRoute()
	h, _ := limited(t, cfg)
	l.fault = onFire
	breaks(h, c)
	l.fault = nil
	for range 20 {
		c.advance(time.Second)
		send(h)
	}
	return strings.SplitAfter(log.String(), "\n")[n : n+1]
}

// A section is what docs/checks.md says of a code.
type section struct{ code, text, example string }

// sections returns those of docs/checks.md.
func sections(t *testing.T) (all []section) {
	t.Helper()
	page, err := os.ReadFile("../docs/checks.md")
	require.NoError(t, err)
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
// means, and a cure. The lines are what the checks write, word for word.
func TestEveryCheckHasItsPage(t *testing.T) {
	var explained []string
	for _, s := range sections(t) {
		if !strings.HasPrefix(s.code, "redis-") { // package redis has a test of these
			explained = append(explained, s.code)
		}
		require.Regexp(t, "(?s)^\n```text\n[^\n]+\n```\n\n\\S.*\n\n\\*\\*Cure\\.\\*\\* [A-Z]", s.text, "%s: the line, what it means, the cure", s.code)
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
		})
	}
}

// Two policies of one name are one to a client: each takes the other's tokens for its own.
func TestPoliciesOfOneNameAreTold(t *testing.T) {
	told := []string{"policy-made-twice", "policy-twice"}
	require.Equal(t, told, codesIn(nested(t, plain, "site")))
	require.Equal(t, told, codesIn(nested(t, func(h http.Handler) http.Handler {
		cfg := contact(new(clock))
		return newLimiter(t, cfg).Handler(http.StripPrefix("/", h)) // another between, and a router
	}, "site")), "however much is between")
}

// What is all right sets no check off.
func TestNoCheckWithoutTrouble(t *testing.T) {
	origin := func(value string) option { return with("Origin", value) }
	page := []option{method(http.MethodGet), html}
	for name, lines := range map[string]trouble{
		"a page on TLS": func(t *testing.T) []string {
			return around(t, nil, nil, []option{host("shop.example"), origin("https://shop.example"), overTLS})
		},
		"a page on TLS, which a proxy ends": func(t *testing.T) []string {
			return around(t, nil, nil, []option{host("shop.example"), origin("https://shop.example")})
		},
		"a page of another site": func(t *testing.T) []string {
			return around(t, nil, nil, []option{host("shop.example"), origin("http://other.example")})
		},
		"a page of nobody": func(t *testing.T) []string {
			return around(t, nil, nil, []option{host("shop.example"), origin("null")}, []option{host(""), origin("http://")}, []option{host("shop.example"), origin("http://shop.example"), origin("http://shop.example")})
		},
		"localhost": func(t *testing.T) []string {
			return around(t, nil, nil, []option{host("localhost:8080"), origin("http://localhost:8080")},
				[]option{host("a.localhost"), origin("http://a.localhost")}, []option{host("127.0.0.1:80"), origin("http://127.0.0.1:80")},
				[]option{host("[::1]:80"), origin("http://[::1]:80")})
		},
		"a browser that keeps the cookie": func(t *testing.T) []string {
			return around(t, nil, nil, []option{host("shop.example"), origin("http://shop.example"), showingCookie("x")})
		},
		"no cookie is sent": func(t *testing.T) []string {
			return around(t, func(cfg *middleware.Config) { cfg.TokenTransport = middleware.HeaderOnly }, nil, []option{host("shop.example"), origin("http://shop.example")})
		},
		"plain HTTP in development": func(t *testing.T) []string {
			return around(t, insecure, nil, []option{host("shop.example"), origin("http://shop.example")})
		},
		"two clients in private": func(t *testing.T) []string {
			return around(t, nil, nil, programs(40, func(i int) string { return []string{"10.0.0.1", "10.0.0.2"}[i%2] })...)
		},
		"one public client of many programs": func(t *testing.T) []string {
			return around(t, nil, nil, programs(40, always("203.0.113.1"))...)
		},
		"one private client of few programs": func(t *testing.T) []string {
			return around(t, nil, nil, append(programs(7, always("10.0.0.1")), programs(7, always("10.0.0.1"))...)...)
		},
		"programs without a name": func(t *testing.T) []string {
			return around(t, nil, nil, programs(40, always("10.0.0.1"), func(r *http.Request) { r.Header.Del("User-Agent") })...)
		},
		"one request a second is checked": func(t *testing.T) []string {
			cfg := contact(new(clock))
			log := logTo(&cfg)
			h, _ := limited(t, cfg)
			for _, options := range programs(40, always("127.0.0.1")) {
				send(h, options...)
			}
			return log.lines()
		},
		"keys from one address": func(t *testing.T) []string {
			return around(t, func(cfg *middleware.Config) {
				cfg.Identity = func(*http.Request) (middleware.Identity, error) { return middleware.APIKey("x"), nil }
			}, nil, programs(40, always("10.0.0.1"))...)
		},
		"clients that a proxy names": func(t *testing.T) []string {
			return around(t, func(cfg *middleware.Config) {
				cfg.Identity, _ = middleware.ForwardedFor(netip.MustParsePrefix("10.0.0.0/8"))
			}, nil, programs(40, always("10.0.0.1"), with("X-Forwarded-For", "203.0.113.1"))...)
		},
		"the same policy one after the other": func(t *testing.T) []string {
			return around(t, nil, nil, nil, nil)
		},
		"another policy inside": func(t *testing.T) []string { return nested(t, plain, "page") },
		"a handler that serves other requests by its own limiter": func(t *testing.T) []string {
			return nested(t, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					for range 2 {
						h.ServeHTTP(httptest.NewRecorder(), r.Clone(r.Context()))
					}
				})
			}, "")
		},
		"a page before WhenExhausted": func(t *testing.T) []string { return around(t, forms(middleware.WhenExhausted), nil, page) },
		"a script's GET": func(t *testing.T) []string {
			return around(t, forms(middleware.Newcomers), nil, []option{method(http.MethodGet)})
		},
		"a form": func(t *testing.T) []string { return around(t, forms(middleware.Newcomers), nil, []option{html}) },
		"a gate of its own": func(t *testing.T) []string {
			return around(t, func(cfg *middleware.Config) {
				forms(middleware.Newcomers)(cfg)
				cfg.PageHandler = http.NotFoundHandler()
			}, nil, page)
		},
		"fields that everybody may store": func(t *testing.T) []string {
			return wrapped(t, func(w http.ResponseWriter) http.ResponseWriter { return w }, http.MethodGet,
				func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "public, max-age=60") })
		},
		"fields of an upstream beside": func(t *testing.T) []string {
			return wrapped(t, func(w http.ResponseWriter) http.ResponseWriter { return w }, http.MethodPost,
				func(w http.ResponseWriter, _ *http.Request) {
					clear(w.Header())
					w.Header().Set("RateLimit", `"upstream";r=1`)
					w.WriteHeader(200)
				})
		},
		"a field that is nobody's": func(t *testing.T) []string {
			return wrapped(t, func(w http.ResponseWriter) http.ResponseWriter { return &stripper{w, "Server"} }, http.MethodPost,
				func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) })
		},
		"a framework that hands its writer on": func(t *testing.T) []string {
			return wrapped(t, func(w http.ResponseWriter) http.ResponseWriter { return &framework{w} }, http.MethodGet,
				func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
		},
		"a clock that trembles": func(t *testing.T) []string {
			now := new(clock)
			cfg := contact(now)
			log := logTo(&cfg)
			h, _ := limited(t, cfg)
			for i := range 60 {
				now.advance(time.Duration(i%2*118-59) * time.Second)
				send(h)
			}
			return log.lines()
		},
		"limits that each can refuse": func(t *testing.T) []string {
			return around(t, func(cfg *middleware.Config) {
				cfg.Limits = []middleware.Limit{{Quota: 5, Window: time.Minute}, {Quota: 50, Window: 24 * time.Hour}}
			}, nil)
		},
		"a limit that a tier needs": func(t *testing.T) []string {
			return around(t, func(cfg *middleware.Config) {
				cfg.Limits = []middleware.Limit{{Quota: 10, Window: time.Minute}, {Quota: 1000, Window: time.Hour}}
				cfg.Tiers = map[string][]middleware.Limit{"pro": {{Quota: 100, Window: time.Minute}, {Quota: 1000, Window: time.Hour}}}
			}, nil)
		},
		"a limit that customers may need": func(t *testing.T) []string {
			return around(t, func(cfg *middleware.Config) {
				cfg.Identity = func(*http.Request) (middleware.Identity, error) { return middleware.APIKey("x"), nil }
				cfg.Limits = []middleware.Limit{{Quota: 10, Window: time.Minute}, {Quota: 1000, Window: time.Hour}}
				cfg.LimitsFor = &middleware.LimitsFor{Func: func(context.Context, middleware.Identity) ([]middleware.Limit, error) {
					return []middleware.Limit{{Quota: 100, Window: time.Minute}, {Quota: 1000, Window: time.Hour}}, nil
				}}
			}, nil, nil)
		},
		"a denial": func(t *testing.T) []string {
			return around(t, func(cfg *middleware.Config) {
				cfg.Identity = func(*http.Request) (middleware.Identity, error) { return middleware.Identity{}, &middleware.Denial{} }
			}, nil, nil)
		},
	} {
		t.Run(name, func(t *testing.T) { require.Empty(t, lines(t)) })
	}
}

// However often a check finds something, it is one line a minute; and newcomers-on-get, which
// may be meant, is one at all.
func TestChecksFillNoDisk(t *testing.T) {
	now := new(clock)
	cfg := contact(now)
	cfg.Limits = []middleware.Limit{{Quota: 10, Window: time.Minute}, {Quota: 1000, Window: time.Hour}}
	log := logTo(&cfg)
	forms(middleware.Newcomers)(&cfg)
	m := newLimiter(t, cfg)
	h := m.Handler(m.Handler(new(spy)))
	for range 180 {
		now.advance(time.Second)
		send(h, method(http.MethodGet), html, host("shop.example"), with("Referer", "http://shop.example/form"))
		require.NoError(t, m.Reconfigure(cfg))
	}
	count := map[string]int{}
	for _, code := range codesIn(log.lines()) {
		count[code]++
	}
	require.Equal(t, map[string]int{"limit-idle": 4, "cookie-dropped": 3, "newcomers-on-get": 1}, count)
}

// Nothing that a client sent is told: neither names nor values that it chose.
func TestChecksTellNothingThatWasSent(t *testing.T) {
	const mark = "zzmarkzz"
	identity := func(*http.Request) (middleware.Identity, error) { return middleware.Identity{}, errors.New(mark) }
	for name, change := range map[string]func(*middleware.Config){
		"as it is": nil, "insecure": insecure, "newcomers": forms(middleware.Newcomers),
		"nobody": func(cfg *middleware.Config) { cfg.Identity = identity },
	} {
		var requests [][]option
		for i := range 12 {
			requests = append(requests, []option{method(http.MethodGet), html, from("127.0.0.1"), host(mark + ".example"), path("/" + mark),
				with("Origin", "http://"+mark+".example", "User-Agent", fmt.Sprint(mark, i), "Cookie", "__Host-tallystick-contactx="+mark)})
		}
		lines := around(t, change, nil, requests...)
		require.NotEmpty(t, lines, name)
		require.NotContains(t, strings.Join(lines, ""), mark, name)
	}
}
