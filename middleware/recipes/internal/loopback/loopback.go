// SPDX-License-Identifier: Apache-2.0

// Package loopback serves the recipes to their tests: real HTTP over the loopback
// interface, by a clock that stands still. It is imported by tests only.
package loopback

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// Secret signs the tokens of all tests.
var Secret = []byte(strings.Repeat("s", 32))

// Start is the time at which the clock stands: the beginning of a minute, an hour and a day.
var Start = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)

// Config has a policy of quota requests in each minute of the clock, by a clock that stands still.
func Config(policy string, quota int64) middleware.Config {
	return middleware.Config{
		Policy:  policy,
		Limits:  []middleware.Limit{{Quota: quota, Window: time.Minute, Algorithm: middleware.FixedWindow}},
		Secrets: [][]byte{Secret},
		Now:     func() time.Time { return Start },
	}
}

// New makes the middleware of a configuration.
func New(t testing.TB, cfg middleware.Config) *middleware.Middleware {
	t.Helper()
	limit, err := middleware.New(cfg)
	require.NoError(t, err)
	return limit
}

// Serve serves a handler over loopback until the test ends, and returns its URL.
func Serve(t testing.TB, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// An Answer is a response that was read to its end.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Token returns the window token of the answer, or "".
func (a Answer) Token() string { return a.Header.Get(middleware.TokenHeader) }

// Left returns the RateLimit field.
func (a Answer) Left() string { return a.Header.Get("RateLimit") }

// Send sends a request with the fields, name and value in turn. It follows no redirect.
func Send(t testing.TB, method, url, body string, fields ...string) Answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(text)}
}

// RequireFields checks that an answer has all that a limited response has.
func RequireFields(t testing.TB, a Answer, left string) {
	t.Helper()
	RequireNavigated(t, a, left)
	require.NotEmpty(t, a.Token(), "the token, by its field")
	require.Contains(t, a.Header.Get("Set-Cookie"), a.Token(), "the token, by its cookie")
}

// RequireNavigated is RequireFields for what a browser gets that asks for a page: the token is in the
// cookie alone.
func RequireNavigated(t testing.TB, a Answer, left string) {
	t.Helper()
	require.Equal(t, left, a.Left())
	require.NotEmpty(t, a.Header.Get("RateLimit-Policy"))
	require.Contains(t, a.Header.Get("Set-Cookie"), "tallystick-")
	require.Equal(t, "no-store", a.Header.Get("Cache-Control"))
}

// RequireRoutes checks a site whose /contact has a quota of two, by GET and POST, and whose / is free.
func RequireRoutes(t testing.TB, url string) {
	t.Helper()
	RequireFields(t, Send(t, http.MethodGet, url+"/contact", ""), `"contact";r=1;t=60`)
	RequireFields(t, Send(t, http.MethodPost, url+"/contact", ""), `"contact";r=0;t=60`)
	require.Equal(t, http.StatusTooManyRequests, Send(t, http.MethodPost, url+"/contact", "").Status)
	free := Send(t, http.MethodGet, url, "")
	require.Equal(t, http.StatusOK, free.Status)
	require.Empty(t, free.Left())
}

// Here is the address of every client of these tests.
var Here = netip.MustParseAddr("127.0.0.1")
