// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel/attribute"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/keptform"
	"github.com/tallystick/tallystick/middleware/otel"
	"github.com/tallystick/tallystick/middleware/policyfile"
)

// A site is one instance: a handler, and the limiters in it.
type site struct {
	http.Handler
	limits map[string]*middleware.Middleware // by policy
	file   *policyfile.Set                   // says how they are; nil: the program does
}

// newSite returns the instance of this number, with limiters of its own, a counter
// that it shares, and the home page.
func newSite(o options, number int, secrets [][]byte, counter exact.Counter, home *home) (*site, error) {
	o.log = cmp.Or(o.limits, o.log).With("instance", number) // which is a machine of its own, as far as its limiters know
	paid, err := o.quote(counter)
	if err != nil {
		return nil, err
	}
	// All instances are in one process: so their metrics have the number.
	watch, err := otel.New(o.metrics.provider, attribute.String("demo.instance", strconv.Itoa(number)))
	if err != nil {
		return nil, err
	}
	forms, own := forms(o), []middleware.Config{paid}
	for _, f := range forms {
		own = append(own, o.form(f))
	}
	program := policyfile.Program{Policies: map[string]middleware.Config{}, Logger: o.log}
	for _, cfg := range own {
		cfg.Secrets, cfg.Instances = secrets, int64(o.instances)
		cfg.OnDecision = func(ctx context.Context, d middleware.Decision) {
			watch.OnDecision(ctx, d)
			o.metrics.refusals.OnDecision(ctx, d)
		}
		program.Policies[cfg.Policy] = cfg
	}
	s := &site{limits: map[string]*middleware.Middleware{}}
	if err := s.open(o.policyFile, program); err != nil {
		return nil, err
	}
	for _, limit := range s.limits {
		if _, err := watch.Observe(limit); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", home.show)
	mux.HandleFunc("GET /attack", home.attack)
	mux.HandleFunc("GET /forms", shows("forms", page{Title: "Four forms", Forms: forms}))
	mux.HandleFunc("GET /accepted", shows("accepted", page{Title: "Accepted"}))
	for _, name := range []string{"style.css", "home.css", "home.js", "tallies.js", "icon.svg"} {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, web, "web/"+name) })
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	for i, f := range forms {
		limit := s.limits[f.Policy]
		mux.Handle("POST /"+f.Policy, limit.Handler(receive(forms, i)))
		if f.Challenge != nil {
			mux.Handle(tallyPath(f.Policy), limit.Endpoints())
		}
	}
	mux.Handle("GET /api/quote", s.limits["api"].Handler(http.HandlerFunc(quote)))

	// Outside of the limiters: a form that another site sends in a visitor's
	// name is refused before it can spend that visitor's quota.
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(refuseForeign))
	inner := origin.Handler(mux)
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		inner.ServeHTTP(w, r)
	})
	return s, nil
}

// open makes the limiters as the program has them or, if there is a policy file, as that says.
func (s *site) open(policyFile string, program policyfile.Program) (err error) {
	if policyFile != "" {
		if s.file, err = policyfile.Open(policyFile, program); err != nil {
			return err
		}
	}
	var errs []error
	for _, policy := range slices.Sorted(maps.Keys(program.Policies)) {
		if s.file != nil {
			s.limits[policy] = s.file.Middleware(policy)
			continue
		}
		limit, err := middleware.New(program.Policies[policy])
		s.limits[policy], errs = limit, append(errs, err)
	}
	return errors.Join(errs...)
}

// form returns the policy of a form. Identity is left at its default, the address of the peer.
func (o options) form(f form) middleware.Config {
	// The built-in page is plain; people get one in the site's own look. Scripts
	// get the built-in problem details.
	page := http.Handler(http.HandlerFunc(showRefusal))
	if f.Challenge != nil {
		// A form is kept in a page that sends it again, after work or a wait.
		page = keptform.Handler{Page: page}
	}
	return middleware.Config{
		Policy:    f.Policy,
		Limits:    f.limits,
		Challenge: f.Challenge,
		// The token is always a header too, where it is easy to watch.
		// The demo speaks plain HTTP, where browsers store no Secure cookie.
		// A real site leaves this out.
		Advanced:    middleware.Advanced{InsecureCookie: true},
		PageHandler: page,
		Logger:      o.log,
		Now:         o.now,
	}
}
