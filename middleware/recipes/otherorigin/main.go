// SPDX-License-Identifier: Apache-2.0

// Command otherorigin is an API that pages of another origin call. The documentation prints parts of it, in
// docs/recipes.md.
//
// What bites: CORS belongs outside of the limiter. Inside of it a refusal has no
// Access-Control-Allow-Origin, and the page sees a network error in place of 429 and Retry-After. Without the two lists a script neither
// may send a token nor sees one. Cookies of another origin need AllowCredentials; the header does not.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/rs/cors"

	"github.com/tallystick/tallystick/middleware"
)

func main() {
	limit, err := middleware.New(middleware.Config{
		Policy:         "api",
		Limits:         []middleware.Limit{{Quota: 60, Window: time.Minute}},
		Secrets:        [][]byte{[]byte(os.Getenv("TALLYSTICK_SECRET"))}, // the same on every instance
		TokenTransport: middleware.HeaderOnly,
	})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(":8080", api(limit)))
}

func api(limit *middleware.Middleware) http.Handler {
	allow := cors.New(cors.Options{
		AllowedOrigins: []string{"https://app.example"},
		AllowedMethods: []string{http.MethodGet, http.MethodPost},
		AllowedHeaders: append(middleware.CORSAllowHeaders(), "Content-Type"),
		ExposedHeaders: middleware.CORSExposeHeaders(),
	})
	mux := http.NewServeMux()
	mux.Handle("/quote", limit.Handler(http.HandlerFunc(quote)))
	return allow.Handler(mux)
}

func quote(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "Counting is the beginning of trade.")
}
