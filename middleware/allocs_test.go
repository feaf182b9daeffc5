// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"crypto/fips140"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// A load is one request, made once and sent again and again, and the writer of its answers.
type load struct {
	h       http.Handler
	r       *http.Request
	body    string
	header  http.Header
	written int
}

func (l *load) Header() http.Header { return l.header }
func (l *load) WriteHeader(int)     {}
func (l *load) Write(b []byte) (int, error) {
	l.written += len(b)
	return len(b), nil
}

type readOnce struct{ strings.Reader }

func (*readOnce) Close() error { return nil }

func (l *load) send() {
	if l.body != "" {
		l.r.Body = &readOnce{Reader: *strings.NewReader(l.body)}
	}
	l.written = 0
	clear(l.header)
	l.h.ServeHTTP(l, l.r)
}

var nothing = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// newLoad checks what the request is answered: a benchmark of the wrong path measures nothing.
func newLoad(t testing.TB, cfg middleware.Config, want middleware.Reason, tokens int, options ...option) *load {
	t.Helper()
	decisions := record(&cfg)
	l := &load{h: newLimiter(t, cfg).Handler(nothing), r: handlers.NewRequest(options...), header: http.Header{}}
	for range 10 {
		l.send()
	}
	require.Equal(t, want, decisions.Last().Reason)
	require.Equal(t, tokens, decisions.Last().Tokens)
	cfg.OnDecision = nil
	l.h = newLimiter(t, cfg).Handler(nothing)
	for range 10 {
		l.send()
	}
	require.NotEqual(t, want == middleware.OverLimit, l.header.Get("Retry-After") == "")
	if want == middleware.WithinLimits && cfg.TokenTransport != middleware.MemoryOnly {
		require.NotEmpty(t, append(l.header[middleware.TokenHeader], l.header["Set-Cookie"]...), "it measures no token")
	}
	return l
}

// open has quotas that no test uses up; shut refuses after the first request.
func open() middleware.Config {
	cfg := contact(new(clock))
	cfg.Limits[0].Quota = 1 << 30
	return cfg
}

func room() middleware.Config { return waiting(new(clock), middleware.Newcomers) }

func shut() middleware.Config {
	cfg := contact(new(clock))
	cfg.Limits[0].Quota = 1
	return cfg
}

// earned returns a token that the given configuration accepts.
func earned(t testing.TB, cfg middleware.Config, options ...option) string {
	t.Helper()
	return spend(t, newLimiter(t, cfg).Handler(new(spy)), 1, options...)
}

// countsAllocations skips a test where they cannot be counted.
func countsAllocations(t *testing.T) {
	if kit.Race {
		fmt.Fprintf(os.Stderr, "SKIPPED %s: the race detector allocates on its own; go test counts them\n", t.Name())
		t.Skip("the race detector allocates on its own")
	}
}

// allocates holds the allocations of something to what was measured. Lower the bounds with the code.
func allocates(t *testing.T, most float64, f func()) {
	t.Helper()
	got := testing.AllocsPerRun(200, f)
	t.Logf("%.0f allocations", got)
	require.LessOrEqual(t, got, most, "a request allocates more than it did. To see what: go test -run '^$' -bench . -memprofile mem.out ./middleware,\n"+
		"and go tool pprof -sample_index=alloc_objects mem.out. Keep it in what a request has already, or out of the common case;\n"+
		"raise a budget only with a reason in the commit.")
}

func TestAllocations(t *testing.T) {
	countsAllocations(t)
	tok := earned(t, open())
	there, later := open(), new(clock)
	there.Secrets = [][]byte{secret("b")}
	elsewhere := earned(t, there)
	later.Advance(time.Hour)
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
		{"allowed, four forged", 3, open(), middleware.WithinLimits, 0, []option{showing(forgery(tok), forgery(tok), forgery(tok), forgery(tok))}},
		{"allowed, four of another secret", 3, open(), middleware.WithinLimits, 0, []option{showing(elsewhere, elsewhere, elsewhere, elsewhere)}},
		{"allowed, four of another clock", 2, open(), middleware.WithinLimits, 4, []option{showing(ahead, ahead, ahead, ahead)}},
		{"allowed, T19 600 kB", 3, open(), middleware.WithinLimits, 0, []option{showing(huge, huge+","+huge), showingCookie(huge)}},
		{"refused", 3, shut(), middleware.OverLimit, 1, []option{showing(tok)}},
		{"refused, no token", 3, shut(), middleware.OverLimit, 0, nil},
		{"refused, HTML", 3, shut(), middleware.OverLimit, 1, []option{showing(tok), html}},
		{"refused, forged", 3, shut(), middleware.OverLimit, 0, []option{showing(forgery(tok))}},
		{"refused, waiting room", 10, room(), middleware.NoToken, 0, nil},
		{"refused, HTML, wait ticket", 25, room(), middleware.NoToken, 0, []option{html}},
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
			allocates(t, test.most, l.send)
		})
	}
}

// Outside of HTTP there are the decision, the strings of its fields, and of a limit by outcome what is held.
func TestAllocationsOutside(t *testing.T) {
	countsAllocations(t)
	free := open()
	free.Limits[0].Name = "attempts"
	free.Limits = append(free.Limits, middleware.Limit{Name: "failures", Quota: 1 << 30, Window: time.Minute})
	free.ByOutcome = &middleware.ByOutcome{Limits: []string{"failures"}}
	ask, ctx := middleware.Ask{Identity: visitor, Tokens: []string{earned(t, open())}}, t.Context()
	checks := func(m *middleware.Middleware) (middleware.Answer, error) {
		return m.Decide(ctx, middleware.Ask{Identity: visitor})
	}
	for _, test := range []struct {
		name string
		most float64
		cfg  middleware.Config
		ask  func(*middleware.Middleware) (middleware.Answer, error)
	}{
		{"Check", 2, open(), checks},
		{"Check, refused", 2, shut(), checks},
		{"Peek", 2, open(), func(m *middleware.Middleware) (a middleware.Answer, err error) {
			_, err = m.Decide(ctx, middleware.Ask{Identity: visitor, DryRun: true})
			return a, err
		}},
		{"Decide with a token", 3, open(), func(m *middleware.Middleware) (middleware.Answer, error) { return m.Decide(ctx, ask) }},
		{"by outcome", 7, free, checks},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newLimiter(t, test.cfg)
			allocates(t, test.most, func() {
				a, err := test.ask(m)
				if err != nil {
					panic(err)
				}
				if test.cfg.ByOutcome != nil {
					a.Charge(false)
				}
			})
		})
	}
}

// TestAllocationsOfStacks: a policy more costs what a policy costs, whatever is around it.
func TestAllocationsOfStacks(t *testing.T) {
	countsAllocations(t)
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		for _, shows := range []bool{false, true} {
			var one float64
			for n := 1; n <= 4; n++ {
				l := &load{h: nothing, r: handlers.NewRequest(method(m)), header: http.Header{}}
				for i := range n {
					cfg := open()
					cfg.Policy = fmt.Sprint("policy-", i)
					l.h = newLimiter(t, cfg).Handler(l.h)
				}
				l.send()
				require.Len(t, l.header["Ratelimit"], n)
				if shows {
					l.r.Header[middleware.TokenHeader] = slices.Clone(l.header[middleware.TokenHeader])
				}
				if n == 1 {
					one = testing.AllocsPerRun(200, l.send)
				}
				allocates(t, float64(n)*one, l.send)
			}
		}
	}
}

func benchmark(b *testing.B, name string, cfg middleware.Config, reason middleware.Reason, tokens int, options ...option) {
	b.Run(name, func(b *testing.B) {
		l := newLoad(b, cfg, reason, tokens, options...)
		b.ReportAllocs()
		for b.Loop() {
			l.send()
		}
	})
}

// What most requests are is a POST: a token by header, one limit.
func BenchmarkAllowed(b *testing.B) {
	tok, v6, two, sliding := earned(b, open()), from("2001:db8::1"), open(), open()
	two.Limits = append(two.Limits, fixed(1<<30, 24*3600e9))
	sliding.Limits[0].Algorithm = storeless.SlidingWindow
	benchmark(b, "POST", open(), middleware.WithinLimits, 1, showing(tok))
	benchmark(b, "GET", open(), middleware.WithinLimits, 1, showing(tok), method("GET"))
	benchmark(b, "two limits", two, middleware.WithinLimits, 1, showing(earned(b, two)))
	benchmark(b, "sliding", sliding, middleware.WithinLimits, 1, showing(earned(b, sliding)))
	benchmark(b, "no token", open(), middleware.WithinLimits, 0)
	benchmark(b, "cookie", open(), middleware.WithinLimits, 1, showingCookie(tok))
	benchmark(b, "IPv6", open(), middleware.WithinLimits, 1, v6, showing(earned(b, open(), v6)))
}

func BenchmarkRefused(b *testing.B) {
	benchmark(b, "token", shut(), middleware.OverLimit, 1, showing(earned(b, open())))
	benchmark(b, "no token", shut(), middleware.OverLimit, 0)
}
