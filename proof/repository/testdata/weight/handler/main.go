// SPDX-License-Identifier: Apache-2.0

// A contact form for a platform that brings its own server, as WebAssembly runtimes do: the
// program hands it a handler.
package main

import (
	"log"
	"net/http"
	"os"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// platform stands for an adapter's serve function.
type platform struct{ header http.Header }

func (p platform) Header() http.Header         { return p.header }
func (p platform) Write(b []byte) (int, error) { return os.Stdout.Write(b) }
func (p platform) WriteHeader(int)             {}

func main() {
	limit, err := middleware.New(middleware.Config{
		Policy:    "contact",
		Limits:    []middleware.Limit{{Quota: 5, Window: time.Minute}},
		Secrets:   [][]byte{[]byte(os.Getenv("SECRET"))},
		Challenge: &middleware.Challenge{Path: "/tally/"},
	})
	if err != nil {
		log.Fatal(err)
	}
	contact := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	mux := http.NewServeMux()
	mux.Handle("POST /contact", limit.Handler(http.HandlerFunc(contact)))
	mux.Handle("/tally/", limit.Endpoints())
	request, err := http.NewRequest(http.MethodPost, "https://example.com/contact", nil)
	if err != nil {
		log.Fatal(err)
	}
	mux.ServeHTTP(platform{http.Header{}}, request)
}
