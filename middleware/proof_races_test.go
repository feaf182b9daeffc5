// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// One challenge is one tally, however often it is redeemed, and the first token is the same bytes on every instance.
func TestThousandRedeemsOfOneChallenge(t *testing.T) {
	now := new(clock)
	for _, bind := range []bool{false, true} {
		cfg := challenging(now, middleware.Newcomers)
		cfg.Challenge.BindOwn = bind
		sites := []*site{newSite(t, cfg), newSite(t, cfg)}
		proof := solved(t, fetched(sites[0]))
		tokens := make([]string, 1000)
		inParallel(len(tokens), func(i int) {
			resp := redeemed(sites[i%2], proof)
			if resp.StatusCode == http.StatusOK {
				tokens[i] = tokenIn(resp)
			}
		})
		for _, tok := range tokens {
			require.Equal(t, tokens[0], tok, "byte for byte")
		}
		require.NotEmpty(t, tokens[0])
		claims := claimsIn(t, tokens[0])
		require.Empty(t, claims.T, "it has counted nothing")
		require.Equal(t, bind, claims.Sub != "")
		for _, h := range sites {
			require.Equal(t, 5, admitted(h, 20, showing(tokens[0])), "one tally")
			require.EqualValues(t, 24, challengeIn(t, fetched(h)).Work, "one sale")
			bought(t, h)
			require.EqualValues(t, 32, challengeIn(t, fetched(h)).Work)
		}
	}
}

// The same with requests in the place of redeems: one tally, one quota.
func TestThousandRequestsWithOneProof(t *testing.T) {
	for name, mode := range map[string]middleware.Mode{"WhenExhausted": middleware.WhenExhausted, "Newcomers": middleware.Newcomers} {
		t.Run(name, func(t *testing.T) {
			h := newSite(t, challenging(new(clock), mode))
			exhaustIn(t, mode, h)
			h.Spy.Calls.Store(0)
			proof := solved(t, fetched(h))
			inParallel(1000, func(int) { send(h, proving(proof)) })
			require.EqualValues(t, 5, h.Spy.Calls.Load())
			require.EqualValues(t, 24, challengeIn(t, fetched(h)).Work, "one sale")
		})
	}
}

// A solution replayed for its whole life, to all instances at once, whatever stands beside it.
func TestSolutionReplayedForItsWholeLife(t *testing.T) {
	const instances = 3
	for name, mode := range allModes {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			now.Advance(30 * time.Second)
			var sites []*site
			for range instances {
				s := newSite(t, challenging(now, mode))
				if mode == middleware.WhenExhausted {
					exhaust(t, s)
					exhaust(t, s, from("203.0.113.9"))
					s.Spy.Calls.Store(0)
				}
				sites = append(sites, s)
			}
			proof := solved(t, fetched(sites[0]))
			first := tokenIn(redeemed(sites[0], proof))
			for range 13 {
				for _, s := range sites {
					admitted(s, 8, proving(proof))
					admitted(s, 8, proving(proof), showing(first))
					admitted(s, 8, proving(proof), from("203.0.113.9"))
					admitted(s, 8, showing(first))
				}
				now.Advance(time.Second)
			}
			most := int64(5)
			if mode == middleware.EveryRequest {
				most = 1
			}
			for _, s := range sites {
				require.Equal(t, most, s.Spy.Calls.Load(), "on each of %d instances", instances)
			}
		})
	}
}

// A thousand challenges fetched while the price was low, solved, and redeemed at
// once, on endpoints and with requests.
func TestStockpiledChallenges(t *testing.T) {
	cfg := challenging(new(clock), middleware.Newcomers)
	cfg.Challenge.Crowd = 8
	for name, redeem := range map[string]func(*site, string) bool{
		"endpoint": func(h *site, proof string) bool { return redeemed(h, proof).StatusCode == http.StatusOK },
		"requests": func(h *site, proof string) bool { return send(h, proving(proof)).StatusCode == http.StatusOK },
	} {
		t.Run(name, func(t *testing.T) {
			h := newSite(t, cfg)
			proofs := make([]string, 1000)
			inParallel(len(proofs), func(i int) { proofs[i] = solved(t, fetched(h)) })
			granted := make([]bool, len(proofs))
			inParallel(len(proofs), func(i int) { granted[i] = redeem(h, proofs[i]) })
			tallies := 0
			for _, ok := range granted {
				if ok {
					tallies++
				}
			}
			require.Equal(t, 8, tallies, "a crowd, until the price has doubled, and none of the rest")
			require.EqualValues(t, 32, challengeIn(t, fetched(h)).Work)
			for i, ok := range granted {
				require.Equal(t, ok, redeem(h, proofs[i]), "and it stays that way")
			}
		})
	}
}
