// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

func TestModes(t *testing.T) {
	theirs := func(mode middleware.Mode, keep func(*scene, *site)) func(*scene) { // of an instance in another mode
		return func(s *scene) { keep(s, newSite(s, challenging(s.now, mode))) }
	}
	nonce := func(cfg *middleware.Config) { cfg.Challenge.Work, cfg.Challenge.NonceOnly = 0, true }
	public := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "public, max-age=60") }
	paysFor := func(n int) []step { // n requests, each by work of its own
		return []step{{times: n, prove: fresh, want: 200}}
	}
	for name, mode := range allModes {
		status, reason := http.StatusForbidden, middleware.NoToken
		if mode == middleware.WhenExhausted {
			status, reason = http.StatusTooManyRequests, middleware.OverLimit
		}
		play(t, []scenario{{"shadow mode decides, counts and tells the hook, and asks no client for work/" + name, working(mode, func(cfg *middleware.Config) { cfg.Shadow = true }), []step{
			{times: 9, want: 200, fields: fields{middleware.ChallengeHeader: "", "Retry-After": ""}, see: all{would(status), func(s *scene) {
				require.Equal(s, reason, s.decision().Reason)
				require.Nil(s, s.decision().Offered)
			}}},
			{prove: fresh, want: 200, see: all{would(0)}}, // proofs are honoured, so that pages can be tried too
		}}})
	}
	play(t, []scenario{
		{"without a Challenge nothing is offered and no proof is read", limiting(), []step{
			{do: theirs(middleware.WhenExhausted, func(s *scene, h *site) { s.challenges["theirs"] = challengeIn(s, fetched(h)) }),
				prove: "theirs", times: 9, passes: 5},
			{prove: "theirs", want: 429, see: all{noChallenge, func(s *scene) {
				require.Empty(s, s.decision().Proof)
				require.Nil(s, s.decision().Offered)
			}}},
		}},
		{"a price that has risen is a reason", working(middleware.Newcomers), []step{
			{as: toFetch, want: 200, keep: "cheap"}, {do: buys("1")}, {do: buys("2")}, {do: buys("3")},
			{prove: "cheap", want: 403, reason: middleware.NoToken, proof: "price-risen", keep: "dear", see: all{because("price-risen")}},
			{as: toRedeem, prove: "cheap", want: 403}, {prove: "dear", want: 200},
		}},
		{"a bad proof costs nothing of the address", working(middleware.WhenExhausted), []step{
			{as: proving("nonsense"), times: 9, passes: 5, proof: "wrong-solution"},
		}},
		{"a bad proof costs nothing of a token", working(middleware.Newcomers), []step{
			{do: buys("own"), as: proving("nonsense"), show: "own", times: 9, passes: 5},
		}},
		{"Quiet hides the quota and nothing that work needs", working(middleware.WhenExhausted, quietly), []step{
			{times: 5, want: 200},
			{want: 429, keep: "offer", fields: fields{"RateLimit": "", "RateLimit-Policy": "", "Retry-After": anything}, see: all{func(s *scene) {
				p := problemIn(s, s.answer())
				require.Empty(s, p.Violated)
				require.Equal(s, s.challenges["offer"].Text, p.Challenge)
			}}},
			{prove: "offer", want: 200, fields: fields{"RateLimit": "", middleware.TokenHeader: anything}}, // it was paid for
			{as: toRedeem, prove: fresh, want: 200, fields: fields{"RateLimit-Policy": ""}},
		}},
		{"Quiet in memory alone sends no token", working(middleware.EveryRequest, quietly, func(cfg *middleware.Config) {
			cfg.TokenTransport = middleware.MemoryOnly
		}), []step{
			{want: 403, keep: "offer"}, {prove: "offer", want: 200, fields: fields{middleware.TokenHeader: ""}},
		}},
		{"a page says what is wanted, and its field has the challenge", working(middleware.Newcomers, func(cfg *middleware.Config) {
			cfg.Challenge.NoWaitingRoom = true
		}), []step{
			{as: html, want: 403, keep: "offer", fields: fields{"Content-Type": "text/html; charset=utf-8"},
				see: all{says("<title>Not sent yet – example.com</title>"), says("a short check"), lacks("Try again in")}},
			{do: buys("own"), show: "own", times: 5, want: 200},
			{as: html, show: "own", want: 429, keep: "offer", see: all{says("Try again in 6")}},
			{do: func(s *scene) { s.site.M.SellOut(midnight, peerIdentity) }, as: html, want: 429, see: all{lacks("a short check"), func(s *scene) {
				require.Regexp(s, "Try again in [0-9]+ (seconds|minutes)", s.body) // sold out
			}}},
		}},
		{"the program's own refusal finds the challenge in the decision", working(middleware.Newcomers, func(cfg *middleware.Config) {
			cfg.RefusalHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				d, _ := middleware.FromContext(r.Context())
				w.Header().Set("Offered", d.Offered.Text)
				w.WriteHeader(d.Status)
			})
		}), []step{{want: 403, reason: middleware.NoToken, keep: "offer", see: all{func(s *scene) {
			require.Equal(s, s.challenges["offer"].Text, s.last.Header.Get("Offered"))
		}}}}},
		// A response that shared caches may store has no place for a token.
		{"no cache stores a challenge, or what was paid for", working(middleware.Newcomers).serving(public), []step{
			{as: method("GET"), want: 403, keep: "offer", see: all{func(s *scene) { challengeIn(s, s.answer()) }}},
			{as: method("GET"), prove: fresh, want: 200, keep: "own", fields: fields{middleware.TokenHeader: anything, "Cache-Control": "no-store"}},
			{as: method("GET"), show: "own", want: 200, fields: fields{middleware.TokenHeader: "", "Cache-Control": "public, max-age=60"}},
		}},
		{"EveryRequest: one proof is one request of the shared tally", working(middleware.EveryRequest), append([]step{
			{want: 403, reason: middleware.NoToken, keep: "offer", see: all{because(middleware.NoToken)}},
			{prove: "offer", want: 200, keep: "tally", fields: fields{"RateLimit": `"contact";r=4;t=60`}, see: all{shared, func(s *scene) {
				require.NotEmpty(s, claimsIn(s, s.tokens["tally"]).Sub)
				require.Empty(s, claimsIn(s, s.tokens["tally"]).Fam)
			}}},
			{prove: "offer", want: 403, reason: middleware.ProofReplayed, proof: middleware.ProofReplayed,
				see: all{because(middleware.ProofReplayed), work(16)}}, // the price does not double
			{show: "tally", want: 403}, // a token is no proof
		}, append(paysFor(4), step{see: all{passed(5)}})...)},
		{"EveryRequest: over the limit no work is asked for, and none is lost", working(middleware.EveryRequest), []step{
			{after: 55 * time.Second, as: toFetch, want: 200, keep: "first"}, {as: toFetch, want: 200, keep: "spare"},
			{prove: "first", want: 200}, {times: 4, prove: fresh, want: 200},
			{prove: "spare", want: 429, reason: middleware.OverLimit, fields: fields{"Retry-After": "5"}, see: all{noChallenge}},
			{want: 429, reason: middleware.OverLimit, fields: fields{"Retry-After": "5"}, see: all{noChallenge}},
			{as: proving("nonsense"), want: 429, reason: middleware.OverLimit, fields: fields{"Retry-After": "5"}, see: all{noChallenge}},
			{after: 5 * time.Second, prove: "spare", want: 200}, // a refusal strikes no proof
			{prove: "spare", want: 403}, {prove: "first", want: 403}, // struck for as long as it lives
		}},
		{"EveryRequest: what is refused for another reason strikes no proof, and peeks are free", working(middleware.EveryRequest, costly), []step{
			{want: 403, keep: "offer"}, {as: costing(6), prove: "offer", want: 403, reason: middleware.CostAboveQuota},
			{as: costing(-1), prove: "offer", want: 500}, {as: costing(0), prove: "offer", want: 200}, {as: costing(0), want: 403},
			{as: costing(4), prove: "offer", want: 200}, {prove: "offer", want: 403},
		}},
		{"EveryRequest: without memory a proof is good for all of its life", working(middleware.EveryRequest, func(cfg *middleware.Config) {
			cfg.InsecureNoMemory = true
		}), []step{
			{want: 403, keep: "offer"}, {prove: "offer", times: 9, want: 200},
			{do: func(s *scene) { delete(s.tokens, latest) }, prove: "offer", show: latest, times: 5, want: 200}, {prove: "offer", show: latest, want: 429},
			{after: 11 * time.Second, prove: "offer", times: 9},
		}},
		{"NonceOnly asks for a round trip: a nonce that solves itself", working(middleware.EveryRequest, nonce), []step{
			{want: 403, keep: "nonce", see: all{work(0), func(s *scene) { require.Equal(s, 10*time.Second, s.challenges["nonce"].TTL) }}},
			{do: func(s *scene) {
				requireStatus(s, http.StatusForbidden, send(s.site, proving(s.challenges["nonce"].Text)), "a challenge is not its answer")
			}, prove: "nonce", times: 9, passes: 1},
			{want: 403, keep: "late"}, {after: 11 * time.Second, prove: "late", want: 403, proof: "expired"},
		}},
		{"WhenExhausted: the shared quota first, then a tally of one's own for work", working(middleware.WhenExhausted), []step{
			{after: 20 * time.Second, times: 5, want: 200, see: all{noChallenge, shared}},
			{want: 429, retry: 40, reason: middleware.OverLimit, keep: "offer", see: all{work(16), func(s *scene) {
				c, p := s.challenges["offer"], problemIn(s, s.answer())
				require.Equal(s, c, *s.decision().Offered)
				require.NotEmpty(s, p.Detail)
				require.Equal(s, problem{
					Type:   "https://iana.org/assignments/http-problem-types#quota-exceeded",
					Title:  "Quota exceeded",
					Status: 429, Detail: p.Detail, Violated: []string{"contact"},
					Reason: middleware.OverLimit, Challenge: c.Text, TTL: 10, Work: 16,
					ChallengeURL: "/tally/challenge", RedeemURL: "/tally/redeem",
				}, p)
			}}},
			{prove: "offer", want: 200, keep: "own", fields: fields{"RateLimit": `"contact";r=4;t=40`}, see: all{own, func(s *scene) { // opened, and charged
				claims := claimsIn(s, s.tokens["own"])
				require.Empty(s, claims.Sub, "not bound to an address")
				require.Len(s, claims.Fam, 8)
				require.EqualValues(s, midnight.Add(20*time.Second+time.Hour).Unix(), claims.Exp, "an hour from the challenge")
				require.Equal(s, s.tokens["own"], cookieIn(s.last).Value)
				require.Equal(s, 3600, cookieIn(s.last).MaxAge)
			}}},
			{show: "own", times: 9, passes: 4}, {times: 9}, // the shared tally has nothing of it
			{show: "own", want: 429, keep: "again"}, {show: "own", prove: "again", want: 200},
		}},
		{"Newcomers: a client without a tally of its own proves work first", working(middleware.Newcomers), []step{
			{want: 403, reason: middleware.NoToken, keep: "offer", fields: fields{"Retry-After": "", middleware.TokenHeader: ""}, see: all{func(s *scene) {
				require.Empty(s, s.decision().Proof)
				require.Empty(s, s.decision().Limits(), "no limit was asked")
				require.Equal(s, problem{
					Type:   "https://github.com/tallystick/tallystick/blob/main/docs/clients.md#proof-required",
					Title:  "Proof of work required",
					Status: 403, Detail: "Solve the challenge and send the request again with the proof.",
					Reason: middleware.NoToken, Challenge: s.challenges["offer"].Text, TTL: 10, Work: 16,
					ChallengeURL: "/tally/challenge", RedeemURL: "/tally/redeem",
				}, problemIn(s, s.answer()))
			}}},
			{prove: "offer", want: 200, keep: "own"}, {show: "own", times: 9, passes: 4}, {want: 403}, // the address has gained nothing
			{show: "own", want: 429, keep: "dearer", fields: fields{"Retry-After": anything}, see: all{work(24), because(middleware.OverLimit)}}, // half a Crowd has been sold
			{prove: "dearer", want: 200, keep: "second"}, {show: "second", times: 4, want: 200},
			{show: "own second", want: 429, keep: "risen", see: all{work(32), func(s *scene) { // a Crowd of two: the price doubles
				require.Equal(s, s.challenges["risen"], *s.decision().Offered)
				s.now.Advance(retryAfter(s, s.last))
			}}},
			{show: "own", want: 200},
		}},
		{"own tokens count where tallies are sold", working(middleware.Newcomers), []step{
			{do: buys("own"), show: "own", want: 200},
			{do: becomes(func(cfg *middleware.Config) { cfg.Challenge.Mode = middleware.EveryRequest }), show: "own", want: 403, see: all{func(s *scene) { require.Zero(s, s.decision().Tokens) }}},
			{show: "own", prove: fresh, want: 200, see: all{shared, func(s *scene) { require.Empty(s, claimsIn(s, tokenIn(s.last)).Fam, "nor is it answered") }}},
			{do: becomes(func(cfg *middleware.Config) { cfg.Challenge = nil }), show: "own", times: 9, passes: 4, see: all{shared}}, // nor where nothing is ever asked
		}},
		{"Newcomers: a shared token is nothing", working(middleware.Newcomers), []step{
			{do: theirs(middleware.WhenExhausted, func(s *scene, h *site) { s.tokens["shared"] = tokenIn(send(h)) }),
				show: "shared", cookie: "shared", want: 403, reason: middleware.NoToken, keep: "offer"},
			{show: "shared", prove: "offer", want: 200},
		}},
		{"no work is asked for what can never pass", working(middleware.Newcomers, costly), []step{
			{as: costing(6), want: 403, reason: middleware.CostAboveQuota, see: all{noChallenge}}, {want: 403, see: all{work(16)}},
		}},
		{"nor while busy", working(middleware.WhenBusy, costly), []step{
			{do: func(s *scene) { strangers(s.site, 30) }, as: costing(6), want: 403, reason: middleware.CostAboveQuota, see: all{noChallenge}},
			{want: 403, keep: "offer"},
		}},
	})
}

// The reason why a proof was not accepted goes to the client, the hook and the
// body, in every mode; what is offered instead is fresh and good.
func TestReasons(t *testing.T) {
	made := func(proof func(s *scene) string) []step {
		return []step{{do: func(s *scene) { s.proofs["bad"] = proof(s) }}}
	}
	for name, mode := range allModes {
		status := map[bool]int{false: 403, true: 429}[mode == middleware.WhenExhausted]
		for _, bad := range []struct {
			reason middleware.Reason
			before []step
		}{
			{"expired", []step{{as: toFetch, want: 200, keep: "bad"}, {after: 11 * time.Second}}},
			{"wrong-solution", made(func(s *scene) string { return challengeIn(s, fetched(s.site)).Text + "~0.0.0.0.0.0.0.0" })},
			{"wrong-solution", made(func(*scene) string { return "nonsense" })},
			{"secret-unknown", made(func(s *scene) string { // forged, or so it looks
				proof := solved(s, fetched(s.site))
				return proof[:130] + strings.Map(func(c rune) rune { return 'A' + (c+1)%26 }, proof[130:136]) + proof[136:]
			})},
			{"client-changed", []step{{as: both(toFetch, from("203.0.113.2")), want: 200, keep: "bad"}}},
		} {
			play(t, []scenario{{string(bad.reason) + "/" + name, working(mode), slices.Concat([]step{exhausting(mode)}, bad.before, []step{
				{prove: "bad", want: status, proof: bad.reason, keep: "instead", see: all{because(bad.reason), func(s *scene) {
					require.Equal(s, status, s.decision().Status)
					require.Equal(s, *s.decision().Offered, s.challenges["instead"])
				}}},
				{as: toRedeem, prove: "bad", want: 403, see: all{because(bad.reason)}}, {prove: "instead", want: 200},
			})}})
		}
	}
}

// Several proofs in several lines or cookies, or joined by a proxy: the first that is good counts, of four at most.
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

		h = newSite(t, challenging(new(clock), mode))
		exhaustIn(t, mode, h)
		cookies := func(others int) option {
			const cookie = "__Host-tallystick-contact.proof.0badcafe="
			return with("Cookie", strings.Repeat(cookie+other+"; ", others)+cookie+next())
		}
		require.NotEqual(t, http.StatusOK, send(h, cookies(4)).StatusCode)
		require.Equal(t, http.StatusOK, send(h, cookies(3)).StatusCode)
	})
}

// In EveryRequest a client that proves L times a window shuts the address, to other working clients too: for L·W a
// window, and with NonceOnly for nothing. The table of what shutting costs says so.
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

// An own tally is limited by its id, whichever client shows it; where it is bound it is good for its
// buyer alone.
func TestOwnTallyAndAddresses(t *testing.T) {
	key := func(id string) option { return with("Key", id) }
	byKey := func(cfg *middleware.Config) {
		cfg.Identity = middleware.ValidatedKey(func(r *http.Request) (middleware.Identity, error) {
			return middleware.APIKey(r.Header.Get("Key")), nil
		}, middleware.PeerAddress)
	}
	byUser := func(cfg *middleware.Config) {
		cfg.Identity = func(r *http.Request) (middleware.Identity, error) {
			return middleware.Principal(r.Header.Get("Key")), nil
		}
	}
	home, mobile := from("203.0.113.1"), from("2001:db8::1")
	for _, test := range []struct {
		name          string
		change        change
		buyer, second option
		left          int // for the second, when the buyer has used two
	}{
		{"by default", func(*middleware.Config) {}, home, mobile, 3},
		{"BindOwn", func(cfg *middleware.Config) { cfg.Challenge.BindOwn = true }, home, mobile, 0},
		{"keys", byKey, key("a"), key("b"), 0},
		{"principals", byUser, key("a"), key("b"), 0},
		{"a tally of no key, shown with one", byKey, home, key("b"), 0},
		{"a tally of a key, shown without", byKey, key("b"), home, 0},
	} {
		for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers} {
			play(t, []scenario{{test.name, working(mode, test.change), []step{
				exhausting(mode, test.buyer), exhausting(mode, test.second),
				{do: buys("own", test.buyer), as: test.buyer, show: "own", times: 2, want: 200},
				{as: test.second, show: "own", times: 9, passes: test.left}, {as: test.buyer, show: "own", times: 9, passes: 3 - test.left},
			}}})
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
		for i := range 10 { // its own five, and the shared five that no other client wants
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
	nearer := func(name string, window time.Duration, leak int64, least, most time.Duration, then step) scenario {
		return scenario{name, working(middleware.WhenExhausted, func(cfg *middleware.Config) {
			cfg.Limits[0].Window, cfg.Challenge.Crowd, cfg.Challenge.SalesPerHour = window, 1, leak
		}), []step{
			exhausting(middleware.WhenExhausted),
			{do: func(s *scene) { s.site.M.SellOut(s.now.Now(), peerIdentity) }, want: 429, see: all{noChallenge, func(s *scene) {
				wait := retryAfter(s, s.last)
				require.GreaterOrEqual(s, wait, least)
				require.LessOrEqual(s, wait, most)
				s.now.Advance(wait)
			}}}, then,
		}}
	}
	play(t, []scenario{
		nearer("the window", time.Minute, 4, time.Minute, 66*time.Second, step{want: 200}),
		nearer("the sale", 24*time.Hour, 240, time.Second, 17*time.Second, step{want: 429, keep: "offer"}),
	})
}

// Above the highest price nothing is for sale, and a newcomer is told when something
// will be: to the second, and no challenge asks for more.
func TestSoldOut(t *testing.T) {
	soldOut := func(as option, proof string, reason middleware.Reason) step {
		return step{as: as, prove: proof, want: 429, fields: fields{"Cache-Control": "no-store", middleware.ChallengeHeader: ""}, see: all{
			because(reason), typed("https://iana.org/assignments/http-problem-types#quota-exceeded"), waitsAtMost((450 + 30) * time.Second), func(s *scene) { // one sale leaks
				p := problemIn(s, s.answer())
				require.Empty(s, p.Challenge)
				require.Empty(s, p.Violated)
				require.NotEmpty(s, p.Detail)
			},
		}}
	}
	play(t, []scenario{{"by the address", working(middleware.Newcomers), []step{
		{as: toFetch, want: 200, keep: "1"}, {as: toFetch, want: 200, keep: "2"}, {do: func(s *scene) { s.site.M.SellOut(s.now.Now(), peerIdentity) }},
		soldOut(nil, "", middleware.SoldOut), soldOut(toFetch, "", middleware.SoldOut), soldOut(toRedeem, "1", "price-risen"), soldOut(nil, "2", "price-risen"),
		{want: 429, reason: middleware.SoldOut, see: all{func(s *scene) {
			require.Equal(s, http.StatusTooManyRequests, s.decision().Status)
			for waited := 0; fetched(s.site).StatusCode == http.StatusTooManyRequests; waited++ {
				require.Less(s, waited, 450)
				s.now.Advance(time.Second)
			}
		}}},
		{want: 403, keep: "next", see: all{func(s *scene) { // the next is for sale
			require.LessOrEqual(s, s.challenges["next"].Work, uint64(1<<32))
			require.Greater(s, s.challenges["next"].Work, uint64(1<<31))
		}}},
		{as: from("203.0.113.9"), want: 403}, // other addresses were never concerned
	}}})
}
