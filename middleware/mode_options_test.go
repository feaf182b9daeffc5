// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// Without a Challenge nothing is offered, proofs are not read, and nothing answers under its path.
func TestNoChallenge(t *testing.T) {
	cfg := challenging(new(clock), middleware.WhenExhausted)
	proof := solved(t, fetched(newSite(t, cfg)))
	cfg.Challenge = nil
	h := newSite(t, cfg)
	require.Equal(t, 5, admitted(h, 9, proving(proof)))
	resp := requireStatus(t, http.StatusTooManyRequests, send(h, proving(proof)))
	requireNoChallenge(t, resp)
	require.Empty(t, h.Decisions.Last().Proof)
	require.Nil(t, h.Decisions.Last().Offered)
}

// The reason why a proof was not accepted goes to the client, the hook and the
// body, in every mode; what is offered instead is fresh and good.
func TestReasons(t *testing.T) {
	type scene struct {
		h   *site
		now *clock
	}
	for _, test := range []struct {
		reason middleware.Reason
		proof  func(*testing.T, scene) string
	}{
		{"expired", func(t *testing.T, s scene) string {
			proof := solved(t, fetched(s.h))
			s.now.Advance(11 * time.Second)
			return proof
		}},
		{"wrong-solution", func(t *testing.T, s scene) string {
			return challengeIn(t, fetched(s.h)).Text + "~0.0.0.0.0.0.0.0"
		}},
		{"wrong-solution", func(*testing.T, scene) string { return "nonsense" }},
		{"secret-unknown", func(t *testing.T, s scene) string { // forged, or so it looks
			proof := solved(t, fetched(s.h))
			return proof[:130] + strings.Map(func(c rune) rune { return 'A' + (c+1)%26 }, proof[130:136]) + proof[136:]
		}},
		{"client-changed", func(t *testing.T, s scene) string {
			return solved(t, fetched(s.h, from("203.0.113.2")))
		}},
	} {
		for name, mode := range allModes {
			t.Run(string(test.reason)+"/"+name, func(t *testing.T) {
				now := new(clock)
				h := newSite(t, challenging(now, mode))
				want := http.StatusForbidden
				if mode == middleware.WhenExhausted {
					exhaust(t, h)
					want = http.StatusTooManyRequests
				}
				proof := test.proof(t, scene{h, now})
				resp := requireStatus(t, want, send(h, proving(proof)))
				d := h.Decisions.Last()
				require.Equal(t, test.reason, d.Proof)
				require.Equal(t, want, d.Status)
				require.Equal(t, *d.Offered, challengeIn(t, resp))
				require.Equal(t, test.reason, problemIn(t, resp).Reason)

				redeem := requireStatus(t, http.StatusForbidden, redeemed(h, proof))
				require.Equal(t, test.reason, problemIn(t, redeem).Reason)
				require.Equal(t, http.StatusOK, send(h, proving(solved(t, resp))).StatusCode)
			})
		}
	}
	t.Run("price-risen", func(t *testing.T) {
		h := newSite(t, challenging(new(clock), middleware.Newcomers))
		cheap := solved(t, fetched(h))
		for range 3 {
			bought(t, h)
		}
		resp := requireStatus(t, http.StatusForbidden, send(h, proving(cheap)))
		require.Equal(t, middleware.NoToken, h.Decisions.Last().Reason)
		require.Equal(t, middleware.Reason("price-risen"), h.Decisions.Last().Proof)
		require.Equal(t, middleware.Reason("price-risen"), problemIn(t, resp).Reason)
		require.Equal(t, http.StatusForbidden, redeemed(h, cheap).StatusCode)
		require.Equal(t, http.StatusOK, send(h, proving(solved(t, resp))).StatusCode)
	})
}

// A proof that is not accepted is as if absent: it never costs a client what its
// tokens or its address would have had.
func TestBadProofHarmsNobody(t *testing.T) {
	h := newSite(t, challenging(new(clock), middleware.WhenExhausted))
	require.Equal(t, 5, admitted(h, 9, proving("nonsense")))
	require.Equal(t, middleware.Reason("wrong-solution"), h.Decisions.Last().Proof)

	h = newSite(t, challenging(new(clock), middleware.Newcomers))
	own := bought(t, h)
	require.Equal(t, 5, admitted(h, 9, showing(own), proving("nonsense")))
}

// Several proofs in several lines, or joined by a proxy: the first that is good counts, of four at most.
func TestSeveralProofs(t *testing.T) {
	inAllModes(t, func(t *testing.T, mode middleware.Mode) {
		h := newSite(t, challenging(new(clock), mode))
		exhaustIn(t, mode, h)
		next := func() string { return solved(t, fetched(h)) }
		other := solved(t, fetched(h, from("203.0.113.2")))
		require.Equal(t, http.StatusOK, send(h, proving(other, next())).StatusCode)
		require.Empty(t, h.Decisions.Last().Proof)
		require.Equal(t, http.StatusOK, send(h, proving(other+", "+next())).StatusCode)
		require.Equal(t, http.StatusOK, send(h, proving(next()+","+other)).StatusCode)
		require.NotEqual(t, http.StatusOK, send(h, proving(other, other, other, other, next())).StatusCode)

		one, two := next(), next()
		require.Equal(t, http.StatusOK, send(h, proving(one, two)).StatusCode)
		if mode == middleware.EveryRequest {
			require.Equal(t, http.StatusForbidden, send(h, proving(one)).StatusCode, "spent")
		}
	})
}

func TestSeveralProofCookies(t *testing.T) {
	inAllModes(t, func(t *testing.T, mode middleware.Mode) {
		h := newSite(t, challenging(new(clock), mode))
		exhaustIn(t, mode, h)
		other := solved(t, fetched(h, from("203.0.113.2")))
		cookies := func(others int) option {
			const cookie = "__Host-tallystick-contact.proof.0badcafe="
			return with("Cookie", strings.Repeat(cookie+other+"; ", others)+cookie+solved(t, fetched(h)))
		}
		require.Equal(t, http.StatusOK, send(h, cookies(3)).StatusCode)
		require.NotEqual(t, http.StatusOK, send(h, cookies(4)).StatusCode)
	})
}

// Shadow mode decides, counts and tells the hook, and asks nobody for work.
func TestShadowNeverChallenges(t *testing.T) {
	inAllModes(t, func(t *testing.T, mode middleware.Mode) {
		cfg := challenging(new(clock), mode)
		cfg.Shadow = true
		h := newSite(t, cfg)
		for range 9 {
			resp := requireStatus(t, http.StatusOK, send(h))
			requireHeader(t, resp, middleware.ChallengeHeader, "", "Retry-After", "")
		}
		d := h.Decisions.Last()
		require.False(t, d.Admitted)
		require.True(t, d.Allowed)
		require.Nil(t, d.Offered)
		if mode == middleware.WhenExhausted {
			require.Equal(t, http.StatusTooManyRequests, d.Status)
		} else {
			require.Equal(t, http.StatusForbidden, d.Status)
			require.Equal(t, middleware.NoToken, d.Reason)
		}
		require.Equal(t, http.StatusOK, send(h, proving(solved(t, fetched(h)))).StatusCode)
		require.True(t, h.Decisions.Last().Admitted, "proofs are honoured, so that pages can be tried too")
	})
}

// Quiet hides the quota and nothing that a client needs for its work.
func TestQuietChallenge(t *testing.T) {
	cfg := challenging(new(clock), middleware.WhenExhausted)
	cfg.Quiet = true
	h := newSite(t, cfg)
	exhaust(t, h)
	resp := send(h)
	requireHeader(t, resp, "RateLimit", "", "RateLimit-Policy", "")
	require.NotEmpty(t, resp.Header.Get("Retry-After"))
	p := problemIn(t, resp)
	require.Empty(t, p.Violated)
	require.Equal(t, challengeIn(t, resp).Text, p.Challenge)
	ok := requireStatus(t, http.StatusOK, send(h, proving(solved(t, resp))))
	require.Empty(t, ok.Header.Get("RateLimit"))
	require.NotEmpty(t, tokenIn(ok), "it was paid for")
	require.Empty(t, redeemed(h, solved(t, fetched(h))).Header.Get("RateLimit-Policy"))

	cfg = challenging(new(clock), middleware.EveryRequest)
	cfg.Quiet, cfg.TokenTransport = true, middleware.MemoryOnly
	h = newSite(t, cfg)
	ok = requireStatus(t, http.StatusOK, send(h, proving(solved(t, send(h)))))
	require.Empty(t, tokenIn(ok))
}

// People get a page; it says what is wanted, and the challenge is in the field.
func TestChallengePage(t *testing.T) {
	html := with("Accept", "text/html")
	cfg := challenging(new(clock), middleware.Newcomers)
	cfg.Challenge.NoWaitingRoom = true
	h := newSite(t, cfg)
	resp := requireStatus(t, http.StatusForbidden, send(h, html))
	require.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"))
	challengeIn(t, resp)
	page := bodyOf(t, resp)
	require.Contains(t, page, "<title>Not sent yet – example.com</title>")
	require.Contains(t, page, "a short check")
	require.NotContains(t, page, "Try again in")

	own := bought(t, h)
	require.Equal(t, 5, admitted(h, 5, showing(own)))
	resp = requireStatus(t, http.StatusTooManyRequests, send(h, html, showing(own)))
	challengeIn(t, resp)
	require.Contains(t, bodyOf(t, resp), "Try again in 6")

	h.M.SellOut(midnight, peerIdentity)
	resp = requireStatus(t, http.StatusTooManyRequests, send(h, html), "sold out")
	page = bodyOf(t, resp)
	require.Regexp(t, "Try again in [0-9]+ (seconds|minutes)", page)
	require.NotContains(t, page, "a short check")
}

// The program's own refusal page finds everything in the decision.
func TestRefusedHandlerGetsTheChallenge(t *testing.T) {
	cfg := challenging(new(clock), middleware.Newcomers)
	var text string
	cfg.RefusalHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := middleware.FromContext(r.Context())
		require.Equal(t, middleware.NoToken, d.Reason)
		text = d.Offered.Text
		w.WriteHeader(d.Status)
	})
	h := newSite(t, cfg)
	resp := requireStatus(t, http.StatusForbidden, send(h))
	require.Equal(t, challengeIn(t, resp).Text, text)
}

// On responses that everybody may cache there is no place for a token, and a refusal is never one.
func TestChallengesAreNotCached(t *testing.T) {
	h := newSite(t, challenging(new(clock), middleware.Newcomers))
	h.Spy.Serve = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=60")
	}
	challengeIn(t, send(h, method("GET")))
	resp := requireStatus(t, http.StatusOK, send(h, method("GET"), proving(solved(t, fetched(h)))))
	require.NotEmpty(t, tokenIn(resp), "it was paid for with this request")
	require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	resp = requireStatus(t, http.StatusOK, send(h, method("GET"), showing(tokenIn(resp))))
	require.Empty(t, tokenIn(resp), "this one is the cache's")
	require.Equal(t, "public, max-age=60", resp.Header.Get("Cache-Control"))
}
