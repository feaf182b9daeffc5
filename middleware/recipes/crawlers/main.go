// SPDX-License-Identifier: Apache-2.0

// Command crawlers has search engines pass the limit of visitors, where DNS proves whose an address is: the name of the address is
// in the operator's domain, and leads back to the address. Each crawler has a tally of its own. Beyond it, it is a visitor. The
// documentation prints parts of it, in docs/recipes.md.
//
// What bites: any client can say that it is Googlebot, and has you ask DNS, once an hour for each of its addresses. One
// such question is under way at a time, for half a second at most. A crawler that comes meanwhile is a visitor until its next request.
package main

import (
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

func main() {
	visitors := middleware.Config{
		Policy:   "visitors",
		Limits:   []middleware.Limit{{Quota: 60, Window: time.Minute}},
		Secrets:  [][]byte{[]byte(os.Getenv("TALLYSTICK_SECRET"))}, // the same on every instance
		Identity: middleware.PeerAddress,
	}
	h, err := site(visitors, &net.Resolver{}, http.FileServer(http.Dir("public")))
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(":8080", h))
}

func site(visitors middleware.Config, resolver *net.Resolver, pages http.Handler) (http.Handler, error) {
	limit, err := middleware.New(middleware.Config{
		Policy:  "crawlers",
		Limits:  []middleware.Limit{{Quota: 600, Window: time.Minute}},
		Secrets: visitors.Secrets,
		Now:     visitors.Now,
	})
	if err != nil {
		return nil, err
	}
	proven := &crawlers{limit: limit, identity: visitors.Identity, resolver: resolver}
	visitors.Skip = proven.skip
	visited, err := middleware.New(visitors)
	if err != nil {
		return nil, err
	}
	return visited.Handler(pages), nil
}
