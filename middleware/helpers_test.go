// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// midnight is a boundary of every window that divides a day. No test reads a
// clock: all decisions of all tests happen then, or after what they say.
var midnight = time.Unix(20_000*86_400, 0)

// A clock is moved by hand.
type clock struct{ offset atomic.Int64 }

func (c *clock) Now() time.Time           { return midnight.Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(by time.Duration) { c.offset.Add(int64(by)) }

// secret returns a fixed secret, as good as random to everything under test.
func secret(name string) []byte {
	sum := sha256.Sum256([]byte("tallystick test secret " + name))
	return sum[:]
}

// contact is the configuration of most tests: five requests a minute, counted in
// fixed windows, so that the arithmetic can be done in the head.
func contact(c *clock) middleware.Config {
	return middleware.Config{
		Policy:     "contact",
		Limits:     []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 5, Window: time.Minute}},
		Secrets:    [][]byte{secret("a")},
		MaxClients: 1024,
		Now:        c.Now,
		Logger:     slog.New(slog.DiscardHandler),
	}
}

func newLimiter(t testing.TB, cfg middleware.Config) *middleware.Middleware {
	t.Helper()
	m, err := middleware.New(cfg)
	require.NoError(t, err)
	return m
}

// A spy is the handler behind the limiter. It counts who got through.
type spy struct {
	calls atomic.Int64
	serve http.HandlerFunc // nil: writes "ok"
}

func (s *spy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.calls.Add(1)
	if s.serve != nil {
		s.serve(w, r)
		return
	}
	_, _ = io.WriteString(w, "ok")
}

func limited(t testing.TB, cfg middleware.Config) (http.Handler, *spy) {
	t.Helper()
	s := new(spy)
	return newLimiter(t, cfg).Handler(s), s
}

// An option changes a request before it is sent. The requests of most tests are POST / from 203.0.113.1.
type option func(*http.Request)

func from(addr string) option {
	return func(r *http.Request) { r.RemoteAddr = net.JoinHostPort(addr, "4711") }
}

func method(m string) option { return func(r *http.Request) { r.Method = m } }

func path(p string) option { return func(r *http.Request) { r.URL.Path, r.RequestURI = p, p } }

func with(pairs ...string) option {
	return func(r *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			r.Header.Add(pairs[i], pairs[i+1])
		}
	}
}

func showing(tokens ...string) option {
	return func(r *http.Request) {
		for _, tok := range tokens {
			if tok != "" {
				r.Header.Add(middleware.TokenHeader, tok)
			}
		}
	}
}

// showingCookie shows tokens as the cookies of policy contact.
func showingCookie(tokens ...string) option {
	return func(r *http.Request) {
		for _, tok := range tokens {
			r.Header.Add("Cookie", "__Host-tallystick-contact="+tok)
		}
	}
}

func newRequest(options ...option) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	from("203.0.113.1")(r)
	for _, option := range options {
		option(r)
	}
	return r
}

func send(h http.Handler, options ...option) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, newRequest(options...))
	return w.Result()
}

// admitted sends n equal requests and returns how many were answered 200.
func admitted(h http.Handler, n int, options ...option) (passed int) {
	for range n {
		if send(h, options...).StatusCode == http.StatusOK {
			passed++
		}
	}
	return passed
}

func tokenIn(resp *http.Response) string { return resp.Header.Get(middleware.TokenHeader) }

// requireHeader checks fields of a response: the name of each, and what its lines say; "" for nothing.
func requireHeader(t testing.TB, resp *http.Response, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		require.Equal(t, pairs[i+1], strings.Join(resp.Header.Values(pairs[i]), ", "), pairs[i])
	}
}

// cookieNames returns the names of the cookies that a response sets.
func cookieNames(resp *http.Response) (names []string) {
	for _, c := range resp.Cookies() {
		names = append(names, c.Name)
	}
	return names
}

// cookieIn returns the tally cookie in a response, or nil.
func cookieIn(resp *http.Response) *http.Cookie {
	for _, c := range resp.Cookies() {
		if strings.Contains(c.Name, "tallystick-") {
			return c
		}
	}
	return nil
}

func bodyOf(t testing.TB, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return string(b)
}

// spend uses up n of somebody's quota and returns the newest token.
func spend(t testing.TB, h http.Handler, n int, options ...option) (tok string) {
	t.Helper()
	for range n {
		resp := send(h, append([]option{showing(tok)}, options...)...)
		require.Less(t, resp.StatusCode, 400)
		tok = tokenIn(resp)
		require.NotEmpty(t, tok)
	}
	return tok
}

type recorded struct {
	mu  sync.Mutex
	all []middleware.Decision
}

func record(cfg *middleware.Config) *recorded {
	d := new(recorded)
	d.hear(cfg)
	return d
}

// hear has a configuration's decisions be among those that were heard before.
func (d *recorded) hear(cfg *middleware.Config) {
	cfg.OnDecision = func(_ context.Context, decision middleware.Decision) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.all = append(d.all, decision)
	}
}

func (d *recorded) last() middleware.Decision {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all[len(d.all)-1]
}

// logged are the lines that a configuration's logger wrote, and when. The lines of a start that say
// nothing amiss are left out: their own tests alone look for them.
type logged struct {
	mu    sync.Mutex
	all   []string
	times []time.Time
}

func logTo(cfg *middleware.Config) *logged {
	l := new(logged)
	cfg.Logger = slog.New(slog.NewTextHandler(l, nil))
	return l
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !bytes.Contains(b, []byte(" code=configured ")) && !bytes.Contains(b, []byte(" code=hour-unlimited ")) {
		l.all, l.times = append(l.all, strings.TrimSuffix(string(b), "\n")), append(l.times, time.Now())
	}
	return len(b), nil
}

func (l *logged) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

func (l *logged) String() string { return strings.Join(l.lines(), "\n") }

// only returns the line of a log that has one.
func (l *logged) only(t testing.TB) string {
	t.Helper()
	require.Len(t, l.lines(), 1)
	return l.lines()[0]
}

// told returns when something was said, for each line that says it.
func (l *logged) told(what string) (at []time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, line := range l.all {
		if strings.Contains(line, what) {
			at = append(at, l.times[i])
		}
	}
	return at
}

// count returns how many lines say something.
func (l *logged) count(what string) int { return len(l.told(what)) }

// random returns a generator with a fixed seed: a failure repeats itself.
func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 2)) }

func mustURL(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	require.NoError(t, err)
	return u
}

// fleet returns n instances that share nothing but the secrets.
func fleet(t testing.TB, n int, cfg middleware.Config) []http.Handler {
	t.Helper()
	all := make([]http.Handler, n)
	for i := range all {
		all[i], _ = limited(t, cfg)
	}
	return all
}

// inTurn sends each request to the next instance.
func inTurn(instances []http.Handler) http.Handler {
	var next atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		instances[int(next.Add(1)-1)%len(instances)].ServeHTTP(w, r)
	})
}

// contactForm is the policy of the demo: 5 per minute and 50 per day, sliding.
func contactForm(c *clock) middleware.Config {
	cfg := contact(c)
	cfg.Limits = []middleware.Limit{{Quota: 5, Window: time.Minute}, {Quota: 50, Window: 24 * time.Hour}}
	return cfg
}

func requireStatus(t testing.TB, want int, resp *http.Response, message ...any) *http.Response {
	t.Helper()
	require.Equal(t, want, resp.StatusCode, message...)
	return resp
}

// only has everybody be one identity.
func only(id middleware.Identity) middleware.IdentityFunc {
	return func(*http.Request) (middleware.Identity, error) { return id, nil }
}

// echoing shows with each request the newest token that the one before was answered with, as clients do.
func echoing(h http.Handler) http.Handler {
	tok := ""
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		showing(tok)(r)
		h.ServeHTTP(w, r)
		if next := w.Header().Get(middleware.TokenHeader); next != "" {
			tok = next
		}
	})
}

// mustIdentity is what an identity function of the package is made of, which must be sound.
func mustIdentity(identify middleware.IdentityFunc, err error) middleware.IdentityFunc {
	if err != nil {
		panic(err)
	}
	return identify
}

// together sends n equal requests at once, and returns how many were answered 200.
func together(h http.Handler, n int, options ...option) int {
	var passed atomic.Int64
	inParallel(n, func(int) { passed.Add(int64(admitted(h, 1, options...))) })
	return int(passed.Load())
}
