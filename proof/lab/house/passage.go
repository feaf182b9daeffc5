// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware"
)

// A passage is a request on its way to a decision.
type passage struct {
	w     http.ResponseWriter
	leave func()
	began time.Time
}

type passageKey struct{}

// enter is in front of a middleware. Of some clients it measures what the middleware and
// the handler have computed: the goroutine is locked to its thread for so long, and the
// kernel says how long that thread has run. So what a flood computes meanwhile on other
// threads is not in it.
func (s *Site) enter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.gate.RLock()
		q := &passage{w: w, leave: sync.OnceFunc(s.gate.RUnlock), began: time.Now()}
		defer q.leave()
		r = r.WithContext(context.WithValue(r.Context(), passageKey{}, q))
		if !strings.HasPrefix(r.Header.Get(ClientHeader), Measured) {
			next.ServeHTTP(w, r)
			return
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		before := Computed(thread)
		next.ServeHTTP(w, r)
		took := Computed(thread) - before
		s.mu.Lock()
		defer s.mu.Unlock()
		s.state.Computed = append(s.state.Computed, took)
	})
}

// decided tells the lab what a decision was, in a field of the response.
func (s *Site) decided(ctx context.Context, d middleware.Decision) {
	if q, ok := ctx.Value(passageKey{}).(*passage); ok {
		defer q.leave()
		told := Decision{
			Reason: string(d.Reason), Admitted: d.Admitted, Own: d.Own, Room: d.FromWaitingRoom, Degraded: d.Degraded, Call: d.Call,
			Inherited: d.Inherited, Place: s.cfg.Place, At: s.now.Load(), Late: errors.Is(d.TokenErr, token.ErrExpired),
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
