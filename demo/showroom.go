// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// The showroom is the home page: one form, the instances that answer it, the visitor's own
// token, and what the bounds of the README look like from outside.

const (
	showroomPolicy = "showroom"
	addressPolicy  = showroomPolicy + "-address"
	showroomPath   = "/" + showroomPolicy
	showroomCookie = "tallystick-" + showroomPolicy // see InsecureCookie in form
)

// showroomLimits is one limit, so that a token has one number that changes. Its window is
// long, so that nobody watches the count while it begins anew.
var showroomLimits = []middleware.Limit{{Quota: 5, Window: time.Hour}}

// A showroom is what the instances of one process have in common beside the secrets: an
// audience. It takes no part in any decision.
type showroom struct {
	visits    *visits
	streams   streams
	instances int
	limit     atomic.Pointer[middleware.LimitStatus] // the form's, to be told
	now       func() time.Time
	front     http.Handler  // the balancer, for browsers that run no script
	closed    chan struct{} // ends the streams
	close     func()
}

func newShowroom(instances int, now func() time.Time) *showroom {
	closed := make(chan struct{})
	s := &showroom{
		visits: newVisits(maxVisits), instances: instances, now: now,
		streams: streams{most: maxStreams}, closed: closed, close: sync.OnceFunc(func() { close(closed) }),
	}
	s.limit.Store(&middleware.LimitStatus{Limit: showroomLimits[0]})
	return s
}

// mount adds the routes of the showroom, as the instance of this number serves them with its
// limiters: form is that of the form, and every that of an address.
func (s *showroom) mount(mux *http.ServeMux, instance int, form, every *middleware.Middleware) {
	mux.HandleFunc("GET /{$}", s.show)
	mux.HandleFunc("GET "+showroomPath+"/stage", s.stage)
	mux.HandleFunc("GET "+showroomPath+"/events", s.events)
	mux.HandleFunc("GET /showroom.js", serveFile("web/showroom.js"))
	mux.HandleFunc("GET /showroom.css", serveFile("web/showroom.css"))
	mux.Handle("POST "+showroomPath+"/round", every.Handler(http.HandlerFunc(s.round)))
	mux.HandleFunc("POST "+showroomPath+"/twenty", s.twenty) // each of which is limited
	// The audience is outside of both limiters: nothing inside of one can take its fields away.
	mux.Handle("POST "+showroomPath, s.watch(instance, every.Handler(form.Handler(http.HandlerFunc(s.receive)))))
	mux.Handle(tallyPath(showroomPolicy), s.sell(form.Endpoints()))
}

// identify tells who asks in the showroom: an address in one round. A round is a client of its
// own, so that a visitor can begin again, and two behind one address see their own counts.
// Anybody may make up rounds, and with them quotas. That is why each address has a limit
// around this one, see every. A site that is no showroom leaves Identity alone.
func identify(r *http.Request) (middleware.Identity, error) {
	id, err := middleware.PeerAddress(r)
	if err != nil {
		return id, err
	}
	return id.For(roundOf(r).String()), nil
}

// A step is one request of a round, until its outcome is known.
type step struct {
	round    round
	instance int
	decision middleware.Decision
	decided  bool
	settled  bool
}

type stepKey struct{}

// noteDecision is Config.OnDecision of the showroom's policy.
func noteDecision(ctx context.Context, d middleware.Decision) {
	if s, ok := ctx.Value(stepKey{}).(*step); ok {
		s.decision, s.decided = d, true
	}
}

// watch has the audience see what becomes of a request. In a round that throws its tokens away
// it takes the token out of the request and out of the answer: so does a browser that keeps none.
func (s *showroom) watch(instance int, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		st := &step{round: roundOf(r), instance: instance}
		r = r.WithContext(context.WithValue(r.Context(), stepKey{}, st))
		if st.round.thrown {
			r.Header = r.Header.Clone()
			r.Header.Del(middleware.TokenHeader)
			setCookies(r, slices.DeleteFunc(r.Cookies(), func(c *http.Cookie) bool { return ofShowroom(c.Name) }))
		}
		next.ServeHTTP(&watched{ResponseWriter: w, before: func(int) {
			s.settle(st, w.Header())
			if st.round.thrown {
				dropToken(w.Header())
			}
		}}, r)
	})
}

// settle notes the outcome, once: the page of a refusal shows it before it is sent.
func (s *showroom) settle(st *step, h http.Header) {
	if st.settled || !st.decided || st.round.id == "" {
		return
	}
	st.settled = true
	s.visits.of(st.round).add(st, h.Get(middleware.TokenHeader), s.now())
}

// ofShowroom reports whether a cookie has that name, or is of one of the things that the showroom
// limits by itself: its rounds.
func ofShowroom(name string) bool {
	return name == showroomCookie || strings.HasPrefix(name, showroomCookie+".for.")
}

// dropToken takes the token out of an answer.
func dropToken(h http.Header) {
	h.Del(middleware.TokenHeader)
	kept := h["Set-Cookie"][:0:0]
	for _, line := range h["Set-Cookie"] {
		if name, _, _ := strings.Cut(line, "="); !ofShowroom(name) {
			kept = append(kept, line)
		}
	}
	h["Set-Cookie"] = kept
	if len(kept) == 0 {
		h.Del("Set-Cookie")
	}
}

// receive is the handler behind the limiter.
func (s *showroom) receive(w http.ResponseWriter, r *http.Request) {
	f, next := new(contact), "/#stage"
	if roundOf(r).id == "" { // whose steps nobody has noted
		next = "/accepted"
	}
	answerForm(w, r, f, next, func(p *problem) {
		s.settleFor(w, r)
		s.write(w, r, p.Status, page{Title: "Please check the form", Contact: *f, ContactProblems: p.Errors})
	})
}

// refuse is Config.PageHandler of the showroom's policy: the same page, with what happened.
func (s *showroom) refuse(w http.ResponseWriter, r *http.Request) {
	d, _ := middleware.FromContext(r.Context())
	s.settleFor(w, r)
	p := page{Title: "Refused", Contact: prefilled}
	s.write(w, r, d.Status, p)
}

func (s *showroom) settleFor(w http.ResponseWriter, r *http.Request) {
	if st, ok := r.Context().Value(stepKey{}).(*step); ok {
		s.settle(st, w.Header())
	}
}

// sell notes the tallies that are bought at the endpoints.
func (s *showroom) sell(endpoints http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		round := roundOf(r)
		if r.Method == http.MethodPost && round.id != "" {
			h := w.Header()
			w = &watched{ResponseWriter: w, before: func(status int) {
				if token := h.Get(middleware.TokenHeader); status == http.StatusOK && token != "" {
					s.visits.of(round).bought(round, token)
				}
			}}
		}
		endpoints.ServeHTTP(w, r)
	})
}

// round begins a new round, as the form says: kept, thrown, or all again.
func (s *showroom) round(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	now := roundOf(r)
	if now.id == "" {
		now = newRound()
	}
	next := round{id: now.id, turn: now.turn + 1, thrown: r.FormValue("token") == "thrown"}
	http.SetCookie(w, next.cookie())
	// The token of the round before is of no use to this one, and is really thrown away.
	for _, c := range r.Cookies() {
		if ofShowroom(c.Name) {
			http.SetCookie(w, &http.Cookie{Name: c.Name, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode})
		}
	}
	s.visits.of(next).begin(next, r.FormValue("token") == "again")
	if wantsHTML(r) {
		http.Redirect(w, r, "/#stage", http.StatusSeeOther)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// announce has the page tell of the limit that is in force, whatever said so: it asks the
// limiter, at no cost.
func (s *showroom) announce(form *middleware.Middleware) {
	peek := &step{}
	r := (&http.Request{Method: http.MethodPost, URL: &url.URL{Path: showroomPath}, RemoteAddr: "127.0.0.1:1", Header: http.Header{}}).
		WithContext(context.WithValue(context.Background(), stepKey{}, peek))
	form.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(&discarded{header: http.Header{}}, r)
	if limits := peek.decision.Limits(); len(limits) > 0 {
		s.limit.Store(&limits[0])
	}
}

// form returns the policy of the showroom's form.
func (s *showroom) form(o options) middleware.Config {
	challenge := o.challenge(showroomPolicy, middleware.WhenExhausted)
	challenge.BindOwn = true // to the round, as all else here
	challenge.WaitingRoom, challenge.NoWaitingRoom = 0, true
	cfg := o.form(route{policy: showroomPolicy, limits: showroomLimits, challenge: challenge})
	cfg.Identity = identify
	cfg.PageHandler = http.HandlerFunc(s.refuse)
	cfg.OnDecision = func(ctx context.Context, d middleware.Decision) {
		noteDecision(ctx, d)
		if d.Cost > 0 { // not announce
			o.counted.note(d)
		}
	}
	cfg.Cost = func(r *http.Request) int64 {
		if st, ok := r.Context().Value(stepKey{}).(*step); ok && st.instance == 0 {
			return 0 // announce
		}
		return 1
	}
	return cfg
}

// every is the limit of an address, whatever rounds it makes up. It has no token to
// show: memory alone counts.
func (o options) every() middleware.Config {
	return middleware.Config{
		Policy:         addressPolicy,
		Limits:         []middleware.Limit{{Quota: 600, Window: time.Minute}},
		MaxClients:     4096,
		Quiet:          true,
		TokenTransport: middleware.MemoryOnly,
		Logger:         o.log,
		Now:            o.now,
	}
}
