// SPDX-License-Identifier: Apache-2.0

// Command gateway serves the chat completions of a model to customers that have keys, with limits on requests and
// tokens in a minute and in a month of the calendar, and on requests at once. Clients of OpenAI's API use it with another base URL.
// The documentation prints parts of it, in docs/recipes.md.
//
// A request is charged what it may use, and settled when the model says what it has used: with the answer, or with the last event of a
// stream, which the gateway asks for if the client does not.
//
// What bites: a client in JavaScript waits as long as Retry-After says, be it days, and one in Python that is told more than a minute tries again in
// half a second. So a refusal for more than a minute says X-Should-Retry: false, which both obey. What a stream has cost whose client hangs up is
// unknown: each event counts as a token. The body is read before the key is looked at.
package main

import (
	"log"
	"net/http"
	"net/url"
	"os"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact/memory"
)

func main() {
	upstream, err := url.Parse("https://api.openai.com")
	if err != nil {
		log.Fatal(err)
	}
	limit, err := newLimits(middleware.Config{
		Secrets:        [][]byte{[]byte(os.Getenv("TALLYSTICK_SECRET"))}, // the same on every instance
		RefusalHandler: http.HandlerFunc(refuse),
		Exact:          &middleware.Exact{Counter: memory.New(0, nil), Outage: middleware.FailClosed}, // several instances: exact/redis, say
	}, func(key string) (customer string, ok bool) { // yours asks a database
		return "ada", key == os.Getenv("CUSTOMER_KEY") && key != ""
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /v1/chat/completions", gateway(limit, upstream, os.Getenv("OPENAI_API_KEY")))
	log.Fatal(http.ListenAndServe(":8080", mux))
}
