// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bytes"
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

// seconds are plain requests, one each second.
func seconds(n int) [][]option { return make([][]option, n) }

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
			cfg := contactForm(new(clock))
			cfg.MaxClients = 0
			return startingWith(t, cfg)
		},
		"hour-unlimited": func(t *testing.T) []string {
			cfg := contact(new(clock))
			forms(middleware.Newcomers)(&cfg)
			return startingWith(t, cfg)[1:]
		},
		"secret-weak":    around(func(cfg *middleware.Config) { cfg.Secrets = [][]byte{secret("a"), bytes.Repeat([]byte("k3X9"), 11)} }),
		"limit-idle":     around(idleHour),
		"instances-idle": around(func(cfg *middleware.Config) { cfg.Instances = 4 }),
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
		"policy-twice": nested(plain, ""),
		"endpoints-unmounted": around(func(cfg *middleware.Config) {
			forms(middleware.Newcomers)(cfg)
			cfg.Challenge.Path = "/tally/"
		}, seconds(11)...),
		"page-scripts-missing": func(t *testing.T) []string {
			h := newSite(t, waiting(new(clock), middleware.Newcomers))
			for range 8 {
				send(h, navigating())
			}
			send(h, method(http.MethodGet), path(h.M.StyleURL())) // it may load where scripts may not
			return h.Log.Lines()
		},
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
			cfg := contact(new(clock))
			cfg.Secrets = [][]byte{secret("b")}
			theirs, _ := limited(t, cfg)
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
			f := newFlood(contact(new(clock)))
			f.Cfg.MaxClients = 1
			log := logTo(&f.Cfg)
			f.Send(newLimiter(t, f.Cfg).Handler(new(spy)), 1000)
			return log.Lines()
		},
		"sales-full": func(t *testing.T) []string {
			cfg := challenging(new(clock), middleware.Newcomers)
			cfg.MaxClients = 1
			h := newSite(t, cfg)
			for i := range 40 {
				addr := from(fmt.Sprintf("198.%d.100.1", i))
				send(h, addr, proving(solved(t, fetched(h, addr))))
			}
			return slices.DeleteFunc(h.Log.Lines(), func(line string) bool { return strings.Contains(line, "code=memory-full") })
		},
		"price-high": func(t *testing.T) []string {
			now := new(clock)
			cfg := challenging(now, middleware.Newcomers)
			cfg.Challenge.Crowd = 8
			h := newSite(t, cfg)
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
// means, and a cure if there is more of one than the remedy in the line. The lines are what the checks write, word for word.
func TestEveryCheckHasItsPage(t *testing.T) {
	var explained []string
	for _, s := range sections(t) {
		if !regexp.MustCompile("^(redis|remote|ring)-").MatchString(s.code) { // those packages have tests of these
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
			require.Contains(t, examples[code], ` remedy="`, "what is told has a cure")
			lines := all[code](t)
			require.Equal(t, []string{code}, codesIn(lines))
			line := stamp.ReplaceAllString(strings.TrimSuffix(lines[0], "\n"), "")
			require.NotRegexp(t, address, line, "no line holds the address of a client: docs/watching.md says so")
			require.Equal(t, examples[code], line, "the example in docs/checks.md, and the line that is written, which belongs there")
		})
	}
}
