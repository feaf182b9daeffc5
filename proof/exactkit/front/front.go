// SPDX-License-Identifier: Apache-2.0

// Package front has the middleware stand in front of an exact counter that faults befall. It is apart from
// package exactkit for modules that do not need the middleware.
package front

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

// A Log keeps what was logged.
type Log struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

// Write implements [io.Writer].
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(b)
}

// Count returns how often something was logged.
func (l *Log) Count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.lines.String(), what)
}

// A Site is a route behind the middleware, in front of a counter.
type Site struct {
	Log        *Log
	Middleware *middleware.Middleware
	handler    http.Handler
}

// NewSite returns one whose customers have a quota each, in exact and in fallback.
func NewSite(t testing.TB, c exact.Counter, outage middleware.Outage, quota int64, deadline time.Duration) *Site {
	t.Helper()
	s := &Site{Log: new(Log)}
	config := middleware.Config{
		Policy:  "api",
		Limits:  []middleware.Limit{exactkit.Yearly(quota)},
		Secrets: [][]byte{bytes.Repeat([]byte("s"), 32)},
		Identity: func(r *http.Request) (middleware.Identity, error) {
			if customer := r.Header.Get("Customer"); customer != "" {
				return middleware.APIKey(customer), nil
			}
			return middleware.PeerAddress(r)
		},
		Exact:  &middleware.Exact{Counter: c, Outage: outage, Deadline: deadline},
		Logger: slog.New(slog.NewTextHandler(s.Log, nil)),
	}
	s.Middleware = kit.Must(middleware.New(config))(t)
	s.handler = s.Middleware.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return s
}

// Ask makes a request of a customer, or from an address.
func (s *Site) Ask(who string) (status int, degraded bool) {
	r, w := httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder()
	if _, err := netip.ParseAddr(who); err == nil {
		r.RemoteAddr = who + ":1"
	} else {
		r.Header.Set("Customer", who)
	}
	s.handler.ServeHTTP(w, r)
	return w.Code, w.Header().Get("Tallystick-Degraded") == "?1"
}

// Recovers waits until the counter decides again. Each attempt is another customer's: what is charged
// on the way must not use up what is waited for.
func (s *Site) Recovers(t testing.TB) {
	t.Helper()
	attempt := 0
	require.Eventually(t, func() bool {
		attempt++
		status, degraded := s.Ask(fmt.Sprint(t.Name(), "-recovery-", attempt))
		return status == http.StatusOK && !degraded
	}, exactkit.Patient, 20*time.Millisecond, "it recovers by itself")
}
