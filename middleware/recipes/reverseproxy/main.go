// SPDX-License-Identifier: Apache-2.0

// Command reverseproxy limits what goes to an upstream. The documentation prints parts of it, in docs/recipes.md.
//
// What bites: an upstream that limits too sends fields of the same names, which tell of the
// proxy's quota there and not of the client's. Unless they are taken out, X-RateLimit fields reach
// the client as the upstream sent them, and RateLimit stands beside ours in answers to POST.
// Rewrite drops the client's X-Forwarded-For; SetXForwarded sends the peer's. A request that the upstream does
// not answer has been charged: Refund gives it back.
package main

import (
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

func main() {
	upstream, err := url.Parse("http://localhost:9000")
	if err != nil {
		log.Fatal(err)
	}
	limit, err := middleware.New(middleware.Config{
		Policy:      "api",
		Limits:      []middleware.Limit{{Quota: 100, Window: time.Minute}},
		Secrets:     [][]byte{[]byte(os.Getenv("TALLYSTICK_SECRET"))}, // the same on every instance
		Concurrency: &middleware.Concurrency{Max: 4, CancelHeld: true},
	})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(":8080", limit.Handler(proxy(upstream))))
}

func proxy(upstream *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(upstream)
			r.SetXForwarded()
			r.Out.Header.Del(middleware.TokenHeader) // none of the upstream's business
		},
		ModifyResponse: func(r *http.Response) error {
			for name := range r.Header { // they tell of our quota there
				if strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name, "Ratelimit") {
					r.Header.Del(name)
				}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil { // the upstream's fault, and not the client's
				_ = middleware.Refund(w, r)
			}
			http.Error(w, "The upstream does not answer.", http.StatusBadGateway)
		},
	}
}
