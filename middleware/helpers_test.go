// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// cookieNames returns the names of the cookies that a response sets.
func cookieNames(resp *http.Response) (names []string) {
	for _, c := range resp.Cookies() {
		names = append(names, c.Name)
	}
	return names
}

// contactForm is the policy of the demo: 5 per minute and 50 per day, sliding.
func contactForm(c *clock) middleware.Config {
	cfg := contact(c)
	cfg.Limits = []middleware.Limit{{Quota: 5, Window: time.Minute}, {Quota: 50, Window: 24 * time.Hour}}
	return cfg
}

// echoing shows with each request the newest token that the one before was answered with, as clients do.
func echoing(h http.Handler) http.Handler {
	tok := ""
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		showing(tok)(r)
		h.ServeHTTP(w, r)
		if next := w.Header().Get(middleware.TokenHeader); next != "" {
			tok = next
		}
	})
}

// together sends n equal requests at once, and returns how many were answered 200.
func together(h http.Handler, n int, options ...option) int {
	var passed atomic.Int64
	inParallel(n, func(int) { passed.Add(int64(admitted(h, 1, options...))) })
	return int(passed.Load())
}
