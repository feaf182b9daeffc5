// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/peers"
	"github.com/tallystick/tallystick/middleware/policyfile"
)

// A Site is an instance that serves the policies of a file, with the middleware before them as users mount it, and has a
// door at the back for the lab. Its clock stands where the lab has put it, so that no window ends by itself.
type Site struct {
	cfg     Config
	mux     *http.ServeMux
	set     *policyfile.Set
	counter engine.ArchiveCloser
	group   *peers.Group
	wire    wire
	server  *http.Server
	failed  chan error

	// While a decision is made it holds this for reading, and the clock is not moved. A decision
	// that saw two times could belong to either of two windows, and could not be judged.
	gate sync.RWMutex
	now  atomic.Int64 // Unix seconds

	mu    sync.Mutex
	state State
}

// clock is the clock of decisions.
func (s *Site) clock() time.Time { return time.Unix(s.now.Load(), 0) }

// pace is the clock of what peers tell each other: it goes on, alike on all, while the clock of decisions stands.
func (s *Site) pace() time.Time { return s.clock().Add(time.Since(s.cfg.Began)) }

// ServeHTTP is behind all policies.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.count(r, Admitted)
	if r.URL.Path == "/"+Cached && r.Method == http.MethodGet {
		w.Header().Set("Cache-Control", "public, max-age=3600")
	}
}

func (s *Site) count(r *http.Request, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.count(r.Header.Get(ClientHeader), what, 1)
}

// Write takes a line that the server logs: a panic of a handler is one.
func (s *Site) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Logged = append(s.state.Logged, strings.SplitN(string(line), "\n", 2)[0])
	return len(line), nil
}

// look is what the instance has seen; and, the whole, what it has used, while no decision is made.
func (s *Site) look(whole bool) State {
	if !whole {
		return State{Heard: s.group.Stats().Heard}
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
	state.Counts, state.Took = nil, nil
	state.add(State{Counts: s.state.Counts, Took: s.state.Took})
	state.Heap, state.Goroutines = m.HeapAlloc, runtime.NumGoroutine()
	if s.group != nil {
		state.Waited = s.group.Stats().Waited
	}
	return state
}

// A passage is a request on its way to a decision.
type passage struct {
	w     http.ResponseWriter
	leave func()
	began time.Time
}

type passageKey struct{}

// enter is in front of a middleware.
func (s *Site) enter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.gate.RLock()
		q := &passage{w: w, leave: sync.OnceFunc(s.gate.RUnlock), began: time.Now()}
		defer q.leave()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), passageKey{}, q)))
	})
}

// decided tells the lab what a decision was, in a field of the response.
func (s *Site) decided(ctx context.Context, d middleware.Decision) {
	if q, ok := ctx.Value(passageKey{}).(*passage); ok {
		defer q.leave()
		told := Decision{
			Reason: string(d.Reason), Admitted: d.Admitted, Own: d.Own, Room: d.FromWaitingRoom, Degraded: d.Degraded,
			Inherited: d.Inherited,
		}
		if d.TokenErr != nil {
			told.TokenErr = d.TokenErr.Error()
		}
		q.w.Header().Set(DecisionHeader, told.String())
		if strings.HasPrefix(d.Policy, Hears) {
			s.mu.Lock()
			s.state.Took[int(time.Since(q.began)/time.Millisecond)]++
			s.mu.Unlock()
		}
	}
	if r, ok := d.Request(); ok && !d.Admitted {
		s.count(r, string(d.Reason))
	}
}
