package middleware

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/tallystick/tallystick/storeless"
)

// A Middleware limits the handlers it wraps by one policy. Make it with [New].
// It is safe for concurrent use.
type Middleware struct {
	engine atomic.Pointer[engine]

	mu       sync.Mutex // guards the rest, which only Reconfigure changes
	memory   *storeless.Memory
	families int
}

// New returns a middleware, or all that is wrong with cfg: a joined error of one
// [ConfigError] for each problem.
func New(cfg Config) (*Middleware, error) {
	m := new(Middleware)
	if err := m.Reconfigure(cfg); err != nil {
		return nil, err
	}
	return m, nil
}

// Reconfigure replaces the whole configuration while requests are served: those
// under way keep the old one. What was counted stays: the memory is kept, and
// tokens say what was used, whatever the quota is now. If cfg is faulty nothing
// changes. Families cannot change, because the memory cannot.
func (m *Middleware) Reconfigure(cfg Config) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := compile(cfg)
	families := withDefaults(cfg).Families
	if !cfg.InsecureNoMemory && m.memory != nil && m.families != families {
		err = errors.Join(err, &ConfigError{Field: "Families", Problem: fmt.Sprintf("is %d and cannot change while serving", m.families)})
	}
	if err != nil {
		return err
	}
	if !cfg.InsecureNoMemory {
		if m.memory == nil {
			m.memory = storeless.NewMemory(families, e.base.policy.Len())
			m.families = families
		}
		e.memory = m.memory
	}
	m.engine.Store(e)
	return nil
}

// Saturations returns how many admitted requests the memory had no room for.
func (m *Middleware) Saturations() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.memory == nil {
		return 0
	}
	return m.memory.Saturations()
}

// Handler returns a handler that limits next. One Middleware may wrap any number
// of handlers: they share the policy and its counts.
//
// It belongs inside of whatever must see every request, such as CORS, logging
// and http.CrossOriginProtection, and outside of http.TimeoutHandler, which
// would throw the token away. The request is charged before next runs, whatever
// becomes of it.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.engine.Load().serve(w, r, next)
	})
}

func (e *engine) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if preflight(r) || e.skip != nil && e.skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	x := &exchange{Context: r.Context()}
	denial := e.decide(x, r, e.now())
	if outer, ok := x.Context.Value(exchangeKey{}).(*exchange); ok {
		x.fields.within(&outer.fields)
	}
	d := &x.decision
	// A denial is obeyed even in shadow mode: it may be what guards the door.
	d.Allowed = d.Admitted || e.shadow && denial == nil
	r = r.WithContext(x)
	if e.onDecision != nil {
		e.onDecision(r, *d)
	}
	switch {
	case !d.Allowed:
		x.fields.set(w.Header())
		e.refuse(w, r, x, denial)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		// Their responses may be cached, and are made by handlers that tidy
		// the header: the fields are set when it is written. Not before, too,
		// because a no-store of ours would hide what the handler wants cached:
		// ReverseProxy adds the upstream's Cache-Control to what is there.
		guard, wrapped := wrap(w, &x.fields)
		defer guard.settle() // wrote nothing, or panicked: the fields are for whoever recovers
		next.ServeHTTP(wrapped, r)
	default:
		x.fields.set(w.Header())
		next.ServeHTTP(w, r)
	}
}
