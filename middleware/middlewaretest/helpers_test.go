// SPDX-License-Identifier: Apache-2.0

package middlewaretest_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/middlewaretest"
)

// contact is a policy of five a minute, in fixed windows.
func contact(clock *middlewaretest.Clock) middleware.Config {
	return middlewaretest.Quick(middleware.Config{
		Policy:  "contact",
		Limits:  []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 5, Window: time.Minute}},
		Secrets: [][]byte{secret[:]},
		Logger:  slog.New(slog.DiscardHandler),
	}, clock)
}

// selling is the same, where tallies are sold.
func selling(clock *middlewaretest.Clock, mode middleware.Mode) middleware.Config {
	cfg := contact(clock)
	cfg.Challenge = &middleware.Challenge{Mode: mode, Work: 16, Path: "/tally/"}
	return cfg
}

// newSite returns the limiter around a handler that says ok, with its endpoints.
func newSite(t testing.TB, cfg middleware.Config) http.Handler {
	t.Helper()
	limit, err := middleware.New(cfg)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/", limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, "ok %s", body)
	})))
	mux.Handle("/tally/", limit.Endpoints())
	return mux
}

// admitted sends n requests and returns how many were admitted.
func admitted(t testing.TB, c *http.Client, n int, fields ...string) (passed int) {
	t.Helper()
	for range n {
		if post(t, c, fields...).StatusCode < 400 {
			passed++
		}
	}
	return passed
}

// post sends one, with header fields: names and values in turn.
func post(t testing.TB, c *http.Client, fields ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "https://example.com/", nil)
	require.NoError(t, err)
	for i := 0; i < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	resp, err := c.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp
}

var ada = middleware.Address(netip.MustParseAddr("203.0.113.1"))

// A failing is a test that is to fail.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	panic(f)
}

// fails requires that f fails its test, and returns what it says.
func fails(t *testing.T, f func(testing.TB)) (said string) {
	t.Helper()
	doomed := &failing{TB: t}
	defer func() {
		require.Same(t, doomed, recover(), "it does not fail")
		said = doomed.said
	}()
	f(doomed)
	return ""
}
