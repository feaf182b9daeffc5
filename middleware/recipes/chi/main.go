// SPDX-License-Identifier: Apache-2.0

// Command chi serves a site that chi routes, with one route limited. chi needs no adapter. The
// documentation prints parts of it, in docs/recipes.md.
//
// What bites: middleware of r.Use, also in a Route, runs before chi has found the route, so that
// Config.Cost sees no whole r.Pattern there, and requests for nothing are charged. Middleware of
// r.With, or of Use in a Group, runs after that.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/tallystick/tallystick/middleware"
)

func main() {
	cfg := config()
	cfg.Secrets = [][]byte{[]byte(os.Getenv("TALLYSTICK_SECRET"))} // the same on every instance
	limit, err := middleware.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(":8080", routes(limit)))
}

func config() middleware.Config {
	return middleware.Config{
		Policy: "site",
		Limits: []middleware.Limit{{Quota: 20, Window: time.Minute}},
		Cost: func(r *http.Request) int64 {
			if r.Pattern == "/reports/{id}" {
				return 5
			}
			return 1
		},
	}
}

func routes(limit *middleware.Middleware) http.Handler {
	r := chi.NewRouter()
	r.Get("/", say("not limited"))
	r.With(limit.Handler).Post("/contact", say("Thank you."))
	r.With(limit.Handler).Get("/reports/{id}", say("a report"))
	r.Method(http.MethodPost, "/reports", limit.HandlerCost(5, say("a new report")))
	return r
}

func say(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}
