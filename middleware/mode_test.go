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

// WhenExhausted: the shared quota first, then a tally of one's own for work.
func TestWhenExhausted(t *testing.T) {
	now := new(clock)
	h := newSite(t, challenging(now, middleware.WhenExhausted))
	now.Advance(20 * time.Second)

	for range 5 {
		resp := requireStatus(t, http.StatusOK, send(h), "the shared quota is free")
		requireNoChallenge(t, resp)
		require.False(t, h.Decisions.Last().Own)
	}
	refused := requireStatus(t, http.StatusTooManyRequests, send(h))
	require.GreaterOrEqual(t, retryAfter(t, refused), 40*time.Second, "for who would rather wait")
	c := challengeIn(t, refused)
	require.EqualValues(t, 16, c.Work)
	d := h.Decisions.Last()
	require.Equal(t, middleware.OverLimit, d.Reason)
	require.Equal(t, c, *d.Offered)
	p := problemIn(t, refused)
	require.Equal(t, problem{
		Type:   "https://iana.org/assignments/http-problem-types#quota-exceeded",
		Title:  "Quota exceeded",
		Status: 429, Detail: p.Detail, Violated: []string{"contact"},
		Reason: middleware.OverLimit, Challenge: c.Text, TTL: 10, Work: 16,
		ChallengeURL: "/tally/challenge", RedeemURL: "/tally/redeem",
	}, p)
	require.NotEmpty(t, p.Detail)

	resp := requireStatus(t, http.StatusOK, send(h, proving(solve(t, c))))
	require.Equal(t, `"contact";r=4;t=40`, resp.Header.Get("RateLimit"), "opened, and charged")
	require.True(t, h.Decisions.Last().Own)
	tok := tokenIn(resp)
	require.Empty(t, claimsIn(t, tok).Sub, "not bound to an address")
	require.Len(t, claimsIn(t, tok).Fam, 8)
	require.EqualValues(t, midnight.Add(20*time.Second+time.Hour).Unix(), claimsIn(t, tok).Exp, "an hour from the challenge")
	require.Equal(t, tok, cookieIn(resp).Value)
	require.Equal(t, 3600, cookieIn(resp).MaxAge)
	require.Equal(t, 4, admitted(h, 9, showing(tok)), "the rest of its own quota, whatever others do")
	require.Zero(t, admitted(h, 9), "the shared tally has nothing of it")

	again := requireStatus(t, http.StatusTooManyRequests, send(h, showing(tok)))
	challengeIn(t, again)
	require.Equal(t, http.StatusOK, send(h, showing(tok), proving(solved(t, again))).StatusCode, "and one more tally")
}

// An own tally is limited by its id, whoever shows it; where it is bound it is good for its buyer alone.
func TestOwnTallyAndAddresses(t *testing.T) {
	key := func(id string) option { return with("Key", id) }
	byKey := middleware.ValidatedKey(func(r *http.Request) (middleware.Identity, error) {
		return middleware.APIKey(r.Header.Get("Key")), nil
	}, middleware.PeerAddress)
	byUser := func(r *http.Request) (middleware.Identity, error) {
		return middleware.Principal(r.Header.Get("Key")), nil
	}
	home, mobile := from("203.0.113.1"), from("2001:db8::1")
	for _, test := range []struct {
		name          string
		cfg           func(*middleware.Config)
		buyer, second option
		bound         bool
	}{
		{"by default", func(*middleware.Config) {}, home, mobile, false},
		{"BindOwn", func(cfg *middleware.Config) { cfg.Challenge.BindOwn = true }, home, mobile, true},
		{"keys", func(cfg *middleware.Config) { cfg.Identity = byKey }, key("a"), key("b"), true},
		{"principals", func(cfg *middleware.Config) { cfg.Identity = byUser }, key("a"), key("b"), true},
		{"a tally of no key, shown with one", func(cfg *middleware.Config) { cfg.Identity = byKey }, home, key("b"), true},
		{"a tally of a key, shown without", func(cfg *middleware.Config) { cfg.Identity = byKey }, key("b"), home, true},
	} {
		for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers} {
			t.Run(test.name, func(t *testing.T) {
				cfg := challenging(new(clock), mode)
				test.cfg(&cfg)
				h := newSite(t, cfg)
				if mode == middleware.WhenExhausted {
					exhaust(t, h, test.buyer)
					exhaust(t, h, test.second)
				}
				tok := bought(t, h, test.buyer)
				require.Equal(t, 2, admitted(h, 2, showing(tok), test.buyer))
				left := 3
				if test.bound {
					left = 0
				}
				require.Equal(t, left, admitted(h, 9, showing(tok), test.second))
				require.Equal(t, 3-left, admitted(h, 9, showing(tok), test.buyer))
			})
		}
	}
}

// A client pays for its tally once, and keeps it: whatever the shared one has
// left, the answer never takes its place in a cookie or in a script's variable.
func TestOwnTokenIsNotOverwritten(t *testing.T) {
	now := new(clock)
	h := newSite(t, challenging(now, middleware.WhenExhausted))
	jar := bought(t, h)
	for minute := range 55 {
		for i := range 10 { // its own five, and the shared five that nobody else wants
			resp := requireStatus(t, http.StatusOK, send(h, showingCookie(jar)), "minute %d, request %d", minute, i)
			require.Equal(t, i < 5, h.Decisions.Last().Own)
			if c := cookieIn(resp); c != nil {
				jar = c.Value
			}
		}
		require.NotEmpty(t, claimsIn(t, jar).Fam)
		now.Advance(time.Minute)
	}
	require.Equal(t, http.StatusOK, send(h, showingCookie(jar)).StatusCode)
	require.True(t, h.Decisions.Last().Own)
	now.Advance(5 * time.Minute)
	require.Equal(t, http.StatusOK, send(h, showingCookie(jar)).StatusCode)
	require.False(t, h.Decisions.Last().Own, "its life is over")
}

// Where the window's rest is shorter than the time until the price is below the highest,
// that is what Retry-After says; where a tally is for sale first, it is that.
func TestRetryAfterIsTheNearerWay(t *testing.T) {
	for name, test := range map[string]struct {
		window      time.Duration
		leak        int64
		least, most time.Duration
	}{
		"the window": {time.Minute, 4, time.Minute, 66 * time.Second},
		"the sale":   {24 * time.Hour, 240, time.Second, 17 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, middleware.WhenExhausted)
			cfg.Limits[0].Window, cfg.Challenge.Crowd, cfg.Challenge.SalesPerHour = test.window, 1, test.leak
			h := newSite(t, cfg)
			exhaust(t, h)
			h.M.SellOut(now.Now(), peerIdentity)
			resp := requireStatus(t, http.StatusTooManyRequests, send(h))
			wait := retryAfter(t, resp)
			require.GreaterOrEqual(t, wait, test.least)
			require.LessOrEqual(t, wait, test.most)
			requireNoChallenge(t, resp)
			now.Advance(wait)
			if name == "the sale" {
				challengeIn(t, send(h))
				return
			}
			require.Equal(t, http.StatusOK, send(h).StatusCode)
		})
	}
}

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
