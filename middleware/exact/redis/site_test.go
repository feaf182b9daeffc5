// SPDX-License-Identifier: Apache-2.0

package redis_test

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

// A logged keeps what was logged.
type logged struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

// Write implements [io.Writer].
func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(b)
}

// count returns how often something was logged.
func (l *logged) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.lines.String(), what)
}

// A site is a route behind the middleware, in front of a counter.
type site struct {
	logged  *logged
	handler http.Handler
}

// newSite returns one whose customers have a quota each, in exact and in fallback.
func newSite(t testing.TB, c exact.Counter, outage middleware.Outage, quota int64, deadline time.Duration) *site {
	t.Helper()
	s := &site{logged: new(logged)}
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
		Logger: slog.New(slog.NewTextHandler(s.logged, nil)),
	}
	s.handler = kit.Must(middleware.New(config))(t).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return s
}

// ask makes a request of a customer, or from an address.
func (s *site) ask(who string) (status int, degraded bool) {
	r, w := httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder()
	if _, err := netip.ParseAddr(who); err == nil {
		r.RemoteAddr = who + ":1"
	} else {
		r.Header.Set("Customer", who)
	}
	s.handler.ServeHTTP(w, r)
	return w.Code, w.Header().Get("Tallystick-Degraded") == "?1"
}

// recovers waits until the counter decides again. Each attempt is another customer's: what is charged
// on the way must not use up what is waited for.
func (s *site) recovers(t testing.TB) {
	t.Helper()
	attempt := 0
	require.Eventually(t, func() bool {
		attempt++
		status, degraded := s.ask(fmt.Sprint(t.Name(), "-recovery-", attempt))
		return status == http.StatusOK && !degraded
	}, exactkit.Patient, 20*time.Millisecond, "it recovers by itself")
}
