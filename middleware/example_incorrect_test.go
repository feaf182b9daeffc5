// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// Wrong: an identity made of what the client says. A key that the program has not validated is
// whatever a script cares to invent, and so is the first entry of X-Forwarded-For; each new one is
// a new client with a quota of its own. What looks like a limit for each key is no limit at all.
//
// Right: see [middleware.ValidatedKey] and [middleware.ForwardedFor].
func ExampleConfig_incorrectIdentity() {
	limitBy := func(identity middleware.IdentityFunc) http.Handler {
		limit, err := middleware.New(middleware.Config{
			Policy:   "api",
			Limits:   []middleware.Limit{{Quota: 5, Window: time.Minute}},
			Secrets:  [][]byte{exampleSecret},
			Identity: identity,
			Now:      noon,
		})
		if err != nil {
			log.Fatal(err)
		}
		return limit.Handler(contactHandler)
	}
	issued := map[string]bool{"key-17": true}

	wrong := limitBy(func(r *http.Request) (middleware.Identity, error) {
		return middleware.APIKey(r.Header.Get("X-Api-Key")), nil
	})
	right := limitBy(middleware.ValidatedKey(func(r *http.Request) (middleware.Identity, error) {
		if key := r.Header.Get("X-Api-Key"); issued[key] {
			return middleware.APIKey(key), nil
		}
		return middleware.Identity{}, nil // no key: go by address
	}, middleware.PeerAddress))

	attack := func(h http.Handler) (passed int) {
		for i := range 1000 {
			if post(h, "198.51.100.7", "X-Api-Key", fmt.Sprint("invented-", i)).StatusCode == http.StatusOK {
				passed++
			}
		}
		return passed
	}
	fmt.Println("wrong:", attack(wrong), "of 1000 pass")
	fmt.Println("right:", attack(right), "of 1000 pass")

	// Output:
	// wrong: 1000 of 1000 pass
	// right: 5 of 1000 pass
}

// Wrong: http.TimeoutHandler outside of the limiter. It throws away the header
// of a handler that is too slow, and with it the token: the request is counted
// in this instance's memory, but the client cannot tell the next instance.
//
// Right: the limiter outside, the timeout inside.
func ExampleMiddleware_Handler_incorrectTimeout() {
	limit, err := middleware.New(middleware.Config{
		Policy:  "search",
		Limits:  []middleware.Limit{{Quota: 5, Window: time.Minute}},
		Secrets: [][]byte{exampleSecret},
		Now:     noon,
	})
	if err != nil {
		log.Fatal(err)
	}
	ever := make(chan struct{})
	defer close(ever)
	slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ever })

	wrong := http.TimeoutHandler(limit.Handler(slow), time.Nanosecond, "too slow")
	right := limit.Handler(http.TimeoutHandler(slow, time.Nanosecond, "too slow"))

	for name, h := range map[string]http.Handler{"wrong": wrong, "right": right} {
		resp := post(h, "198.51.100.7")
		fmt.Printf("%s: %d, token: %v\n", name, resp.StatusCode, resp.Header.Get(middleware.TokenHeader) != "")
	}

	// Unordered output:
	// wrong: 503, token: false
	// right: 503, token: true
}
