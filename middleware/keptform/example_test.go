// SPDX-License-Identifier: Apache-2.0

package keptform_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/keptform"
)

// A newcomer works first, or waits. What was typed into the form is kept meanwhile.
func Example() {
	limit, err := middleware.New(middleware.Config{
		Policy:      "signup",
		Limits:      []middleware.Limit{{Quota: 10, Window: time.Hour}},
		Secrets:     [][]byte{[]byte("an example is no place for secrets")},
		Challenge:   &middleware.Challenge{Mode: middleware.Newcomers, Path: "/tally/signup/"},
		PageHandler: keptform.Handler{},
	})
	if err != nil {
		log.Fatal(err)
	}
	signup := limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))

	// What a browser sends for a form.
	r := httptest.NewRequest(http.MethodPost, "/signup", strings.NewReader("message=hello"))
	for _, field := range [][2]string{{"Accept", "text/html"}, {"Content-Type", "application/x-www-form-urlencoded"}, {"Sec-Fetch-Site", "same-origin"}} {
		r.Header.Set(field[0], field[1])
	}
	w := httptest.NewRecorder()
	signup.ServeHTTP(w, r)
	fmt.Println(w.Code)
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "<input") || strings.Contains(line, "Try again") {
			fmt.Print(line)
		}
	}
	// Output:
	// 403
	// <input type="hidden" name="message" value="hello">
	// <tally-check endpoint="/tally/signup/"><p>Try again in 5 seconds.</p></tally-check>
}
