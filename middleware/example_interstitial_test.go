// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// Who is new proves work first, or waits; what was typed into the form is kept
// meanwhile.
func ExampleInterstitial() {
	limit, err := middleware.New(middleware.Config{
		Policy:      "signup",
		Limits:      []middleware.Limit{{Quota: 10, Window: time.Hour}},
		Secrets:     [][]byte{exampleSecret},
		Challenge:   &middleware.Challenge{Mode: middleware.Newcomers, Path: "/tally/signup/"},
		PageHandler: middleware.Interstitial{},
		Now:         noon,
	})
	if err != nil {
		log.Fatal(err)
	}
	resp := post(limit.Handler(contactHandler), "203.0.113.1",
		"Accept", "text/html", "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
	defer resp.Body.Close()
	page := new(strings.Builder)
	if err := resp.Write(page); err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.Status)
	for line := range strings.Lines(page.String()) {
		if strings.HasPrefix(line, "<input") || strings.Contains(line, "Try again") {
			fmt.Print(line)
		}
	}
	// Output:
	// 403 Forbidden
	// <input type="hidden" name="message" value="hello">
	// <tally-check endpoint="/tally/signup/"><p>Try again in 5 seconds.</p></tally-check>
}
