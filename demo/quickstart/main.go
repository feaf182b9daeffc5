// SPDX-License-Identifier: Apache-2.0

// Command quickstart is the first program of the README: one limited form.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

func main() {
	limit, err := middleware.New(middleware.Config{
		Policy:  "contact",
		Limits:  []middleware.Limit{{Quota: 5, Window: time.Minute}, {Quota: 50, Window: 24 * time.Hour}},
		Secrets: [][]byte{[]byte(os.Getenv("TALLYSTICK_SECRET"))}, // the same on every instance
	})
	if err != nil {
		log.Fatal(err) // names every mistake in the Config
	}
	http.Handle("POST /contact", limit.Handler(http.HandlerFunc(contact)))
	log.Fatal(http.ListenAndServe(os.Getenv("ADDR"), nil)) // such as ":8080"
}

func contact(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, "Thank you.")
}
