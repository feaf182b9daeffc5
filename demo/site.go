// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// routes are the site's forms, one for each way to ask for work.
func routes(o options) []route {
	return []route{
		{"contact", func() form { return new(contact) },
			[]middleware.Limit{{Quota: 5, Window: time.Minute}, {Quota: 50, Window: 24 * time.Hour}},
			o.challenge("contact", middleware.WhenExhausted)},
		{"newsletter", func() form { return new(newsletter) },
			[]middleware.Limit{{Quota: 10, Window: time.Minute}},
			nil},
		{"signup", func() form { return new(signup) },
			[]middleware.Limit{{Quota: 3, Window: 10 * time.Minute}},
			o.challenge("signup", middleware.Newcomers)},
		{"feedback", func() form { return new(feedback) },
			[]middleware.Limit{{Quota: 20, Window: time.Hour}},
			o.challenge("feedback", middleware.EveryRequest)},
	}
}

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
	forms := routes(o)
	configs := []middleware.Config{paid}
	for _, to := range forms {
		configs = append(configs, o.form(to))
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
	mux.HandleFunc("GET /forms", showForms)
	mux.HandleFunc("GET /accepted", showAccepted)
	for _, name := range []string{"style.css", "home.css", "home.js", "tallies.js", "icon.svg"} {
		mux.HandleFunc("GET /"+name, serveFile("web/"+name))
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	for _, to := range forms {
		limit := limits.of[to.policy]
		mux.Handle("POST /"+to.policy, limit.Handler(receive(to.form)))
		if to.challenge != nil {
			mux.Handle(tallyPath(to.policy), limit.Endpoints())
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
