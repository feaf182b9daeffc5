// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"crypto/fips140"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
	"github.com/tallystick/tallystick/middleware"
)

// A load is one request, made once and sent again and again, and a check of what
// it is answered: a benchmark of the wrong path measures nothing.
type load struct {
	h http.Handler
	r *http.Request
	w sink
}

func newLoad(t testing.TB, cfg middleware.Config, want middleware.Reason, tokens int, options ...option) *load {
	t.Helper()
	decisions := record(&cfg)
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	checked := newLimiter(t, cfg).Handler(next)
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	from("203.0.113.1")(r)
	for _, option := range options {
		option(r)
	}
	for range 10 {
		checked.ServeHTTP(&sink{http.Header{}}, r)
	}
	require.Equal(t, want, decisions.last().Reason)
	require.Equal(t, tokens, decisions.last().Tokens)
	cfg.OnDecision = nil
	l := &load{newLimiter(t, cfg).Handler(next), r, sink{http.Header{}}}
	for range 10 {
		l.send()
	}
	return l
}

func (l *load) send() {
	clear(l.w.header)
	l.h.ServeHTTP(&l.w, l.r)
}

// open is a configuration that refuses nobody soon; shut is one that refuses
// after the first.
func open() middleware.Config {
	cfg := contact(new(clock))
	cfg.Limits[0].Quota = 1 << 30
	return cfg
}

// room is a policy that requires work, or a wait.
func room() middleware.Config { return waiting(new(clock), middleware.Newcomers) }

func shut() middleware.Config {
	cfg := contact(new(clock))
	cfg.Limits[0].Quota = 1
	return cfg
}

// underCeiling is open, with a ceiling.
func underCeiling() middleware.Config {
	cfg := open()
	cfg.Instances, cfg.UnfairCeiling = 2, true
	return cfg
}

// earned returns a token that the given configuration accepts.
func earned(t testing.TB, cfg middleware.Config, options ...option) string {
	t.Helper()
	h := newLimiter(t, cfg).Handler(new(spy))
	return spend(t, h, 1, options...)
}

func forgery(tok string) string {
	return tok[:64] + strings.Repeat("A", 512-64-44) + "." + strings.Repeat("A", 43)
}

// moreAllocations is what to do where a budget is exceeded.
const moreAllocations = "a request allocates more than it did. To see what: go test -run '^$' -bench . -memprofile mem.out ./middleware,\n" +
	"and go tool pprof -sample_index=alloc_objects mem.out. Keep it in what a request has already, or out of the common case;\n" +
	"raise a budget only with a reason in the commit."

// TestAllocations holds the number of allocations for each request. The bounds
// are what was measured; lower them with the code, and raise none.
func TestAllocations(t *testing.T) {
	if testkit.Race {
		fmt.Fprintln(os.Stderr, "SKIPPED TestAllocations: the race detector allocates on its own; go test -short counts them")
		t.Skip("the race detector allocates on its own")
	}
	tok := earned(t, open())
	there, later := open(), new(clock)
	there.Secrets = [][]byte{secret("b")}
	elsewhere := earned(t, there)
	later.advance(time.Hour)
	there = open()
	there.Now = later.Now
	ahead := earned(t, there)
	v6 := from("2001:db8::1")
	html := with("Accept", "text/html")
	huge := strings.Repeat("A", 600<<10)
	for _, test := range []struct {
		name    string
		most    float64
		cfg     middleware.Config
		reason  middleware.Reason
		tokens  int
		options []option
	}{
		{"allowed, by header", 2, open(), middleware.WithinLimits, 1, []option{showing(tok)}},
		{"allowed, by header, GET", 2, open(), middleware.WithinLimits, 1, []option{showing(tok), method("GET")}},
		{"allowed, by cookie", 3, open(), middleware.WithinLimits, 1, []option{showingCookie(tok)}},
		{"allowed, no token", 3, open(), middleware.WithinLimits, 0, nil},
		{"allowed, IPv6", 3, open(), middleware.WithinLimits, 0, []option{v6}},
		{"allowed, under a ceiling", 3, underCeiling(), middleware.WithinLimits, 0, nil},
		{"allowed, IPv6, under a ceiling", 3, underCeiling(), middleware.WithinLimits, 0, []option{v6}},
		{"allowed, four forged", 3, open(), middleware.WithinLimits, 0, []option{showing(forgery(tok), forgery(tok), forgery(tok), forgery(tok))}},
		{"allowed, four of another secret", 3, open(), middleware.WithinLimits, 0, []option{showing(elsewhere, elsewhere, elsewhere, elsewhere)}},
		{"allowed, four of another clock", 2, open(), middleware.WithinLimits, 4, []option{showing(ahead, ahead, ahead, ahead)}},
		{"allowed, T19 600 kB", 3, open(), middleware.WithinLimits, 0, []option{showing(huge, huge+","+huge), showingCookie(huge)}},
		{"refused", 4, shut(), middleware.OverLimit, 1, []option{showing(tok)}},
		{"refused, no token", 5, shut(), middleware.OverLimit, 0, nil},
		{"refused, HTML", 4, shut(), middleware.OverLimit, 1, []option{showing(tok), html}},
		{"refused, forged", 5, shut(), middleware.OverLimit, 0, []option{showing(forgery(tok))}},
		{"refused, waiting room", 11, room(), middleware.NoToken, 0, nil},
		{"refused, HTML, wait ticket", 26, room(), middleware.NoToken, 0, []option{html}},
		{"preflight", 0, shut(), middleware.OverLimit, 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLoad(t, test.cfg, test.reason, test.tokens, test.options...)
			if test.name == "preflight" {
				l.r.Method = http.MethodOptions
				with("Origin", "https://app.example", "Access-Control-Request-Method", "POST")(l.r)
			}
			if test.name == "refused, HTML, wait ticket" && fips140.Enforced() {
				test.most++ // crypto/hmac makes one hash more, to see whether it is approved
			}
			got := testing.AllocsPerRun(200, l.send)
			t.Logf("%.0f allocations", got)
			require.LessOrEqual(t, got, test.most, moreAllocations)
		})
	}
}

// TestAllocationsOutside holds those of Check, Peek and Decide: the decision, the strings of
// its fields, and of a limit by outcome what is held.
func TestAllocationsOutside(t *testing.T) {
	if testkit.Race {
		fmt.Fprintln(os.Stderr, "SKIPPED TestAllocationsOutside: the race detector allocates on its own; go test -short counts them")
		t.Skip("the race detector allocates on its own")
	}
	free := open()
	free.Limits[0].Name = "attempts"
	free.Limits = append(free.Limits, middleware.Limit{Name: "failures", Quota: 1 << 30, Window: time.Minute})
	free.ByOutcome = &middleware.ByOutcome{Limits: []string{"failures"}}
	ask := middleware.Ask{Identity: visitor, Tokens: []string{earned(t, open())}}
	for _, test := range []struct {
		name string
		most float64
		cfg  middleware.Config
		ask  func(context.Context, *middleware.Middleware) error
	}{
		{"Check", 2, open(), func(ctx context.Context, m *middleware.Middleware) error {
			_, err := m.Check(ctx, visitor, 1)
			return err
		}},
		{"Check, refused", 2, shut(), func(ctx context.Context, m *middleware.Middleware) error {
			_, err := m.Check(ctx, visitor, 1)
			return err
		}},
		{"Peek", 2, open(), func(ctx context.Context, m *middleware.Middleware) error {
			_, err := m.Peek(ctx, visitor)
			return err
		}},
		{"Decide with a token", 3, open(), func(ctx context.Context, m *middleware.Middleware) error {
			_, err := m.Decide(ctx, ask)
			return err
		}},
		{"by outcome", 7, free, func(ctx context.Context, m *middleware.Middleware) error {
			a, err := m.Check(ctx, visitor, 1)
			a.Charge(false)
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, ctx := newLimiter(t, test.cfg), t.Context()
			got := testing.AllocsPerRun(200, func() {
				if err := test.ask(ctx, m); err != nil {
					panic(err)
				}
			})
			t.Logf("%.0f allocations", got)
			require.LessOrEqual(t, got, test.most, moreAllocations)
		})
	}
}

func TestAllocationsOfStacks(t *testing.T) {
	if testkit.Race {
		fmt.Fprintln(os.Stderr, "SKIPPED TestAllocationsOfStacks: the race detector allocates on its own; go test -short counts them")
		t.Skip("the race detector allocates on its own")
	}
	for m, most := range map[string]float64{http.MethodGet: 16, http.MethodPost: 15} {
		site := open()
		site.Policy = "site"
		nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		h := newLimiter(t, site).Handler(newLimiter(t, open()).Handler(nothing))
		r := httptest.NewRequest(m, "/", http.NoBody)
		w := &sink{http.Header{}}
		got := testing.AllocsPerRun(200, func() {
			clear(w.header)
			h.ServeHTTP(w, r)
		})
		t.Logf("%s: %.0f allocations", m, got)
		require.LessOrEqual(t, got, most, "%s: %s", m, moreAllocations)
		require.Len(t, w.header["Ratelimit"], 2)
	}
}
