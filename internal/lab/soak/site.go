// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strconv"
	"strings"

	"github.com/tallystick/tallystick/internal/lab/judge"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/token"
)

// The fields that only the soak knows.
const (
	nameField     = "Soak-Client"   // who is asking: its kind, and a number
	decisionField = "Soak-Decision" // why, and what the counter said
	partField     = "Soak-Charged"  // what was charged
)

// A site is one instance: a server on loopback with middlewares of its own.
type site struct {
	url    string
	addr   string
	limits map[string]*middleware.Middleware
	server *http.Server
	ended  chan struct{}
}

// openSite starts an instance.
func (w *world) openSite(i int) (*site, error) {
	s := &site{limits: map[string]*middleware.Middleware{}, ended: make(chan struct{})}
	mux := http.NewServeMux()
	for _, policy := range policies {
		ring := w.short
		if exact(policy) {
			ring = w.long
		}
		m, err := middleware.New(w.configure(policy, i, 0, ring.secrets))
		if err != nil {
			return nil, err
		}
		s.limits[policy] = m
		mux.Handle("/"+policy, w.enter(i, policy, m.Handler(w.serve(i, policy))))
		if sells(policy) {
			mux.Handle("/"+policy+"/tally/", w.enter(i, policy, m.Endpoints()))
		}
	}
	handler := http.Handler(mux)
	if w.set.wrap != nil {
		handler = w.set.wrap(w, handler)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.addr = l.Addr().String()
	s.url = "http://" + s.addr
	s.server = &http.Server{Handler: handler, ErrorLog: log.New(&w.trouble, "", 0), ConnState: w.connected}
	go func() {
		defer close(s.ended)
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			w.fail(err)
		}
	}()
	return s, nil
}

// connected counts the connections of all instances.
func (w *world) connected(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		w.connections.Add(1)
	case http.StateClosed, http.StateHijacked:
		w.connections.Add(-1)
	}
}

// close ends an instance and all its connections.
func (s *site) close() error {
	err := s.server.Close()
	<-s.ended
	return err
}

// trouble counts the lines that servers log: a panic of a handler is one.
type trouble struct{ lines judge.Complaints }

func (t *trouble) Write(b []byte) (int, error) {
	t.lines.Note(strings.SplitN(string(b), "\n", 2)[0])
	return len(b), nil
}

type request struct {
	*passage
	w        http.ResponseWriter
	name     string
	policy   string
	client   netip.Addr
	during   func() judge.Spread // what the quota was
	standing int64               // see outage
	exact    bool
}

type requestKey struct{}

// enter is in front of a middleware. Of the steady clients it measures what the middleware and
// the handler have computed: the goroutine is locked to its thread for so long, and the
// kernel says how long that thread has run. So what a flood computes meanwhile on other
// threads is not in it.
func (w *world) enter(instance int, policy string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		q := &request{passage: w.clocks.enter(instance), w: rw, name: r.Header.Get(nameField), policy: policy, standing: w.outage.Now(), exact: exact(policy)}
		defer q.leave()
		if of := w.quotas[policy]; of != nil {
			q.during = of.Begin()
		}
		q.client, _ = netip.ParseAddr(r.Header.Get("X-Forwarded-For"))
		if q.exact {
			w.ledgers[policy].begin(q.client)
		}
		r = r.WithContext(context.WithValue(r.Context(), requestKey{}, q))
		if policy != windowed || !strings.HasPrefix(q.name, "steady") {
			next.ServeHTTP(rw, r)
			return
		}
		phase := w.phase()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		before, ok := threadTime()
		next.ServeHTTP(rw, r)
		if after, _ := threadTime(); ok {
			phase.computed.add(after - before)
		}
	})
}

// decided is what every middleware tells of every decision.
func (w *world) decided(ctx context.Context, d middleware.Decision) {
	q, ok := ctx.Value(requestKey{}).(*request)
	if !ok {
		return
	}
	defer q.leave()
	q.w.Header().Set(decisionField, string(d.Reason)+" "+d.Call)
	q.w.Header().Set(partField, string(partOf(d)))
	w.decisions.Add(1)
	if d.TokenErr != nil && honest(q.name) {
		// After a clock was wrong by far the tokens that it has signed may have ended.
		if w.touched.Load() && errors.Is(d.TokenErr, token.ErrExpired) {
			w.explainedTokens.Add(1)
		} else {
			w.tokenErrors.Note(q.name + " on /" + q.policy + ": " + d.TokenErr.Error())
		}
	}
	switch {
	case q.exact:
		w.ledgers[q.policy].decided(d.Identity.Addr(), d, w.outage.Stood(q.standing))
	case d.Admitted:
		w.book.admit(tenant{q.policy, d.Identity.Addr()}, q.name, partOf(d), q.instance, w.clocks.windowOf(q.instance), q.during().Most)
	}
}

// honest reports whether a client is one that does what the documentation says.
func honest(name string) bool {
	kind, _, _ := strings.Cut(name, " ")
	switch kind {
	case "steady", "full", "browser", "buyer", "holder", "newcomer", "waiter", "payer", "body", "probe":
		return true
	}
	return false
}

// serve is the handler behind the limits: it reads the body, and says how long it was.
func (w *world) serve(instance int, policy string) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if policy == slow {
			leave := w.served.enter(r.Header.Get("X-Forwarded-For") + " " + strconv.Itoa(instance))
			defer leave()
			rw.WriteHeader(http.StatusEarlyHints) // a client sees that it was let in
		}
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return // it has hung up
		}
		_, _ = io.WriteString(rw, strconv.FormatInt(n, 10)) // the client notices what is missing
	})
}
