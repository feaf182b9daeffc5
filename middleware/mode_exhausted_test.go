// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

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
