// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bytes"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact/memory"
)

// A stream costs one request, and the tokens that it has sent: they are estimated before, and settled when it ends.
func ExampleSettle() {
	limit, err := middleware.New(middleware.Config{
		Policy: "model",
		Limits: []middleware.Limit{
			{Name: "requests", Quota: 60, Window: time.Minute},
			{Name: "tokens", Quota: 1000, Window: 24 * time.Hour},
		},
		Units: map[string]middleware.Unit{"tokens": {
			Limits: []string{"tokens"},
			Cost:   func(*http.Request) int64 { return 300 }, // what most answers use
		}},
		Secrets: [][]byte{bytes.Repeat([]byte("s"), 32)},
		Exact:   &middleware.Exact{Counter: memory.New(0, nil), Outage: middleware.FailClosed},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	stream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		used := int64(0)
		defer func() { // also if the client hangs up
			if err := middleware.Settle(r, used, "tokens"); err != nil {
				log.Print(err)
			}
		}()
		for range 4 {
			fmt.Fprint(w, "data: some words\n\n")
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			used += 25
		}
	})
	h := limit.Handler(stream)
	for range 11 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
		fmt.Print(w.Code, " ")
	}
	// Output: 200 200 200 200 200 200 200 200 429 429 429
}
