// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

const (
	// Ten times the default, because a busy machine is no outage; below the second that
	// an open breaker keeps calls back from the start of the one that failed.
	deadline = 500 * time.Millisecond
	clients  = 32
	limit    = 300 // each customer's, in exact and in fallback
)

// A site is a route behind middleware whose counter is on Redis.
type site struct {
	handler http.Handler
	log     *alarms
}

// alarms keeps what was logged.
type alarms struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (a *alarms) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lines.Write(b)
}

func (a *alarms) count(what string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Count(a.lines.String(), what)
}

func newSite(t *testing.T, counter exact.Counter, outage middleware.Outage, deadline time.Duration) *site {
	t.Helper()
	s := &site{log: new(alarms)}
	m, err := middleware.New(middleware.Config{
		Policy:  "api",
		Limits:  []middleware.Limit{yearly(limit)},
		Secrets: [][]byte{bytes.Repeat([]byte("s"), 32)},
		Identity: func(r *http.Request) (middleware.Identity, error) {
			if customer := r.Header.Get("Customer"); customer != "" {
				return middleware.APIKey(customer), nil
			}
			return middleware.PeerAddress(r)
		},
		Exact:  &middleware.Exact{Counter: counter, Outage: outage, Deadline: deadline},
		Logger: slog.New(slog.NewTextHandler(s.log, nil)),
	})
	require.NoError(t, err)
	s.handler = m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return s
}

// ask makes a request of a customer, or from an address.
func (s *site) ask(who string) (status int, degraded bool) {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	if _, err := netip.ParseAddr(who); err == nil {
		r.RemoteAddr = who + ":1"
	} else {
		r.Header.Set("Customer", who)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w.Code, w.Header().Get("Tallystick-Degraded") != ""
}

// recovers waits until the counter decides again. Each attempt is another customer's:
// what is charged on the way must not use up what is waited for.
func (s *site) recovers(t *testing.T) {
	t.Helper()
	attempt := 0
	require.Eventually(t, func() bool {
		attempt++
		status, degraded := s.ask(fmt.Sprint(t.Name(), "-recovery-", attempt))
		return status == http.StatusOK && !degraded
	}, patient, 50*time.Millisecond, "it recovers by itself")
}

// ends waits for what must not hang while a server hangs.
func ends(t *testing.T, wg *sync.WaitGroup) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); wg.Wait() }()
	select {
	case <-done:
	case <-time.After(patient):
		require.FailNow(t, "a request does not keep its deadline")
	}
}

type tide struct {
	mu         sync.Mutex
	statuses   map[int]int // of decisions by the counter
	degraded   map[int]int
	asked      int
	admitted   map[string]int
	took       []time.Duration // by customers
	goroutines int             // at most
}

// p99 is what 99 of 100 requests of customers have taken at most. No test judges it: the
// machine may be busy.
func (l *tide) p99() time.Duration {
	slices.Sort(l.took)
	return l.took[len(l.took)*99/100]
}

// load has clients ask so often each, half of them for customers that no other load has,
// and half as strangers, by their addresses. They pause between requests: this is an
// outage, not a flood.
func (s *site) load(t *testing.T, name string, times int) *tide {
	t.Helper()
	l := &tide{statuses: make(map[int]int), degraded: make(map[int]int), admitted: make(map[string]int)}
	h := fnv.New32()
	h.Write([]byte(name))
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for n := range times {
				customer := fmt.Sprint(name, "-", c, "-", n/(limit/2))
				if c%2 == 1 {
					customer = fmt.Sprintf("10.%d.%d.%d", h.Sum32()>>8&255, h.Sum32()&255, c<<2+n/(limit/2))
				}
				began := time.Now()
				status, degraded := s.ask(customer)
				took := time.Since(began)
				l.mu.Lock()
				l.asked++
				if c%2 == 0 {
					l.took = append(l.took, took)
				}
				if degraded {
					l.degraded[status]++
				} else {
					l.statuses[status]++
				}
				if status == http.StatusOK {
					l.admitted[customer]++
				}
				l.goroutines = max(l.goroutines, runtime.NumGoroutine())
				l.mu.Unlock()
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	ends(t, &wg)
	return l
}

func keys(m map[int]int) (list []int) {
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

func (s *server) signal(sig syscall.Signal) { require.NoError(s.t, s.cmd.Process.Signal(sig)) }
