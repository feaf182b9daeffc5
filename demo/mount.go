// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

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
