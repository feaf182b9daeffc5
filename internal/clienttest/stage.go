// SPDX-License-Identifier: Apache-2.0

package clienttest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// A scene is one case: what is set up, and what happens.
type scene struct {
	name, about string
	method      string // POST if ""
	calls       int
	hopeless    bool // no client gets through
	set         func(*stage) error
	before      func(s *stage, send int, v *visit) // the send is answered, counted from 1; nil: nothing happens
	cut         int                                // the send whose connection is cut, after the request was decided; 0: none
	redirect    int                                // the send that is redirected to another origin; 0: none
	away        func(s *stage) bool                // the identity function cannot tell now; nil: it can
	thing       func(call int) string              // what is asked for; nil: one thing
}

// A stage is a scene that is played.
type stage struct {
	scene
	real func() time.Time // by which the client lives

	mu       sync.Mutex
	home     string    // the host of the first request
	now      time.Time // of the middlewares: it stands still, but for waits and what happens
	judge    judge
	policies map[string]bool
	inner    *middleware.Middleware // the one of most scenes
	handler  http.Handler
	decided  middleware.Decision
}

func newStage(s scene, realTime func() time.Time) (*stage, error) {
	st := &stage{scene: s, real: realTime, policies: make(map[string]bool), judge: judge{newest: make(map[of]windowToken)}}
	// Clients drop tokens that have expired, by their own clock.
	st.now = realTime().Truncate(time.Second)
	st.handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done\n") })
	if err := s.set(st); err != nil {
		return nil, fmt.Errorf("clienttest: %s: %w", s.name, err)
	}
	return st, nil
}

// limits adds a middleware around what there is.
func (s *stage) limits(cfg middleware.Config) error {
	s.policies[cfg.Policy] = true
	m, err := middleware.New(s.config(cfg))
	if err != nil {
		return err
	}
	s.inner, s.handler = m, m.Handler(s.handler)
	return nil
}

// client is the address of all clients: proxies are tested elsewhere.
var client = netip.AddrFrom4([4]byte{192, 0, 2, 1})

// config fills in what all policies have.
func (s *stage) config(cfg middleware.Config) middleware.Config {
	cfg.Now = func() time.Time { return s.now }
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.InsecureCookie = true // this is plain HTTP
	cfg.MaxClients = cmp.Or(cfg.MaxClients, 1024)
	cfg.Identity = func(r *http.Request) (middleware.Identity, error) {
		addr, err := netip.ParseAddr(r.Header.Get(others))
		if err != nil {
			addr = client
		}
		if s.away != nil && s.away(s) {
			return middleware.Identity{}, middleware.ErrIdentityUnavailable
		}
		id := middleware.Address(addr)
		if last := s.judge.last(); last != nil {
			id = id.For(last.thing)
		}
		return id, nil
	}
	cfg.OnDecision = func(_ context.Context, d middleware.Decision) {
		if s.decided.Admitted || s.decided.Policy == "" {
			s.decided = d // the refusal counts
		}
	}
	return cfg
}

// others is the field by which a script speaks for other clients. A client that sends it
// fools only itself.
const others = "X-Clienttest-Address"

// other sends a request of another client, and returns what it is answered.
func (s *stage) other(addr netip.Addr, proof string) *http.Response {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set(others, addr.String())
	if proof != "" {
		r.Header.Set(middleware.ProofHeader, proof)
	}
	w := httptest.NewRecorder()
	s.inner.Handler(http.NotFoundHandler()).ServeHTTP(w, r)
	return w.Result()
}

// serve plays one send. It returns nil where the connection is to be cut.
func (s *stage) serve(r *http.Request, call int) (*http.Response, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, 1<<16))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := arrival(r, call, string(body), s.real())
	if s.thing != nil {
		v.thing = s.thing(call)
	}
	s.home = cmp.Or(s.home, r.Host)
	v.elsewhere = r.Host != s.home
	if last := s.judge.last(); last != nil && last.refused() && waited(last, v.at) {
		s.now = s.now.Add(time.Duration(last.retryAfter) * time.Second)
	}
	s.judge.arrive(v)
	send := len(s.judge.visits)
	if s.before != nil {
		s.before(s, send, v)
	}
	w := httptest.NewRecorder()
	switch {
	case v.elsewhere:
		_, _ = io.WriteString(w, "done elsewhere\n")
	case send == s.redirect:
		http.Redirect(w, r, origin(r, true)+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	default:
		s.decided = middleware.Decision{}
		s.handler.ServeHTTP(w, r)
		v.reason, v.proofError = s.decided.Reason, s.decided.Proof
	}
	if send == s.cut {
		return nil, nil
	}
	resp := w.Result()
	v.answer(resp, s.real())
	s.judge.leave(v)
	return resp, nil
}

// origin returns the origin that a request was sent to, or another one that leads here too:
// a name is another origin than its address.
func origin(r *http.Request, another bool) string {
	scheme, host := "http://", r.Host
	if r.TLS != nil {
		scheme = "https://"
	}
	if another {
		host = otherHost(host)
	}
	return scheme + host
}

const loopback, loopbackName = "127.0.0.1", "localhost"

func otherHost(host string) string {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	switch _, err := netip.ParseAddr(name); {
	case err == nil:
		name = loopbackName
	case name == loopbackName:
		name = loopback
	default:
		name = "other." + name
	}
	if port == "" {
		return name
	}
	return net.JoinHostPort(name, port)
}
