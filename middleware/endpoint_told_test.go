// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/keptform"
)

// What a page is told before it sends its form must be what becomes of the form.

// postsCostThree makes each POST cost three.
func postsCostThree(r *http.Request) int64 {
	if r.Method == http.MethodPost {
		return 3
	}
	return 1
}

// asked asks whether a request of a cost needs work.
func asked(t testing.TB, h http.Handler, cost int64, options ...option) (needed bool) {
	t.Helper()
	body := bodyOf(t, fetched(h, append(options, query(fmt.Sprintf("cost=%d", cost)))...))
	needed = !strings.Contains(body, `"needed":false`)
	require.Equal(t, !needed, strings.Contains(body, `"needed":false`), body)
	return needed
}

func TestChallengeEndpointKnowsTheCost(t *testing.T) {
	for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers} {
		cfg := challenging(new(clock), mode)
		cfg.Cost = postsCostThree
		h := newSite(t, cfg)
		var carried option = func(*http.Request) {}
		for i := range 6 {
			needed := asked(t, h, 3, carried)
			if needed {
				resp := requireStatus(t, http.StatusOK, redeemed(h, solved(t, fetched(h, carried))))
				carried = showing(tokenIn(resp))
				require.False(t, asked(t, h, 3, carried))
			}
			resp := requireStatus(t, http.StatusOK, send(h, method(http.MethodPost), carried), "%v: request %d", mode, i)
			if tok := tokenIn(resp); tok != "" {
				carried = showing(tok)
			}
		}
		require.False(t, asked(t, h, -1, carried), "a cost that is none is one")
		require.True(t, asked(t, h, 1<<40, from("192.0.2.200")) || mode == middleware.WhenExhausted)
	}
}

// Nothing but the cost is read of a query, and of a long one not even that.
func TestCostInAQuery(t *testing.T) {
	h := newSite(t, challenging(new(clock), middleware.WhenExhausted))
	require.Equal(t, 1, admitted(h, 1)) // four of five are left
	for q, dear := range map[string]bool{
		"": false, "cost": false, "cost=": false, "cost=x": false, "Cost=9": false, "xcost=9": false, "%63ost=9": false, "cost=-9": false, "cost=0": false,
		"cost=9": true, "a=%zz&&;&cost=9&cost=1": true, "cost=1&cost=9": false, "cost=99999999999999999999": true,
		"cost=9&" + strings.Repeat("a", 1017): true, "cost=9&" + strings.Repeat("a", 1018): false,
	} {
		require.Equal(t, dear, !strings.Contains(bodyOf(t, fetched(h, query(q))), `"needed":false`), "%.40q", q)
	}
}

// The held form says what it costs, because the endpoint cannot know.
func TestHeldFormSaysWhatItCosts(t *testing.T) {
	for cost, want := range map[int64]string{1: `<tally-check endpoint="/tally/">`, 3: `<tally-check endpoint="/tally/" cost="3">`} {
		cfg := challenging(new(clock), middleware.Newcomers)
		cfg.PageHandler, cfg.Challenge.Path = keptform.Handler{}, "/tally/"
		cfg.Cost = func(*http.Request) int64 { return cost }
		resp := send(newSite(t, cfg), submitting(urlencoded, "a=b"))
		require.Contains(t, bodyOf(t, resp), want)
	}
}

// While the memory is full a form goes the way that it always goes: who is told that nothing is needed passes
// without, and who buys a tally passes with it, though what they have left is less.
func TestFormsPassWhileTheMemoryIsFull(t *testing.T) {
	for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers} {
		now := new(clock)
		cfg := challenging(now, mode)
		cfg.MaxClients, cfg.Challenge.Crowd, cfg.Challenge.SalesPerHour = 256, 255, 1020
		cfg.Limits = []middleware.Limit{{Quota: 5, Window: time.Hour}}
		h := newSite(t, cfg)
		for i := range 2200 { // over 1536 cells
			at := from(fmt.Sprintf("%d.51.%d.%d", 11+i%100, i/256, i%256)) // one network alone takes a quarter of the room for sales
			if mode == middleware.WhenExhausted {
				send(h, at)
				continue
			}
			send(h, proving(solved(t, fetched(h, at))), at) // tallies that were bought fill it too
			now.Advance(time.Second)
		}
		require.Greater(t, h.M.Stats().Fill, 0.9)
		inherited := 0
		for i := range 40 {
			me := from(fmt.Sprintf("192.0.2.%d", i))
			var cookies []string
			if asked(t, h, 1, me) {
				resp := redeemed(h, solved(t, fetched(h, me)), me)
				require.Len(t, resp.Cookies(), 1)
				cookies = append(cookies, resp.Cookies()[0].Name+"="+resp.Cookies()[0].Value)
				require.GreaterOrEqual(t, expiresIn(t, resp), int64(3600), "as long as a tally lives")
			}
			require.Equal(t, http.StatusOK, send(h, me, with("Cookie", strings.Join(cookies, "; "))).StatusCode, "%v", mode)
			now.Advance(10 * time.Second) // sales of one moment have few places in so small a memory
			if h.Decisions.Last().Inherited > 0 {
				inherited++
			}
		}
		require.Positive(t, inherited, "the memory was full, %v", mode)
	}
}

// expiresIn is what a redemption says of how long it is worth something.
func expiresIn(t testing.TB, resp *http.Response) int64 {
	t.Helper()
	var body struct {
		ExpiresIn int64 `json:"expires-in"`
	}
	require.NoError(t, json.Unmarshal([]byte(bodyOf(t, resp)), &body))
	return body.ExpiresIn
}

// A proof that came by cookie while the memory was full stays for a while. It must not
// stand before what the client has besides.
func TestProofCookieHidesNothing(t *testing.T) {
	for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers} {
		h := newSite(t, challenging(new(clock), mode))
		cookie := "__Host-tallystick-contact.proof.0badcafe=" + solved(t, fetched(h))
		require.Equal(t, 5, admitted(h, 5, with("Cookie", cookie)), "the tally that it opens")
		tok := bought(t, h)
		require.Equal(t, 5, admitted(h, 5, with("Cookie", cookie+"; __Host-tallystick-contact="+tok)), "%v", mode)
	}
}

// Who asks for a dear request is told when a dear one passes.
func TestChallengeEndpointTellsTheWaitOfADearRequest(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.WhenExhausted)
	cfg.Limits = []middleware.Limit{{Name: "b", Algorithm: middleware.TokenBucket, Quota: 5, Window: 5 * time.Minute}}
	cfg.Challenge.Crowd, cfg.Challenge.SalesPerHour = 1, 4
	h := newSite(t, cfg)
	require.Equal(t, 5, admitted(h, 5))
	h.M.SellOut(now.Now(), peerIdentity)
	dear := query("cost=5")
	resp := requireStatus(t, http.StatusTooManyRequests, fetched(h, dear))
	require.GreaterOrEqual(t, retryAfter(t, resp), 5*time.Minute)
	require.LessOrEqual(t, retryAfter(t, resp), 6*time.Minute, "sooner than a tally is for sale again")
}

// ticketed returns the answer of the ticket endpoint.
func ticketed(h http.Handler, options ...option) *http.Response {
	return send(h, append([]option{method("GET"), path("/tally/ticket")}, options...)...)
}

// A browser that runs a script and cannot do the work asks for a ticket, waits, and
// sends its form: what was typed never leaves its page.
func TestTicketEndpoint(t *testing.T) {
	inAllModes(t, func(t *testing.T, mode middleware.Mode) {
		now := new(clock)
		h := newSite(t, waiting(now, mode))
		spendShared(t, h, mode)

		resp := requireStatus(t, http.StatusOK, ticketed(h))
		cookie := waitCookieIn(t, resp)
		require.Len(t, cookie, 44)
		require.JSONEq(t, `{"wait":5,"carried":false}`, bodyOf(t, resp))

		now.Advance(2 * time.Second)
		early := ticketed(h, holding(cookie))
		require.JSONEq(t, `{"wait":3,"carried":true}`, bodyOf(t, early))
		require.Equal(t, cookie, waitCookieIn(t, early), "the same: its wait does not begin anew")
		require.NotEqual(t, http.StatusOK, send(h, holding(cookie)).StatusCode)

		now.Advance(3 * time.Second)
		open := ticketed(h, holding(cookie))
		require.JSONEq(t, `{"wait":0,"carried":true}`, bodyOf(t, open))
		require.Empty(t, waitCookieIn(t, open), "nothing is charged, nothing has changed")
		h.Spy.Calls.Store(0)
		require.Equal(t, 1, admitted(h, laneQuota+1, holding(cookie)), "what one ticket is good for")

		resp = ticketed(h, holding(cookie))
		require.JSONEq(t, `{"wait":5,"carried":true}`, bodyOf(t, resp), "the next, though this one is used up")
		require.NotEqual(t, cookie, waitCookieIn(t, resp))
		spare, tickets := ticketsOf(t, h, 1)[0], ticketsOf(t, h, laneQuota)
		now.Advance(5 * time.Second)
		require.JSONEq(t, `{"wait":0,"carried":true}`, bodyOf(t, ticketed(h, holding(spare))))
		require.Equal(t, laneQuota-1, admittedWith(h, tickets))
		for what, held := range map[string]string{"used up": cookie, "open": spare} {
			resp = ticketed(h, holding(held))
			require.Regexp(t, `^\{"wait":[1-9][0-9]*,"carried":true\}`, bodyOf(t, resp), "the room is full: %s", what)
			require.NotEmpty(t, waitCookieIn(t, resp), what)
			require.NotEqual(t, http.StatusOK, send(h, holding(held)).StatusCode, "a form that is sent now is refused")
		}
	})
}

func TestTicketEndpointRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*middleware.Config)
		options []option
		status  int
	}{
		"no room":            {func(cfg *middleware.Config) { cfg.Challenge.WaitingRoom, cfg.Challenge.NoWaitingRoom = 0, true }, nil, http.StatusNotFound},
		"no GET":             {func(*middleware.Config) {}, []option{method("POST")}, http.StatusMethodNotAllowed},
		"more than it holds": {func(*middleware.Config) {}, []option{query("cost=9")}, http.StatusNotFound},
		"nobody":             {func(*middleware.Config) {}, []option{func(r *http.Request) { r.RemoteAddr = "@" }}, http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := waiting(new(clock), middleware.Newcomers)
			test.change(&cfg)
			resp := requireStatus(t, test.status, ticketed(newSite(t, cfg), test.options...))
			require.Empty(t, waitCookieIn(t, resp))
			require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
		})
	}
}

// A page that has bought something asks whether its browser brings it along.
func TestPurchasesThatComeAlong(t *testing.T) {
	carried := func(t *testing.T, h http.Handler, options ...option) bool {
		body := bodyOf(t, fetched(h, options...))
		require.True(t, strings.HasPrefix(body, `{"needed":`), body)
		return strings.Contains(body, `"carried":true`)
	}
	inAllModes(t, func(t *testing.T, mode middleware.Mode) {
		now := new(clock)
		h := newSite(t, challenging(now, mode))
		require.False(t, carried(t, h))
		redemption := requireStatus(t, http.StatusOK, redeemed(h, solved(t, fetched(h))))
		cookies := redemption.Cookies()
		require.Len(t, cookies, 1)
		bring := func(r *http.Request) { r.AddCookie(cookies[0]) }
		require.True(t, carried(t, h, bring))
		require.Equal(t, mode != middleware.EveryRequest, carried(t, h, bring, from("203.0.113.9")), "a tally is of who has it, a proof of who was asked")
		now.Advance(3 * time.Hour)
		require.False(t, carried(t, h, bring), "it has ended")
	})
}

// TestForesight shows what a page is told before it takes work on.
func TestForesight(t *testing.T) {
	look := func(h http.Handler, options ...option) string {
		resp := send(h, append([]option{method("GET"), path("/tally/challenge")}, options...)...)
		body := bodyOf(t, resp)
		body = regexp.MustCompile(`"challenge":"[^"]+"`).ReplaceAllString(body, `"challenge":…`)
		return resp.Status[:3] + " " + strings.TrimSpace(body)
	}
	c := new(clock)
	h := newSite(t, challenging(c, middleware.WhenExhausted))
	require.Equal(t, `200 {"needed":false,"left":5,"challenge":…,"ttl":10,"work":16}`, look(h))
	require.Equal(t, 5, admitted(h, 9))
	require.Equal(t, `200 {"needed":true,"left":0,"challenge":…,"ttl":10,"work":16}`, look(h))
	tok := tokenIn(redeemed(h, solve(t, challengeIn(t, fetched(h)))))
	require.Equal(t, `200 {"needed":false,"left":5,"carried":true,"challenge":…,"ttl":10,"work":24}`, look(h, showing(tok)), "of its own")
	c.Advance(8 * time.Minute)
	require.Equal(t, `200 {"needed":false,"left":5,"challenge":…,"ttl":10,"work":16}`, look(h))

	h = newSite(t, challenging(new(clock), middleware.Newcomers))
	require.Equal(t, `200 {"needed":true,"challenge":…,"ttl":10,"work":16}`, look(h))

	h = newSite(t, challenging(new(clock), middleware.EveryRequest))
	require.Equal(t, `200 {"needed":true,"left":5,"challenge":…,"ttl":10,"work":16}`, look(h))
	for range 5 {
		require.Equal(t, http.StatusOK, send(h, proving(solve(t, challengeIn(t, fetched(h))))).StatusCode)
	}
	require.Regexp(t, `^429 .*quota-exceeded`, look(h), "no proof would help")

	cfg := challenging(new(clock), middleware.WhenExhausted)
	cfg.Quiet = true
	h = newSite(t, cfg)
	require.Equal(t, `200 {"needed":false,"challenge":…,"ttl":10,"work":16}`, look(h))
}
