// SPDX-License-Identifier: Apache-2.0

package middlewaretest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/middlewaretest"
)

func TestSpentIsRefusedWhateverItShows(t *testing.T) {
	for name, change := range map[string]func(*middleware.Config){
		"as it is":       func(*middleware.Config) {},
		"cookies alone":  func(cfg *middleware.Config) { cfg.TokenTransport = middleware.CookieOnly },
		"fields alone":   func(cfg *middleware.Config) { cfg.TokenTransport = middleware.HeaderOnly },
		"when exhausted": func(cfg *middleware.Config) { cfg.Challenge = &middleware.Challenge{Work: 16} },
		"a bucket":       func(cfg *middleware.Config) { cfg.Limits[0].Algorithm = middleware.TokenBucket },
	} {
		t.Run(name, func(t *testing.T) {
			clock := middlewaretest.NewClock()
			cfg := contact(clock)
			change(&cfg)
			site := newSite(t, cfg)
			r := httptest.NewRequest("POST", "/", strings.NewReader("words"))
			r.RemoteAddr = "203.0.113.1:4711"
			refusal := middlewaretest.Spend(t, site, r)
			require.Equal(t, http.StatusTooManyRequests, refusal.StatusCode)
			for _, c := range []*http.Client{
				middlewaretest.Browser(site, "203.0.113.1"), middlewaretest.Script(site, "203.0.113.1"), middlewaretest.Forgetful(site, "203.0.113.1"),
			} {
				require.Zero(t, admitted(t, c, 2))
			}
			require.Equal(t, 5, admitted(t, middlewaretest.Forgetful(site, "203.0.113.2"), 9), "nobody else is spent")
			body, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.Equal(t, "words", string(body), "it can be sent again")

			clock.Wait(t, refusal)
			require.Positive(t, admitted(t, middlewaretest.Forgetful(site, "203.0.113.1"), 1))
		})
	}
}

// Where nothing is remembered, the tokens alone are used up.
func TestSpendShowsItsTokens(t *testing.T) {
	for name, transport := range map[string]middleware.TokenTransport{
		"either": middleware.HeaderOrCookie, "fields": middleware.HeaderOnly, "cookies": middleware.CookieOnly,
	} {
		t.Run(name, func(t *testing.T) {
			cfg := contact(middlewaretest.NewClock())
			cfg.InsecureNoMemory, cfg.MaxClients, cfg.TokenTransport = true, 0, transport
			calls := 0
			limit, err := middleware.New(cfg)
			require.NoError(t, err)
			h := limit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ }))
			middlewaretest.Spend(t, h, httptest.NewRequest("POST", "/", nil))
			require.Equal(t, 5, calls)
		})
	}
}

func TestSpendUsesUpWhatWasBought(t *testing.T) {
	cfg := selling(middlewaretest.NewClock(), middleware.Newcomers)
	site := newSite(t, cfg)
	token := middlewaretest.OwnTokenAt(t, cfg, ada, 0)
	r := httptest.NewRequest("POST", "/", nil)
	r.RemoteAddr = "203.0.113.1:4711"
	r.Header.Set(middleware.TokenHeader, token)
	refusal := middlewaretest.Spend(t, site, r)
	require.NotEmpty(t, refusal.Header.Get(middleware.ChallengeHeader))
	require.Zero(t, admitted(t, middlewaretest.Forgetful(site, "203.0.113.1"), 2, middleware.TokenHeader, token))
	require.Equal(t, token, r.Header.Get(middleware.TokenHeader), "the request is as it was")
}

func TestSpendSaysWhatIsNoLimit(t *testing.T) {
	status := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	for _, code := range []int{401, 403, 503} {
		said := fails(t, func(t testing.TB) {
			middlewaretest.Spend(t, status(code), httptest.NewRequest("POST", "/x", nil))
		})
		require.Contains(t, said, fmt.Sprintf("POST /x is answered %d ", code))
	}
	site := newSite(t, selling(middlewaretest.NewClock(), middleware.Newcomers))
	said := fails(t, func(t testing.TB) { middlewaretest.Spend(t, site, httptest.NewRequest("POST", "/", nil)) })
	require.Contains(t, said, "no-token", "work comes first")
}
