// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// A fuzz test whose seeds are gone passes as well, and finds nothing.
func TestFuzzSeedsAreThere(t *testing.T) {
	for target, n := range map[string]int{"FuzzForwardedFor": 16, "FuzzCarriage": 12, "FuzzAccept": 12, "FuzzInterstitial": 16} {
		files, err := os.ReadDir("testdata/fuzz/" + target)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(files), n, target)
	}
}

// FuzzCarriage: no header or cookie gets a client more than its quota; none that
// holds no token of its own gets it less; and none makes the limiter allocate in
// proportion to what it is sent. OWN stands for a token of the client's, FORGED
// and STOLEN for what they say.
func FuzzCarriage(f *testing.F) {
	const quota = 6
	now := new(clock)
	cfg := contact(now)
	cfg.Limits[0].Quota = quota
	issuer := newLimiter(f, cfg).Handler(new(spy))
	tokens := 0
	cfg.OnDecision = func(_ context.Context, d middleware.Decision) { tokens = d.Tokens }
	h := newLimiter(f, cfg).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	f.Fuzz(func(t *testing.T, header, cookie string) {
		now.advance(2 * cfg.Limits[0].Window) // everything is new
		own := spend(t, issuer, 3, from("203.0.113.1"))
		known := strings.NewReplacer("OWN", own, "FORGED", forgery(own), "STOLEN", spend(t, issuer, 1, from("203.0.113.2")))
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.RemoteAddr = "203.0.113.1:4711"
		r.Header[middleware.TokenHeader] = strings.Split(known.Replace(header), "\n")
		r.Header["Cookie"] = strings.Split(known.Replace(cookie), "\n")

		passed, accepted := 0, 0
		for range quota + 2 {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.Contains(t, []int{http.StatusOK, http.StatusTooManyRequests}, w.Code)
			require.LessOrEqual(t, tokens, 4, "more than four are looked at")
			accepted += tokens
			if w.Code == http.StatusOK {
				passed++
			}
		}
		if accepted > 0 {
			require.Equal(t, quota-3, passed)
		} else {
			require.Equal(t, quota, passed, "refused for a token that is none")
		}
		w := &sink{http.Header{}}
		require.Less(t, allocated(func() { h.ServeHTTP(w, r) }), uint64(64<<10))
	})
}

// FuzzAccept: the negotiation has two outcomes, whatever it is asked, and a
// bounded cost.
func FuzzAccept(f *testing.F) {
	cfg := contact(new(clock))
	cfg.Limits[0].Quota = 1
	h, _ := limited(f, cfg)
	admitted(h, 1)
	const problem, page = "application/problem+json", "text/html; charset=utf-8"
	f.Fuzz(func(t *testing.T, accept string) {
		lines := func(accept string) option {
			return func(r *http.Request) { r.Header["Accept"] = strings.Split(accept, "\n") }
		}
		kind := func(accept string) string {
			resp := send(h, lines(accept))
			require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
			return resp.Header.Get("Content-Type")
		}
		got := kind(accept)
		require.Contains(t, []string{problem, page}, got)
		require.Equal(t, got, kind(upper(accept)), "names are case-insensitive")
		asks := strings.Contains(upper(accept), "TEXT/HTML") || strings.Contains(upper(accept), "TEXT/*") || strings.Contains(accept, "*/*")
		require.True(t, asks || got == problem, "HTML is for those who ask")
		require.Equal(t, problem, kind("application/json\n"+strings.ReplaceAll(accept, "\n", " ")+",application/json"), "JSON at its best is not outdone")
		require.Less(t, allocatedBy(h, from("203.0.113.1"), lines(accept)), uint64(16<<10))
	})
}

// upper is strings.ToUpper for the letters of ASCII.
func upper(s string) string {
	return strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' {
			return c - 'a' + 'A'
		}
		return c
	}, s)
}
