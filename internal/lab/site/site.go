// SPDX-License-Identifier: Apache-2.0

// Package site is one instance of what the lab attacks: the policies of some files, with the middleware before them as
// users mount it, and a door at the back for the lab.
//
// Its clock stands where the lab has put it, so that no window ends by itself.
package site

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tallystick/tallystick/internal/lab/instance"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/middleware/policyfile"
)

// A Site is an instance that serves.
type Site struct {
	cfg      instance.Config
	mux      *http.ServeMux
	sets     map[string]*policyfile.Set // by the policy
	all      []*policyfile.Set
	counters map[string]exact.Counter
	door     *url.URL // at the back
	servers  []*http.Server
	failed   chan error
	release  chan struct{} // closed when the lab lets go what is held

	// While a decision is made it holds this for reading, and the clock is not moved. A decision
	// that saw two times could belong to either of two windows, and could not be judged.
	gate sync.RWMutex
	now  atomic.Int64 // Unix seconds

	connections atomic.Int64
	mu          sync.Mutex
	state       instance.State
	served      map[string]int64
}

// Start starts one. wrap may put something in front of its handlers.
func Start(cfg instance.Config, wrap func(http.Handler) http.Handler) (*Site, instance.Where, error) {
	s := &Site{
		cfg: cfg, mux: http.NewServeMux(), sets: map[string]*policyfile.Set{}, counters: map[string]exact.Counter{}, failed: make(chan error, 4),
		release: make(chan struct{}), state: instance.State{Counts: map[string]map[string]int64{}}, served: map[string]int64{},
	}
	s.now.Store(cfg.Now)
	where, err := s.start(cfg, wrap)
	if err != nil {
		return nil, where, errors.Join(err, s.Stop(context.Background()))
	}
	return s, where, nil
}

func (s *Site) start(cfg instance.Config, wrap func(http.Handler) http.Handler) (where instance.Where, err error) {
	for name, at := range cfg.Counters {
		if strings.HasPrefix(at, "redis:") {
			s.counters[name], err = redis.Open(at, redis.Config{})
		} else {
			s.counters[name], err = remote.Open([]string{at}, remote.Config{Secrets: [][]byte{cfg.Secret}})
		}
		if err != nil {
			return where, err
		}
	}
	for _, file := range cfg.Policies {
		if err := s.mount(file); err != nil {
			return where, err
		}
	}
	var listeners [3]net.Listener
	for i, at := range []netip.AddrPort{cfg.Listen, netip.MustParseAddrPort("127.0.0.1:0"), cfg.Safe} {
		if at.IsValid() {
			if listeners[i], err = net.Listen("tcp4", at.String()); err != nil {
				return where, err
			}
		}
	}
	front, back, safe := listeners[0], listeners[1], listeners[2]
	where = instance.Where{Front: addrOf(front), Back: addrOf(back), Safe: addrOf(safe)}
	s.door = &url.URL{Scheme: "http", Host: where.Back.String()}
	handler := http.Handler(s.mux)
	if wrap != nil {
		handler = wrap(handler)
	}
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols), ErrorLog: log.New(s, "", 0), ConnState: s.connected}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	s.servers = []*http.Server{server, {Handler: s.back()}}
	serve := func(serve func() error) {
		go func() {
			if err := serve(); !errors.Is(err, http.ErrServerClosed) {
				s.failed <- err
			}
		}()
	}
	serve(func() error { return server.Serve(front) })
	serve(func() error { return s.servers[1].Serve(back) })
	if safe != nil {
		serve(func() error {
			return server.ServeTLS(safe, filepath.Join(cfg.Keys, "certificate.pem"), filepath.Join(cfg.Keys, "key.pem"))
		})
	}
	return where, nil
}

func addrOf(l net.Listener) (at netip.AddrPort) {
	if l != nil {
		at = netip.MustParseAddrPort(l.Addr().String())
	}
	return at
}

// Failed tells of a server that ends by itself.
func (s *Site) Failed() <-chan error { return s.failed }

// Stop ends it: requests under way have until ctx is done.
func (s *Site) Stop(ctx context.Context) (err error) {
	for _, server := range s.servers {
		if e := server.Shutdown(ctx); e != nil { // the rest are slow readers
			err = errors.Join(err, server.Close())
		}
	}
	for _, c := range s.counters {
		if c, ok := c.(io.Closer); ok {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}

// mount mounts the policies of a file: /<policy> is limited, and /<policy>/tally/ sells.
func (s *Site) mount(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var names struct{ Policies map[string]json.RawMessage }
	if err := json.Unmarshal(text, &names); err != nil {
		return err
	}
	program := policyfile.Program{Policies: map[string]middleware.Config{}, Counters: s.counters, Logger: slog.New(slog.DiscardHandler)}
	for policy := range names.Policies {
		program.Policies[policy] = middleware.Config{PageHandler: middleware.Interstitial{}, OnDecision: s.decided, Logger: program.Logger, Now: s.clock}
	}
	set, err := policyfile.Open(file, program)
	if err != nil {
		return err
	}
	s.all = append(s.all, set)
	for policy := range names.Policies {
		s.sets[policy] = set
		handler, plain := s.handler(policy)
		m := set.Middleware(policy)
		handler = m.Handler(handler)
		if !plain {
			handler = s.enter(handler)
		}
		s.mux.Handle("/"+policy, handler)
		s.mux.Handle("/"+policy+"/tally/", s.enter(m.Endpoints()))
	}
	return nil
}

// clock is that of decisions.
func (s *Site) clock() time.Time { return time.Unix(s.now.Load(), 0) }

// A passage is a request on its way to a decision.
type passage struct {
	w     http.ResponseWriter
	leave func()
}

type passageKey struct{}

// enter is in front of a middleware. Of some clients it measures what the middleware and
// the handler have computed: the goroutine is locked to its thread for so long, and the
// kernel says how long that thread has run. So what a flood computes meanwhile on other
// threads is not in it.
func (s *Site) enter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.gate.RLock()
		q := &passage{w: w, leave: sync.OnceFunc(s.gate.RUnlock)}
		defer q.leave()
		w.Header().Set(instance.ProcessHeader, strconv.FormatInt(s.cfg.Process, 10))
		r = r.WithContext(context.WithValue(r.Context(), passageKey{}, q))
		if !strings.HasPrefix(r.Header.Get(instance.ClientHeader), instance.Measured) {
			next.ServeHTTP(w, r)
			return
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		before := computed(thread)
		next.ServeHTTP(w, r)
		took := computed(thread) - before
		s.mu.Lock()
		defer s.mu.Unlock()
		s.state.Computed = append(s.state.Computed, took)
	})
}

// decided tells the lab what a decision was, in a field of the response.
func (s *Site) decided(ctx context.Context, d middleware.Decision) {
	if q, ok := ctx.Value(passageKey{}).(*passage); ok {
		defer q.leave()
		told := instance.Decision{
			Reason: string(d.Reason), Admitted: d.Admitted, Own: d.Own, Room: d.FromWaitingRoom, Degraded: d.Degraded, Call: d.Call,
			Inherited: d.Inherited, At: s.now.Load(), Late: errors.Is(d.TokenErr, token.ErrExpired),
		}
		if d.TokenErr != nil {
			told.TokenErr = d.TokenErr.Error()
		}
		q.w.Header().Set(instance.DecisionHeader, told.String())
	}
	if r, ok := d.Request(); ok && !d.Admitted {
		s.count(r, string(d.Reason))
	}
}

func (s *Site) count(r *http.Request, what string) {
	name := r.Header.Get(instance.ClientHeader)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Counts[name] == nil {
		s.state.Counts[name] = map[string]int64{}
	}
	s.state.Counts[name][what]++
}

// connected counts the connections.
func (s *Site) connected(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.connections.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.connections.Add(-1)
	}
}

// Write takes a line that the server logs: a panic of a handler is one.
func (s *Site) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Logged = append(s.state.Logged, strings.SplitN(string(line), "\n", 2)[0])
	return len(line), nil
}

// back is what the lab sees.
func (s *Site) back() http.Handler {
	mux := http.NewServeMux()
	does := func(what string, do func(r *http.Request) error) {
		mux.HandleFunc("POST /"+what, func(w http.ResponseWriter, r *http.Request) {
			if err := do(r); err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
			}
		})
	}
	does("reload", func(*http.Request) error { return policyfile.Reload(s.all...) })
	does("release", func(*http.Request) error { close(s.release); return nil })
	does("clock", func(r *http.Request) error {
		now, err := strconv.ParseInt(r.FormValue("now"), 10, 64)
		if err == nil {
			s.gate.Lock()
			defer s.gate.Unlock()
			s.now.Store(now)
		}
		return err
	})
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(s.look(r.FormValue("whole") != ""))
	})
	mux.HandleFunc("GET /account", func(w http.ResponseWriter, r *http.Request) { // what is left of it
		address, err := netip.ParseAddr(r.FormValue("address"))
		var v exact.Verdict
		if policy := r.FormValue("policy"); err == nil {
			var call exact.Call
			if call, err = s.sets[policy].Middleware(policy).CallFor(middleware.Address(address)); err == nil {
				v, err = s.counters["shared"].Peek(r.Context(), call)
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		_ = json.NewEncoder(w).Encode(v.Limits[0].Remaining)
	})
	mux.HandleFunc("/"+instance.Proxied, upstream)
	return mux
}

// look is what the instance has seen; and, the whole, what it has used, while no decision is made.
func (s *Site) look(whole bool) instance.State {
	if !whole {
		return instance.State{Connections: s.connections.Load()}
	}
	s.gate.Lock()
	defer s.gate.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	// Twice: what a sync.Pool holds survives one collection.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	state := s.state
	state.Counts = map[string]map[string]int64{}
	for name, counts := range s.state.Counts {
		state.Counts[name] = maps.Clone(counts)
	}
	s.state.Computed, s.state.Logged = nil, nil
	state.CPU, state.Heap, state.Goroutines, state.Connections = computed(syscall.RUSAGE_SELF), m.HeapAlloc, runtime.NumGoroutine(), s.connections.Load()
	state.Life = map[string]int64{}
	for policy, set := range s.sets {
		m := set.Middleware(policy)
		state.Life[policy] = int64(m.Stats().TokenLife / time.Second)
		if m.Stats().Busy {
			state.Busy = append(state.Busy, policy)
		}
	}
	return state
}

// thread has Getrusage speak of the thread that calls it, on Linux; elsewhere it fails.
const thread = 1

// computed returns the time that this process, or this thread, has computed for.
func computed(who int) time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(who, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
