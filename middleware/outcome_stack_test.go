// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// A log-in is limited by address and by account, and answers 303 in either case. What its
// handler says is heard by both policies: else the outer one would count no guess at all.
func TestWhatTheHandlerSaysIsHeardByAllPolicies(t *testing.T) {
	for _, right := range []bool{false, true} {
		c := new(clock)
		outer, inner := newLimiter(t, login(c)), newLimiter(t, login(c))
		h := outer.Handler(inner.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if right {
				middleware.Charge(r, false)
			} else {
				middleware.Charge(r, true)
			}
			w.WriteHeader(http.StatusSeeOther)
		})))
		for range 2 {
			require.Equal(t, http.StatusSeeOther, send(h).StatusCode)
		}
		want := int64(3)
		if right {
			want = 5
		}
		require.EqualValues(t, want, failuresLeft(t, inner))
		require.EqualValues(t, want, failuresLeft(t, outer))
	}
}
