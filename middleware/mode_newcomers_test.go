// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// Newcomers: who has no tally of its own proves work first.
func TestNewcomers(t *testing.T) {
	now := new(clock)
	h := newSite(t, challenging(now, middleware.Newcomers))

	first := requireStatus(t, http.StatusForbidden, send(h))
	require.Empty(t, first.Header.Get("Retry-After"), "waiting does not help")
	require.Empty(t, tokenIn(first))
	d := h.Decisions.Last()
	require.Equal(t, middleware.NoToken, d.Reason)
	require.Empty(t, d.Proof)
	require.Empty(t, d.Limits(), "no limit was asked")
	c := challengeIn(t, first)
	require.Equal(t, problem{
		Type:   "https://github.com/tallystick/tallystick/blob/main/docs/clients.md#proof-required",
		Title:  "Proof of work required",
		Status: 403, Detail: "Solve the challenge and send the request again with the proof.",
		Reason: middleware.NoToken, Challenge: c.Text, TTL: 10, Work: 16,
		ChallengeURL: "/tally/challenge", RedeemURL: "/tally/redeem",
	}, problemIn(t, first))

	resp := requireStatus(t, http.StatusOK, send(h, proving(solve(t, c))))
	tok := tokenIn(resp)
	require.Equal(t, 4, admitted(h, 9, showing(tok)))
	require.Equal(t, http.StatusForbidden, send(h).StatusCode, "the address has gained nothing")

	spent := requireStatus(t, http.StatusTooManyRequests, send(h, showing(tok)), "a tally that is used up")
	require.Positive(t, retryAfter(t, spent))
	require.EqualValues(t, 24, challengeIn(t, spent).Work, "half a Crowd has been sold")
	require.Equal(t, middleware.OverLimit, problemIn(t, spent).Reason)
	second := tokenIn(send(h, proving(solved(t, spent))))

	require.Equal(t, 4, admitted(h, 4, showing(second)))
	risen := requireStatus(t, http.StatusTooManyRequests, send(h, showing(tok, second)))
	require.EqualValues(t, 32, challengeIn(t, risen).Work, "a Crowd of two has been sold: the price doubles")
	require.Equal(t, challengeIn(t, risen), *h.Decisions.Last().Offered)

	now.Advance(retryAfter(t, risen))
	require.Equal(t, http.StatusOK, send(h, showing(tok)).StatusCode, "Retry-After was true")
}

func TestNewcomersIgnoreSharedTokens(t *testing.T) {
	cfg := challenging(new(clock), middleware.WhenExhausted)
	shared := tokenIn(send(newSite(t, cfg)))
	cfg.Challenge.Mode = middleware.Newcomers
	h := newSite(t, cfg)
	resp := requireStatus(t, http.StatusForbidden, send(h, showing(shared), showingCookie(shared)))
	require.Equal(t, middleware.NoToken, h.Decisions.Last().Reason)
	require.Equal(t, http.StatusOK, send(h, showing(shared), proving(solved(t, resp))).StatusCode)
}

// Above the highest price nothing is for sale, and a newcomer is told when something
// will be: to the second, and no challenge asks for more.
func TestSoldOut(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.Newcomers)
	h := newSite(t, cfg)
	stock := []string{solved(t, fetched(h)), solved(t, fetched(h))}
	h.M.SellOut(now.Now(), peerIdentity)
	for name, resp := range map[string]*http.Response{
		"request": send(h), "challenge": fetched(h), "redeem": redeemed(h, stock[0]), "proof": send(h, proving(stock[1])),
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
			wait := retryAfter(t, resp)
			require.LessOrEqual(t, wait, (450+30)*time.Second, "one sale leaks")
			requireHeader(t, resp, "Cache-Control", "no-store", middleware.ChallengeHeader, "")
			p := problemIn(t, resp)
			require.Equal(t, "https://iana.org/assignments/http-problem-types#quota-exceeded", p.Type)
			require.Empty(t, p.Challenge)
			require.Empty(t, p.Violated)
			require.NotEmpty(t, p.Detail)
			if name == "redeem" || name == "proof" {
				require.Equal(t, middleware.Reason("price-risen"), p.Reason)
			} else {
				require.Equal(t, middleware.SoldOut, p.Reason)
			}
		})
	}
	send(h)
	require.Equal(t, middleware.SoldOut, h.Decisions.Last().Reason)
	require.Equal(t, http.StatusTooManyRequests, h.Decisions.Last().Status)

	passed := 0
	for fetched(h).StatusCode == http.StatusTooManyRequests {
		now.Advance(time.Second)
		passed++
		require.LessOrEqual(t, passed, 450)
	}
	require.LessOrEqual(t, challengeIn(t, send(h)).Work, uint64(1<<32), "the next is for sale")
	require.Greater(t, challengeIn(t, send(h)).Work, uint64(1<<31))
	require.Equal(t, http.StatusForbidden, send(h, from("203.0.113.9")).StatusCode, "other addresses were never concerned")
}

// A request that costs more than any tally has is refused at once: work for it would be in vain.
func TestNoWorkForWhatCanNeverPass(t *testing.T) {
	for name, change := range map[string]func(*middleware.Config){
		"Newcomers": func(*middleware.Config) {},
		"while busy": func(cfg *middleware.Config) {
			cfg.Challenge.Mode, cfg.Challenge.BusyPerSecond = middleware.WhenBusy, 2
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := challenging(new(clock), middleware.Newcomers)
			change(&cfg)
			cfg.Cost = costOf
			h := newSite(t, cfg)
			strangers(h, 30)
			resp := requireStatus(t, http.StatusForbidden, send(h, costing(6)))
			require.Equal(t, middleware.CostAboveQuota, h.Decisions.Last().Reason)
			requireNoChallenge(t, resp)
			challengeIn(t, send(h))
		})
	}
}
