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
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/exactkit"
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
	config     middleware.Config
	handler    http.Handler
	late       time.Duration // of its clock
}

// Outages are what a middleware may be told to do in one, by their names.
var Outages = map[middleware.Outage]string{middleware.FailOpen: "FailOpen", middleware.FailClosed: "FailClosed"}

// NewSite returns one whose customers have a quota each, in exact and in fallback.
func NewSite(t testing.TB, c exact.Counter, outage middleware.Outage, quota int64, deadline time.Duration) *Site {
	t.Helper()
	s := &Site{Log: new(Log)}
	s.config = middleware.Config{
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
		Now:    func() time.Time { return time.Now().Add(s.late) },
	}
	var err error
	s.Middleware, err = middleware.New(s.config)
	require.NoError(t, err)
	s.handler = s.Middleware.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return s
}

// Reopens has another counter stand in the place of one that has stopped.
func (s *Site) Reopens(t testing.TB, c exact.Counter) {
	t.Helper()
	anew := *s.config.Exact
	anew.Counter = c
	s.config.Exact = &anew
	require.NoError(t, s.Middleware.Reconfigure(s.config))
}

// Ask makes a request of a customer, or from an address.
func (s *Site) Ask(who string) (status int, degraded bool) {
	w := s.ask(who, "")
	return w.Code, w.Header().Get("Tallystick-Degraded") == "?1"
}

// ask is Ask, with a token.
func (s *Site) ask(who, token string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder()
	if _, err := netip.ParseAddr(who); err == nil {
		r.RemoteAddr = who + ":1"
	} else {
		r.Header.Set("Customer", who)
	}
	if token != "" {
		r.Header.Set(middleware.TokenHeader, token)
	}
	s.handler.ServeHTTP(w, r)
	return w
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

const (
	clients = 32
	quota   = 4 // each customer's, in exact and in fallback

	alarm, allClear = "code=counter-down", "code=counter-back"
)

// Of has the middleware stand in front of a counter that faults befall, amid clients. Meanwhile it does what it
// was told by name, and is loud, once; the counter decides again when it is back, which is told, once. No client
// gets more than the counter's quota and the fallback's.
func Of(t *testing.T, c exact.Counter, all []exactkit.Fault) {
	for _, f := range all {
		for outage, name := range Outages {
			t.Run(f.Name+", "+name, func(t *testing.T) { of(t, c, &f, outage) })
		}
	}
}

func of(t *testing.T, c exact.Counter, f *exactkit.Fault, outage middleware.Outage) {
	before := runtime.NumGoroutine()
	// Where nothing is wrong, a busy machine must not look like it: calm has the longest deadline there is.
	s, calm := NewSite(t, c, outage, quota, 300*time.Millisecond), NewSite(t, c, outage, quota, 10*time.Second)
	well := func(when string) {
		t.Helper()
		for n := range clients {
			status, degraded := calm.Ask(fmt.Sprint(t.Name(), when, n))
			require.Equal(t, http.StatusOK, status)
			require.False(t, degraded)
		}
	}
	spent := 0 // by one customer, before the fault, in it and after
	spend := func(s *Site, times int) {
		for range times {
			if status, _ := s.Ask(t.Name()); status == http.StatusOK {
				spent++
			}
		}
	}
	well("before")
	spend(calm, quota/2)
	require.Equal(t, quota/2, spent)
	require.Zero(t, calm.Log.Count("code=counter"), "nothing to tell")

	f.Strike()
	goroutines := s.ill(t, outage)
	require.Equal(t, 1, s.Log.Count(alarm), "one alarm")
	require.Less(t, goroutines, before+2*clients+3*256, "goroutines are bounded")
	spend(s, 2*quota)
	require.Zero(t, s.Log.Count(allClear), "no all-clear before the cure")

	f.Heal()
	s.Recovers(t)
	require.Zero(t, s.Log.Count(allClear), "no all-clear before ten quiet seconds")
	s.late += 10 * time.Second
	require.Eventually(t, func() bool {
		s.Ask(t.Name() + "-afterwards")
		return s.Log.Count(allClear) == 1
	}, exactkit.Patient, 20*time.Millisecond, "one all-clear")
	well("after")
	spend(s, 2*quota)
	most := quota
	if outage == middleware.FailOpen {
		most += quota
	}
	if f.Loses {
		most += quota
	}
	require.LessOrEqual(t, spent, most, "nothing above the bound")
	require.Equal(t, 1, s.Log.Count(alarm))
	require.Equal(t, 1, s.Log.Count(allClear))
}

// ill has clients ask in an outage, some thousand times and until it is told of, each as one customer after the
// other, and returns how many goroutines there were at most.
func (s *Site) ill(t *testing.T, outage middleware.Outage) (goroutines int) {
	want := append(slices.Repeat([]int{http.StatusOK}, quota), http.StatusTooManyRequests)
	if outage == middleware.FailClosed {
		want = slices.Repeat([]int{http.StatusServiceUnavailable}, quota+1)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	end := time.Now().Add(exactkit.Patient)
	for client := range clients {
		wg.Go(func() {
			for n := 0; n < 32 || s.Log.Count(alarm) == 0 && time.Now().Before(end); n++ {
				for _, want := range want {
					// A call that had no turn in time is load, and no outage.
					status, degraded := http.StatusServiceUnavailable, false
					for status == http.StatusServiceUnavailable && !degraded && time.Now().Before(end) {
						status, degraded = s.Ask(fmt.Sprint(t.Name(), client, "-", n))
						mu.Lock()
						goroutines = max(goroutines, runtime.NumGoroutine())
						mu.Unlock()
						time.Sleep(2 * time.Millisecond) // this is an outage, and no flood
					}
					if status != want || !degraded {
						t.Errorf("%d, degraded is %t, want %d", status, degraded, want)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	return goroutines
}

// Elsewhere refunds to a spent key without the middleware: by its receipt, and by
// what deletes all accounts, where there is a way. Ten seconds later it is let in: by the instance that has refused it,
// and by one that is shown its token.
func Elsewhere(t *testing.T, c exact.Counter, deletes func()) {
	ways := map[string]func(exact.Receipt){"a receipt": func(r exact.Receipt) { require.NoError(t, c.Refund(t.Context(), r)) }}
	if deletes != nil {
		ways["a deletion"] = func(exact.Receipt) { deletes() }
	}
	for name, gives := range ways {
		t.Run(name, func(t *testing.T) {
			sites := []*Site{NewSite(t, c, middleware.FailClosed, 2, 10*time.Second), NewSite(t, c, middleware.FailClosed, 2, 10*time.Second)}
			call, err := sites[0].Middleware.CallFor(middleware.APIKey(t.Name()))
			require.NoError(t, err)
			call.Cost = 2
			v := exactkit.Take(t, c, call)
			require.True(t, v.Admitted)
			refused := sites[0].ask(t.Name(), "")
			require.Equal(t, http.StatusTooManyRequests, refused.Code)
			token := refused.Header().Get(middleware.TokenHeader)
			require.NotEmpty(t, token)
			gives(v.Receipt)
			for _, want := range []int{http.StatusTooManyRequests, http.StatusOK} {
				for n, s := range sites {
					require.Equal(t, want, s.ask(t.Name(), token).Code, "instance %d, %s later", n, s.late)
					s.late += 10 * time.Second
				}
			}
		})
	}
}
