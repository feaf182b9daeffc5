// SPDX-License-Identifier: Apache-2.0

package middlewaretest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/middlewaretest"
)

// A token at count n leaves what n requests would have left, of each limit.
func TestTokenAt(t *testing.T) {
	for name, change := range map[string]func(*middleware.Config){
		"one limit": func(*middleware.Config) {},
		"two": func(cfg *middleware.Config) {
			cfg.Limits = append(cfg.Limits, middleware.Limit{Quota: 6, Window: time.Hour})
		},
		"a bucket":  func(cfg *middleware.Config) { cfg.Limits[0].Algorithm = middleware.TokenBucket },
		"exhausted": func(cfg *middleware.Config) { cfg.Challenge = &middleware.Challenge{Work: 16} },
		"every request": func(cfg *middleware.Config) {
			cfg.Challenge = &middleware.Challenge{Work: 16, Mode: middleware.EveryRequest}
		},
		"all else": func(cfg *middleware.Config) {
			cfg.Quiet, cfg.Fields, cfg.InsecureCookie = true, middleware.RateLimitFields|middleware.XRateLimitInSeconds, true
			cfg.Concurrency = &middleware.Concurrency{Max: 1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for n := int64(1); n <= 5; n++ {
				cfg := contact(middlewaretest.NewClock())
				change(&cfg)
				token := middlewaretest.TokenAt(t, cfg, ada, n)
				if name == "every request" {
					continue // the count is the same, and takes a proof to see
				}
				c := middlewaretest.Forgetful(newSite(t, cfg), "203.0.113.1")
				require.EqualValues(t, 5-n, admitted(t, c, 9, middleware.TokenHeader, token), "at count %d", n)
				require.Equal(t, 5, admitted(t, middlewaretest.Forgetful(newSite(t, cfg), "203.0.113.1"), 9), "no instance remembers it")
			}
		})
	}
}

func TestTokenAtIsOfATier(t *testing.T) {
	cfg := contact(middlewaretest.NewClock())
	cfg.Tiers = map[string][]middleware.Limit{"gold": {{Algorithm: middleware.FixedWindow, Quota: 50, Window: time.Minute}}}
	gold := middleware.Principal("ada")
	gold.Tier = "gold"
	require.NotEmpty(t, middlewaretest.TokenAt(t, cfg, gold, 50))
	said := fails(t, func(t testing.TB) { middlewaretest.TokenAt(t, cfg, ada, 50) })
	require.Contains(t, said, `no client of policy "contact" has a token at count 50: cost-above-quota`)
}

func TestOwnTokenAt(t *testing.T) {
	for name, mode := range map[string]middleware.Mode{"newcomers": middleware.Newcomers, "when exhausted": middleware.WhenExhausted} {
		t.Run(name, func(t *testing.T) {
			for n := range int64(6) {
				cfg := selling(middlewaretest.NewClock(), mode)
				token := middlewaretest.OwnTokenAt(t, cfg, ada, n)
				site := newSite(t, cfg)
				if mode == middleware.WhenExhausted {
					require.Equal(t, 5, admitted(t, middlewaretest.Forgetful(site, "203.0.113.1"), 9), "of what is shared")
				}
				elsewhere := middlewaretest.Forgetful(site, "203.0.113.1")
				require.EqualValues(t, 5-n, admitted(t, elsewhere, 9, middleware.TokenHeader, token), "at count %d", n)
			}
		})
	}
}

func TestTokensThatNobodyHas(t *testing.T) {
	clock := middlewaretest.NewClock()
	for said, f := range map[string]func(testing.TB){
		"nothing is shared in Newcomers":    func(t testing.TB) { middlewaretest.TokenAt(t, selling(clock, middleware.Newcomers), ada, 1) },
		"no client has a token at count 0":  func(t testing.TB) { middlewaretest.TokenAt(t, contact(clock), ada, 0) },
		"has a token at count 6":            func(t testing.TB) { middlewaretest.TokenAt(t, contact(clock), ada, 6) },
		"at count 1: identity-unknown":      func(t testing.TB) { middlewaretest.TokenAt(t, contact(clock), middleware.Identity{}, 1) },
		`policy "contact" sells no tallies`: func(t testing.TB) { middlewaretest.OwnTokenAt(t, contact(clock), ada, 1) },
		"contact\" sells no tallies":        func(t testing.TB) { middlewaretest.OwnTokenAt(t, selling(clock, middleware.EveryRequest), ada, 1) },
		"contact\" has a token at count 6":  func(t testing.TB) { middlewaretest.OwnTokenAt(t, selling(clock, middleware.WhenExhausted), ada, 6) },
		`policy "contact" has a counter`: func(t testing.TB) {
			cfg := contact(clock)
			cfg.Exact = new(middleware.Exact)
			middlewaretest.TokenAt(t, cfg, ada, 1)
		},
		"Policy":                                 func(t testing.TB) { middlewaretest.TokenAt(t, middleware.Config{}, ada, 1) },
		"the response () has no challenge":       func(t testing.TB) { middlewaretest.Prove(t, nothing) },
		`the Retry-After of this response () is`: func(t testing.TB) { clock.Wait(t, nothing) },
	} {
		require.Contains(t, fails(t, f), said)
	}
}
