// SPDX-License-Identifier: Apache-2.0

// A contact form with most of what middleware has: challenges and their endpoints, a
// proxy's address, an exact counter.
package main

import (
	"log"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

func main() {
	from, err := middleware.ForwardedFor(netip.MustParsePrefix("10.0.0.0/8"))
	if err != nil {
		log.Fatal(err)
	}
	limit, err := middleware.New(middleware.Config{
		Policy:    "contact",
		Limits:    []middleware.Limit{{Quota: 5, Window: time.Minute}},
		Secrets:   [][]byte{[]byte(os.Getenv("SECRET"))},
		Identity:  from,
		Challenge: &middleware.Challenge{Path: "/tally/"},
	})
	if err != nil {
		log.Fatal(err)
	}
	contact := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	http.Handle("POST /contact", limit.Handler(http.HandlerFunc(contact)))
	http.Handle("/tally/", limit.Endpoints())
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil))
}
