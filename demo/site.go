package main

import (
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// newSite returns one instance of the site, with limiters of its own.
func newSite(o options, secrets [][]byte) (http.Handler, error) {
	limitContact, err := newLimit(o, secrets, "contact",
		middleware.Limit{Quota: 5, Window: time.Minute},
		middleware.Limit{Quota: 50, Window: 24 * time.Hour})
	if err != nil {
		return nil, err
	}
	limitNewsletter, err := newLimit(o, secrets, "newsletter",
		middleware.Limit{Quota: 10, Window: time.Minute})
	if err != nil {
		return nil, err
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", showForms)
	mux.HandleFunc("GET /accepted", showAccepted)
	mux.HandleFunc("GET /style.css", serveFile("web/style.css"))
	mux.HandleFunc("GET /icon.svg", serveFile("web/icon.svg"))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.Handle("POST /contact", limitContact.Handler(receive(func() form { return new(contact) })))
	mux.Handle("POST /newsletter", limitNewsletter.Handler(receive(func() form { return new(newsletter) })))

	// Outside of the limiters: a form that another site sends in a visitor's
	// name is refused before it can spend that visitor's quota.
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(refuseForeign))
	return secured(origin.Handler(mux)), nil
}

// newLimit returns the limiter of one form. Identity is left at its default,
// the address of the peer.
func newLimit(o options, secrets [][]byte, policy string, limits ...middleware.Limit) (*middleware.Middleware, error) {
	return middleware.New(middleware.Config{
		Policy:  policy,
		Limits:  limits,
		Secrets: secrets,
		// The token is always a header too, where it is easy to watch.
		Carriage: middleware.Both,
		// The demo speaks plain HTTP, where browsers store no Secure cookie.
		// A real site leaves this out.
		InsecureCookie: true,
		// The built-in answer is plain; this site wants its own look. A real
		// site may leave this out, too.
		Refused: http.HandlerFunc(refuse),
		Logger:  o.log,
		Now:     o.now,
	})
}

// secured sets what every response should have.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}
