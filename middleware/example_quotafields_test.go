// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// quotaFields tells how the day stands, in fields that clients know.
func quotaFields(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := middleware.FromContext(r.Context())
		for _, l := range d.Limits() {
			if l.Name == "day" {
				w.Header().Set("X-Quota-Limit", strconv.FormatInt(l.Quota, 10))
				w.Header().Set("X-Quota-Used", strconv.FormatInt(l.Quota-l.Remaining, 10))
				w.Header().Set("X-Quota-Reset", strconv.Itoa(int(l.Reset.Seconds())))
			}
		}
		next.ServeHTTP(w, r)
	})
}

// Fields of a program's own say how a limit stands.
func ExampleFromContext_quota() {
	limit, err := middleware.New(middleware.Config{
		Policy: "api",
		Limits: []middleware.Limit{
			{Name: "minute", Quota: 10, Window: time.Minute},
			{Name: "day", Quota: 1000, Window: 24 * time.Hour},
		},
		Secrets: [][]byte{bytes.Repeat([]byte("s"), 32)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	h := limit.Handler(quotaFields(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	for range 3 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Header().Get("X-Quota-Used"), "of", w.Header().Get("X-Quota-Limit"))
	}
	// Output:
	// 1 of 1000
	// 2 of 1000
	// 3 of 1000
}
