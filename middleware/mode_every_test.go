// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// EveryRequest: one proof, one request, charged to the shared tally.
func TestEveryRequest(t *testing.T) {
	h := newSite(t, challenging(new(clock), middleware.EveryRequest))

	resp := requireStatus(t, http.StatusForbidden, send(h))
	require.Equal(t, middleware.NoToken, h.Decisions.Last().Reason)
	require.Equal(t, middleware.NoToken, problemIn(t, resp).Reason)
	proof := solved(t, resp)

	ok := requireStatus(t, http.StatusOK, send(h, proving(proof)))
	require.Equal(t, `"contact";r=4;t=60`, ok.Header.Get("RateLimit"))
	require.NotEmpty(t, claimsIn(t, tokenIn(ok)).Sub, "the shared tally's token")
	require.Empty(t, claimsIn(t, tokenIn(ok)).Fam)
	require.False(t, h.Decisions.Last().Own)

	replay := requireStatus(t, http.StatusForbidden, send(h, proving(proof)))
	d := h.Decisions.Last()
	require.Equal(t, middleware.ProofReplayed, d.Reason)
	require.Equal(t, middleware.ProofReplayed, d.Proof)
	require.Equal(t, middleware.ProofReplayed, problemIn(t, replay).Reason)
	require.EqualValues(t, 16, challengeIn(t, replay).Work, "no doubling")
	require.Equal(t, http.StatusForbidden, send(h, showing(tokenIn(ok))).StatusCode, "a token is no proof")

	for range 4 {
		require.Equal(t, http.StatusOK, send(h, proving(solved(t, send(h)))).StatusCode)
	}
	require.EqualValues(t, 5, h.Spy.Calls.Load())
}

// Over the limit no proof helps: no work is asked for, and none is lost.
func TestEveryRequestOverLimit(t *testing.T) {
	now := new(clock)
	h := newSite(t, challenging(now, middleware.EveryRequest))
	now.Advance(55 * time.Second)
	var proofs []string
	for range 6 {
		proofs = append(proofs, solved(t, fetched(h)))
	}
	for _, proof := range proofs[:5] {
		require.Equal(t, http.StatusOK, send(h, proving(proof)).StatusCode)
	}
	for _, options := range [][]option{{proving(proofs[5])}, nil, {proving("nonsense")}} {
		resp := requireStatus(t, http.StatusTooManyRequests, send(h, options...))
		require.Equal(t, middleware.OverLimit, h.Decisions.Last().Reason)
		requireNoChallenge(t, resp)
		require.Equal(t, 5*time.Second, retryAfter(t, resp))
	}
	now.Advance(5 * time.Second)
	require.Equal(t, http.StatusOK, send(h, proving(proofs[5])).StatusCode, "a refusal strikes no proof")
	require.Equal(t, http.StatusForbidden, send(h, proving(proofs[5])).StatusCode)
	require.Equal(t, http.StatusForbidden, send(h, proving(proofs[0])).StatusCode, "struck for as long as it lives")
}

// What is refused for another reason strikes no proof either, and peeks are free.
func TestEveryRequestStrikesWhatItAdmits(t *testing.T) {
	cfg := challenging(new(clock), middleware.EveryRequest)
	cfg.Cost = costOf
	h := newSite(t, cfg)
	proof := solved(t, send(h))
	require.Equal(t, http.StatusForbidden, send(h, proving(proof), costing(6)).StatusCode)
	require.Equal(t, middleware.CostAboveQuota, h.Decisions.Last().Reason)
	require.Equal(t, http.StatusInternalServerError, send(h, proving(proof), costing(-1)).StatusCode)
	require.Equal(t, http.StatusOK, send(h, proving(proof), costing(0)).StatusCode, "a peek")
	require.Equal(t, http.StatusForbidden, send(h, costing(0)).StatusCode, "but not without proof")
	require.Equal(t, http.StatusOK, send(h, proving(proof), costing(4)).StatusCode)
	require.Equal(t, http.StatusForbidden, send(h, proving(proof)).StatusCode)
}

func TestEveryRequestInParallel(t *testing.T) {
	cfg := challenging(new(clock), middleware.EveryRequest)
	cfg.Limits[0].Quota = 5000
	h := newSite(t, cfg)
	for range 3 {
		require.Equal(t, 1, together(h, 1000, proving(solved(t, fetched(h)))), "of a thousand with one proof")
	}
}

// In EveryRequest whoever proves L times a window shuts the address, to all who work too: for L·W a window, and with
// NonceOnly for nothing. The table of what shutting costs says so.
func TestShuttingEveryRequest(t *testing.T) {
	for name, nonce := range map[string]bool{"L·W a window": false, "nothing": true} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, middleware.EveryRequest)
			if nonce {
				cfg.Challenge.Work, cfg.Challenge.NonceOnly = 0, true
			}
			h := newSite(t, cfg)
			paid, let := uint64(0), 0
			for second := range 600 {
				if resp := fetched(h); resp.Header.Get(middleware.ChallengeHeader) != "" {
					c := challengeIn(t, resp)
					if send(h, proving(solve(t, c))).StatusCode == http.StatusOK {
						paid += c.Work
					}
				}
				if resp := fetched(h); second%5 == 4 && resp.Header.Get(middleware.ChallengeHeader) != "" {
					let += admitted(h, 1, proving(solved(t, resp)))
				}
				now.Advance(time.Second)
			}
			require.Zero(t, let, "of the others")
			if nonce {
				require.Zero(t, paid)
			} else {
				require.InDelta(t, 10*5*16, paid, 5*16)
			}
		})
	}
}

// NonceOnly asks for a round trip: a signed nonce that solves itself.
func TestNonceOnly(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.EveryRequest)
	cfg.Challenge.Work, cfg.Challenge.NonceOnly = 0, true
	h := newSite(t, cfg)
	resp := requireStatus(t, http.StatusForbidden, send(h))
	c := challengeIn(t, resp)
	require.Zero(t, c.Work)
	require.Equal(t, 10*time.Second, c.TTL)
	proof := solve(t, c)
	require.Equal(t, http.StatusForbidden, send(h, proving(c.Text)).StatusCode, "a challenge is not its answer")
	require.Equal(t, 1, admitted(h, 9, proving(proof)))

	late := solved(t, send(h))
	now.Advance(11 * time.Second)
	require.Equal(t, http.StatusForbidden, send(h, proving(late)).StatusCode)
	require.Equal(t, middleware.Reason("expired"), h.Decisions.Last().Proof)
}

// Tokens of own tallies count where tallies are sold: not here, and not where nothing is ever asked.
func TestOwnTokensElsewhere(t *testing.T) {
	cfg := challenging(new(clock), middleware.Newcomers)
	m := newLimiter(t, cfg)
	h := http.NewServeMux()
	h.Handle("/", m.Handler(new(spy)))
	h.Handle("/tally/", m.Endpoints())
	own := bought(t, h)
	require.Equal(t, http.StatusOK, send(h, showing(own)).StatusCode)

	cfg.Challenge.Mode = middleware.EveryRequest
	decisions := record(&cfg)
	require.NoError(t, m.Reconfigure(cfg))
	require.Equal(t, http.StatusForbidden, send(h, showing(own)).StatusCode)
	require.Zero(t, decisions.Last().Tokens)
	resp := requireStatus(t, http.StatusOK, send(h, showing(own), proving(solved(t, send(h)))))
	require.Empty(t, claimsIn(t, tokenIn(resp)).Fam, "nor is it answered")
	require.False(t, decisions.Last().Own)

	cfg.Challenge = nil
	require.NoError(t, m.Reconfigure(cfg))
	require.Equal(t, 4, admitted(h, 9, showing(own)))
	require.False(t, decisions.Last().Own)
}

// Without memory nothing bounds a proof but its life. The name of the option says as much.
func TestEveryRequestWithoutMemory(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.EveryRequest)
	cfg.InsecureNoMemory = true
	h := newSite(t, cfg)
	proof := solved(t, send(h))
	require.Equal(t, 9, admitted(h, 9, proving(proof)))
	tok := ""
	for range 5 {
		tok = tokenIn(send(h, proving(proof), showing(tok)))
	}
	require.Equal(t, http.StatusTooManyRequests, send(h, proving(proof), showing(tok)).StatusCode)
	now.Advance(11 * time.Second)
	require.Zero(t, admitted(h, 9, proving(proof)))
}
