// SPDX-License-Identifier: Apache-2.0

// Package handlers is what tests send requests to: limited handlers on a clock that is moved by hand, the requests, what
// answers say, servers in front of them, and counters that fail. The tests of middleware, and the bounds and
// threats of the whole system, stand on it.
package handlers

import (
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
)

// Midnight is when all decisions of all tests happen, or after what they say. No test reads a clock.
var Midnight = fleet.Midnight

// A Clock is moved by hand.
type Clock = fleet.Clock

// Secret returns a fixed secret, as good as random to everything under test.
func Secret(name string) []byte {
	sum := sha256.Sum256([]byte("tallystick test secret " + name))
	return sum[:]
}

// Contact is the configuration of most tests: five requests a minute, counted in
// fixed windows, so that the arithmetic can be done in the head.
func Contact(c *Clock) middleware.Config {
	return middleware.Config{
		Policy:     "contact",
		Limits:     []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 5, Window: time.Minute}},
		Secrets:    [][]byte{Secret("a")},
		MaxClients: 1024,
		Now:        c.Now,
		Logger:     slog.New(slog.DiscardHandler),
	}
}

// NewLimiter makes a middleware of a configuration that is sound.
func NewLimiter(t testing.TB, cfg middleware.Config) *middleware.Middleware {
	t.Helper()
	m, err := middleware.New(cfg)
	require.NoError(t, err)
	return m
}

// A Spy is the handler behind the limiter. It counts the requests that got through.
type Spy struct {
	Calls atomic.Int64
	Serve http.HandlerFunc // nil: writes "ok"
}

func (s *Spy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Calls.Add(1)
	if s.Serve != nil {
		s.Serve(w, r)
		return
	}
	_, _ = io.WriteString(w, "ok")
}

// Limited returns a limited handler, and the spy behind it.
func Limited(t testing.TB, cfg middleware.Config) (http.Handler, *Spy) {
	t.Helper()
	s := new(Spy)
	return NewLimiter(t, cfg).Handler(s), s
}

// An Option changes a request before it is sent. The requests of most tests are POST / from 203.0.113.1.
type Option func(*http.Request)

// From has a request come from an address.
func From(addr string) Option {
	return func(r *http.Request) { r.RemoteAddr = net.JoinHostPort(addr, "4711") }
}

// Method sets the method of a request.
func Method(m string) Option { return func(r *http.Request) { r.Method = m } }

// Path sets the path of a request.
func Path(p string) Option { return func(r *http.Request) { r.URL.Path, r.RequestURI = p, p } }

// With adds fields to a request: names and values in turn.
func With(pairs ...string) Option {
	return func(r *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			r.Header.Add(pairs[i], pairs[i+1])
		}
	}
}

// Showing shows tokens; "" is none.
func Showing(tokens ...string) Option {
	return func(r *http.Request) {
		for _, tok := range tokens {
			if tok != "" {
				r.Header.Add(middleware.TokenHeader, tok)
			}
		}
	}
}

// ShowingCookie shows tokens as the cookies of policy contact.
func ShowingCookie(tokens ...string) Option {
	return func(r *http.Request) {
		for _, tok := range tokens {
			r.Header.Add("Cookie", "__Host-tallystick-contact="+tok)
		}
	}
}

// NewRequest is POST / from 203.0.113.1, as options change it.
func NewRequest(options ...Option) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	From("203.0.113.1")(r)
	for _, option := range options {
		option(r)
	}
	return r
}

// Send sends a request to a handler.
func Send(h http.Handler, options ...Option) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, NewRequest(options...))
	return w.Result()
}

// Admitted sends n equal requests and returns how many were answered 200.
func Admitted(h http.Handler, n int, options ...Option) (passed int) {
	for range n {
		if Send(h, options...).StatusCode == http.StatusOK {
			passed++
		}
	}
	return passed
}

// TokenIn returns the token of a response, or "".
func TokenIn(resp *http.Response) string { return resp.Header.Get(middleware.TokenHeader) }

// RequireHeader checks fields of a response: the name of each, and what its lines say; "" for nothing.
func RequireHeader(t testing.TB, resp *http.Response, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		require.Equal(t, pairs[i+1], strings.Join(resp.Header.Values(pairs[i]), ", "), pairs[i])
	}
}

// CookieIn returns the tally cookie in a response, or nil.
func CookieIn(resp *http.Response) *http.Cookie {
	for _, c := range resp.Cookies() {
		if strings.Contains(c.Name, "tallystick-") {
			return c
		}
	}
	return nil
}

// BodyOf reads the body of a response.
func BodyOf(t testing.TB, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return string(b)
}

// Spend uses up n of a client's quota and returns the newest token.
func Spend(t testing.TB, h http.Handler, n int, options ...Option) (tok string) {
	t.Helper()
	for range n {
		resp := Send(h, append([]Option{Showing(tok)}, options...)...)
		require.Less(t, resp.StatusCode, 400)
		tok = TokenIn(resp)
		require.NotEmpty(t, tok)
	}
	return tok
}

// Recorded are the decisions that were heard.
type Recorded struct {
	mu  sync.Mutex
	All []middleware.Decision
}

// Record hears the decisions of a configuration.
func Record(cfg *middleware.Config) *Recorded {
	d := new(Recorded)
	d.Hear(cfg)
	return d
}

// Hear has a configuration's decisions be among those that were heard before.
func (d *Recorded) Hear(cfg *middleware.Config) {
	cfg.OnDecision = func(_ context.Context, decision middleware.Decision) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.All = append(d.All, decision)
	}
}

func (d *Recorded) Last() middleware.Decision {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.All[len(d.All)-1]
}

// startLine is a line of a start that says nothing amiss, but for the small puzzles of tests.
var startLine = regexp.MustCompile(` code=(configured|bounds|hour-unlimited) `)

// Logged are the lines that a configuration's logger wrote, and when. Lines of startLine are left out: their own tests
// alone look for them.
type Logged struct {
	mu    sync.Mutex
	all   []string
	times []time.Time
}

// LogTo has a configuration write its lines to what it returns.
func LogTo(cfg *middleware.Config) *Logged {
	l := new(Logged)
	cfg.Logger = slog.New(slog.NewTextHandler(l, nil))
	return l
}

func (l *Logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !startLine.Match(b) {
		l.all, l.times = append(l.all, strings.TrimSuffix(string(b), "\n")), append(l.times, time.Now())
	}
	return len(b), nil
}

func (l *Logged) Lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

func (l *Logged) String() string { return strings.Join(l.Lines(), "\n") }

// Only returns the line of a log that has one.
func (l *Logged) Only(t testing.TB) string {
	t.Helper()
	require.Len(t, l.Lines(), 1)
	return l.Lines()[0]
}

// Told returns when something was said, for each line that says it.
func (l *Logged) Told(what string) (at []time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, line := range l.all {
		if strings.Contains(line, what) {
			at = append(at, l.times[i])
		}
	}
	return at
}

// Count returns how many lines say something.
func (l *Logged) Count(what string) int { return len(l.Told(what)) }

// Random returns a generator with a fixed seed: a failure repeats itself.
func Random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 2)) }

// Fleet returns n instances that share nothing but the secrets.
func Fleet(t testing.TB, n int, cfg middleware.Config) []http.Handler {
	t.Helper()
	all := make([]http.Handler, n)
	for i := range all {
		all[i], _ = Limited(t, cfg)
	}
	return all
}

// RequireStatus checks the status of a response, and returns the response.
func RequireStatus(t testing.TB, want int, resp *http.Response, message ...any) *http.Response {
	t.Helper()
	require.Equal(t, want, resp.StatusCode, message...)
	return resp
}

// Only gives all clients one identity.
func Only(id middleware.Identity) middleware.IdentityFunc {
	return func(*http.Request) (middleware.Identity, error) { return id, nil }
}

// MustIdentity is what an identity function of the package is made of, which must be sound.
func MustIdentity(identify middleware.IdentityFunc, err error) middleware.IdentityFunc {
	if err != nil {
		panic(err)
	}
	return identify
}
