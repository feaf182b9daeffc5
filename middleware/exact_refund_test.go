// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// TestRefundBehindATimeout: http.TimeoutHandler answers and leaves the handler behind,
// which gives back what it could not deliver in time, while the response is written.
// The race detector is the judge.
func TestRefundBehindATimeout(t *testing.T) {
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		t.Run(m, func(t *testing.T) {
			now := new(clock)
			cfg := paid(now, newLedger(now))
			cfg.Limits[0].Quota = 1000
			outer := contact(now)
			outer.Policy, outer.Limits[0].Quota = "outer", 1000
			var late sync.WaitGroup
			var pause time.Duration
			inner := newLimiter(t, cfg).Handler(http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer late.Done()
				<-r.Context().Done()
				for began := time.Now(); time.Since(began) < pause; { // no sleep is that short
				}
				require.NoError(t, middleware.Refund(w, r))
			}), time.Millisecond, "late"))
			server := serve(t, newLimiter(t, outer).Handler(inner))
			c := clientAt(t, "127.0.0.2")
			for i := range 60 {
				pause = time.Duration(i) * 5 * time.Microsecond
				late.Add(1)
				over(t, c, server.URL, method(m)) // 503, or 200 where the handler was done sooner
				late.Wait()
			}
		})
	}
}
