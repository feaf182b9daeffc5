// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"net/http"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// A site is one instance: a handler, and the limiters in it.
type site struct {
	http.Handler
	*limiters
}

// newSite returns the instance of this number, with limiters of its own, a counter
// that it shares, and the home page.
func newSite(o options, number int, secrets [][]byte, counter exact.Counter, home *home) (*site, error) {
	o.log = cmp.Or(o.limits, o.log).With("instance", number) // which is a machine of its own, as far as its limiters know
	paid, err := o.quote(counter)
	if err != nil {
		return nil, err
	}
	forms := forms(o)
	configs := []middleware.Config{paid}
	for _, f := range forms {
		configs = append(configs, o.form(f))
	}
	watch, err := o.metrics.instance(number)
	if err != nil {
		return nil, err
	}
	limits, err := newLimiters(o, secrets, configs, watch)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /forms", shows("forms", page{Title: "Four forms", Forms: forms}))
	mux.HandleFunc("GET /accepted", shows("accepted", page{Title: "Accepted"}))
	for _, name := range []string{"style.css", "home.css", "home.js", "tallies.js", "icon.svg"} {
		mux.HandleFunc("GET /"+name, serveFile("web/"+name))
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	for i, f := range forms {
		limit := limits.of[f.Policy]
		mux.Handle("POST /"+f.Policy, limit.Handler(receive(forms, i)))
		if f.Challenge != nil {
			mux.Handle(tallyPath(f.Policy), limit.Endpoints())
		}
	}
	mux.HandleFunc("GET /{$}", home.show)
	mux.HandleFunc("GET /attack", home.attack)
	mux.Handle("GET /api/quote", limits.of["api"].Handler(http.HandlerFunc(quote)))

	// Outside of the limiters: a form that another site sends in a visitor's
	// name is refused before it can spend that visitor's quota.
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(refuseForeign))
	return &site{secured(origin.Handler(mux)), limits}, nil
}

// secured sets what every response should have.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}
