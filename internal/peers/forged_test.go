// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware"
)

// huge is what a header may have by default in net/http, less some room.
const huge = 600 << 10

// A forgery is a request of one client that shows something for a token.
type forgery struct {
	name   string
	looks  int // how many tokens a limiter may have to look at
	header http.Header
	err    error // why it is not accepted; nil if nothing is even looked at
}

// forgeries returns what is shown in place of good, a token of the client's.
func forgeries(tb testing.TB, good string) []forgery {
	long, bad := lengthen(good), forge(good)
	require.Len(tb, long, token.MaxLen)
	foreign, err := foreignToken(new(opening))
	require.NoError(tb, err)
	shows := func(lines ...string) http.Header { return http.Header{tokenHeader: lines} }
	cookie := func(line string) http.Header { return http.Header{cookieHeader: {line}} }
	const most = 4 // tokens that are looked at
	return []forgery{
		{"nothing", 0, http.Header{}, nil},
		{"bad-mac", 1, shows(bad), token.ErrForged},
		{"bad-mac-long", 1, shows(long), token.ErrForged},
		{"bad-mac-long-x4", most, shows(strings.Join([]string{long, long, long, long}, ",")), token.ErrForged},
		{"bad-mac-long-x1000", most, shows(strings.Repeat(long+",", 1000)), token.ErrMalformed},
		{"foreign", 1, shows(foreign), token.ErrForeign},
		{"huge", 1, shows(bad + strings.Repeat("A", huge)), token.ErrMalformed},
		{"huge-list", most, shows(strings.Repeat("A,", huge/2)), token.ErrMalformed},
		{"huge-lines", most, shows(slices.Repeat([]string{strings.Repeat("A,", 2<<10)}, huge/(4<<10))...), token.ErrMalformed},
		{"cookie-bad-mac", 1, cookie(cookieName + "=" + bad), token.ErrForged},
		{"cookie-huge", 1, cookie(cookieName + "=" + bad + strings.Repeat("A", huge)), nil}, // no such line is searched
		// No tokens at all, but what a client can send where a cookie is read.
		{"cookies-huge", 0, cookie(strings.Repeat("a=b;", huge/4)), nil},
		{"cookies-many", 0, cookie(strings.Repeat("a=b;", 4<<10)), nil},
	}
}

// BenchmarkForged is one request of a client whom the memory knows, without a
// token and with something that is none. All of them are allowed: what is not
// accepted is as if absent.
func BenchmarkForged(b *testing.B) {
	population, err := gather(1, true)
	require.NoError(b, err)
	for _, f := range forgeries(b, population.Token(0)) {
		b.Run("shows="+f.name, func(b *testing.B) {
			requireRefusedToken(b, population, f)
			instance, err := withMemory(nil)(Served(), Plenty(1))
			require.NoError(b, err)
			s := newSeat(instance, population, Request{Method: http.MethodGet}, http.StatusOK)
			s.request.Header = f.header
			s.visit(0)
			s.restart()
			measure(b, func() {
				for range b.N {
					s.send()
				}
			})
			b.ReportMetric(float64(f.looks), "tokens")
			require.NoError(b, audit([]*seat{s}, nil, b.N))
		})
	}
}

// requireRefusedToken makes sure that f is refused for the reason that is going
// to be measured, by a middleware that tells.
func requireRefusedToken(tb testing.TB, population *Population, f forgery) {
	tb.Helper()
	cfg := config(Plenty(1))
	var last middleware.Decision
	cfg.OnDecision = func(_ context.Context, d middleware.Decision) { last = d }
	m, err := middleware.New(cfg)
	require.NoError(tb, err)
	s := newSeat(m.Handler(Served()), population, Request{Method: http.MethodGet}, http.StatusOK)
	s.request.Header = f.header
	s.visit(0)
	require.True(tb, last.Allowed)
	require.Zero(tb, last.Tokens)
	require.ErrorIs(tb, last.TokenErr, f.err)
}
