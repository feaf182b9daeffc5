// SPDX-License-Identifier: Apache-2.0

// Command refusals shows which clients are refused, at an address that only its own machine reaches. The documentation prints parts
// of it, in docs/recipes.md.
//
// What bites: each look at the page writes what was counted since the last into the log. It tells an attacker what works, so it has a port of
// its own. Each instance shows its own refusals.
package main

import (
	"log"
	"net/http"
	"os"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/refusallog"
)

func main() {
	refused := newPage(refusallog.Config{Top: 20}, os.Stderr)
	limit, err := middleware.New(middleware.Config{
		Policy:     "contact",
		Limits:     []middleware.Limit{{Quota: 5, Window: time.Minute}},
		Secrets:    [][]byte{[]byte(os.Getenv("TALLYSTICK_SECRET"))}, // the same on every instance
		OnDecision: refused.refusals.OnDecision,
	})
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(http.ListenAndServe("127.0.0.1:6060", refused.Handler(limit))) }()
	log.Fatal(http.ListenAndServe(":8080", limit.Handler(http.FileServer(http.Dir("public")))))
}
