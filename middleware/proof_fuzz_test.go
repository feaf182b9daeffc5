// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

func TestProofFuzzSeedsAreThere(t *testing.T) {
	files, err := os.ReadDir("testdata/fuzz/FuzzProofHeader")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 16)
}

// FuzzProofHeader: no field and no cookie that is not the answer to a challenge of this client buys anything, panics,
// or is paid for with memory. TEXT stands for a fresh challenge, OTHER for a good proof of another client, OLD for
// one that has expired, SPENT for one that has bought its request, TOKEN for a window token.
func FuzzProofHeader(f *testing.F) {
	type target struct {
		h     http.Handler
		now   *clock
		known *strings.Replacer
	}
	var targets []target
	for _, mode := range allModes {
		now := new(clock)
		cfg := challenging(now, mode)
		cfg.Challenge.Work = 4096 // not to be guessed
		h := newSite(f, cfg)
		old := solved(f, fetched(h))
		now.Advance(20 * time.Second)
		spent := solved(f, fetched(h))
		token := redeemed(h, spent)
		send(h, proving(spent))
		exhaustIn(f, mode, h)
		if mode != middleware.EveryRequest {
			admitted(h, 9, proving(spent)) // opened, and used up
		}
		known := strings.NewReplacer("TEXT", challengeIn(f, fetched(h)).Text, "OTHER", solved(f, fetched(h, from("203.0.113.2"))),
			"OLD", old, "SPENT", spent, "TOKEN", tokenIn(token))
		targets = append(targets, target{h, now, known})
	}
	f.Fuzz(func(t *testing.T, field, cookie string) {
		for _, target := range targets {
			r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
			r.RemoteAddr = "203.0.113.1:4711"
			if field != "" {
				r.Header[middleware.ProofHeader] = strings.Split(target.known.Replace(field), "\n")
			}
			r.Header["Cookie"] = strings.Split(target.known.Replace(cookie), "\n")
			for _, path := range []string{"/", "/tally/redeem"} {
				r.URL.Path = path
				w := httptest.NewRecorder()
				target.h.ServeHTTP(w, r)
				if w.Code == http.StatusOK {
					require.Equal(t, "/tally/redeem", path, "admitted")
					require.Contains(t, field, "SPENT", "redeemed")
					continue
				}
				require.Contains(t, []int{http.StatusForbidden, http.StatusTooManyRequests}, w.Code)
				if w.Code == http.StatusForbidden {
					require.NotEmpty(t, w.Header().Get(middleware.ChallengeHeader))
				}
			}
			sent := &sink{Fields: http.Header{}}
			require.Less(t, allocated(func() { target.h.ServeHTTP(sent, r) }), uint64(32<<10))
		}
	})
}
