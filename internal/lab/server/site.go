// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tallystick/tallystick/internal/lab/instance"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/middleware/policyfile"
)

type site struct {
	now    atomic.Int64 // Unix seconds
	name   string       // of this process
	routes map[string]*middleware.Middleware
	mux    *http.ServeMux
	set    *policyfile.Set // of a fleet
	door   *url.URL        // at the back

	release chan struct{} // closed when the lab lets go what is held

	mu     sync.Mutex
	counts map[string]map[string]int64 // by the name that a client gives itself, by what became of its requests
}

// newSite mounts the routes: /<policy> is limited, and /<policy>/tally/ sells.
func newSite(cfg instance.Config) (*site, error) {
	s := &site{name: strconv.FormatInt(cfg.Process, 10), routes: map[string]*middleware.Middleware{}, mux: http.NewServeMux(), release: make(chan struct{}), counts: map[string]map[string]int64{}}
	if cfg.Fleet != nil {
		return s, s.join(cfg.Fleet)
	}
	s.now.Store(cfg.Now)
	identity, err := middleware.ForwardedFor(cfg.Trusted...)
	if err != nil {
		return nil, err
	}
	for _, r := range cfg.Routes {
		var exact *middleware.Exact
		if r.Counter != "" {
			counter, err := remote.Open([]string{r.Counter}, remote.Config{Secrets: [][]byte{cfg.Secret}})
			if err != nil {
				return nil, err
			}
			// A busy machine is no outage: what is answered at all is answered in time.
			exact = &middleware.Exact{Counter: counter, Outage: middleware.FailOpen, Deadline: 10 * time.Second}
		}
		limit := middleware.Limit{Quota: r.Quota, Window: time.Duration(r.Window) * time.Second}
		if r.Fixed {
			limit.Algorithm = middleware.FixedWindow
		}
		var atOnce *middleware.Concurrency
		if r.AtOnce > 0 {
			atOnce = &middleware.Concurrency{Max: r.AtOnce, MaxHold: time.Hour}
		}
		m, err := middleware.New(middleware.Config{
			Policy:      r.Policy,
			Limits:      []middleware.Limit{limit},
			Secrets:     [][]byte{cfg.Secret},
			Identity:    identity,
			MaxClients:  r.MaxClients,
			Challenge:   r.Challenge(),
			Exact:       exact,
			Concurrency: atOnce,
			Instances:   r.Instances,
			OnDecision:  s.decided,
			Logger:      slog.New(slog.DiscardHandler),
			Now:         func() time.Time { return time.Unix(s.now.Load(), 0) },
		})
		if err != nil {
			return nil, fmt.Errorf("route %s: %w", r.Policy, err)
		}
		s.routes[r.Policy] = m
		s.mux.Handle("/"+r.Policy, m.Handler(s.serve(r.AtOnce > 0)))
		s.mux.Handle("/"+r.Policy+"/tally/", m.Endpoints())
	}
	return s, nil
}

// responseOf is the key under which a request's context has its response.
type responseOf struct{}

// front is what clients see.
func (s *site) front() http.Handler {
	if s.set != nil {
		return s.mux // with the request as net/http has made it
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(instance.ProcessHeader, s.name)
		s.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), responseOf{}, w)))
	})
}

// decided tells the lab what a decision was, in a field of the response.
func (s *site) decided(ctx context.Context, d middleware.Decision) {
	if w, ok := ctx.Value(responseOf{}).(http.ResponseWriter); ok {
		w.Header().Set(instance.DecisionHeader, instance.Decision{
			Reason: string(d.Reason), Own: d.Own, Room: d.FromWaitingRoom, Inherited: d.Inherited,
		}.String())
	}
	if r, ok := d.Request(); ok && !d.Admitted {
		s.count(r, string(d.Reason))
	}
}

// serve is behind the limit: what comes here was admitted. With hold an attacker's request stays
// until the lab lets it go.
func (s *site) serve(hold bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.count(r, instance.Admitted)
		if hold && strings.HasSuffix(r.Header.Get(instance.ClientHeader), instance.Attacker) {
			<-s.release
		}
		if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, instance.Cached) {
			w.Header().Set("Cache-Control", "public, max-age=3600")
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

func (s *site) count(r *http.Request, what string) {
	name := r.Header.Get(instance.ClientHeader)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts[name] == nil {
		s.counts[name] = map[string]int64{}
	}
	s.counts[name][what]++
}

// back is what the lab sees.
func (s *site) back() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(instance.State{Counts: s.counts, CPU: cpu(), Heap: heap(), Goroutines: runtime.NumGoroutine()})
	})
	mux.HandleFunc("POST /reload", func(w http.ResponseWriter, _ *http.Request) {
		if err := policyfile.Reload(s.set); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	mux.HandleFunc("/"+instance.Proxied, upstream)
	mux.HandleFunc("POST /release", func(http.ResponseWriter, *http.Request) { close(s.release) })
	mux.HandleFunc("POST /clock", func(w http.ResponseWriter, r *http.Request) {
		now, err := strconv.ParseInt(r.FormValue("now"), 10, 64)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.now.Store(now)
	})
	return mux
}

// cpu returns the time that this process has computed for.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// heap returns the bytes that are in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what a sync.Pool holds survives one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
