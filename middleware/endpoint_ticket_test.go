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

// ticketed returns the answer of the ticket endpoint.
func ticketed(h http.Handler, options ...option) *http.Response {
	return send(h, append([]option{method("GET"), path("/tally/ticket")}, options...)...)
}

// A browser that runs a script and cannot do the work asks for a ticket, waits, and
// sends its form: what was typed never leaves its page.
func TestTicketEndpoint(t *testing.T) {
	for name, mode := range allModes {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			h := newSite(t, waiting(now, mode))
			spendShared(t, h, mode)

			resp := ticketed(h)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			cookie := waitCookieIn(t, resp)
			require.Len(t, cookie, 44)
			require.JSONEq(t, `{"wait":5,"carried":false}`, bodyOf(t, resp))

			now.advance(2 * time.Second)
			early := ticketed(h, holding(cookie))
			require.JSONEq(t, `{"wait":3,"carried":true}`, bodyOf(t, early))
			require.Equal(t, cookie, waitCookieIn(t, early), "the same: its wait does not begin anew")
			require.NotEqual(t, http.StatusOK, send(h, holding(cookie)).StatusCode)

			now.advance(3 * time.Second)
			open := ticketed(h, holding(cookie))
			require.JSONEq(t, `{"wait":0,"carried":true}`, bodyOf(t, open))
			require.Empty(t, waitCookieIn(t, open), "nothing is charged, nothing has changed")
			h.spy.calls.Store(0)
			require.Equal(t, 1, admitted(h, laneQuota+1, holding(cookie)), "what one ticket is good for")

			resp = ticketed(h, holding(cookie))
			require.JSONEq(t, `{"wait":5,"carried":true}`, bodyOf(t, resp), "the next, though this one is used up")
			require.NotEqual(t, cookie, waitCookieIn(t, resp))
			spare, tickets := ticketsOf(t, h, 1)[0], ticketsOf(t, h, laneQuota)
			now.advance(5 * time.Second)
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
}

func TestTicketEndpointRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*middleware.Config)
		options []option
		status  int
	}{
		"no room":            {func(cfg *middleware.Config) { cfg.Challenge.WaitingRoom, cfg.Challenge.NoWaitingRoom = 0, true }, nil, http.StatusNotFound},
		"no GET":             {func(*middleware.Config) {}, []option{method("POST")}, http.StatusMethodNotAllowed},
		"more than it holds": {func(*middleware.Config) {}, []option{func(r *http.Request) { r.URL.RawQuery = "cost=9" }}, http.StatusNotFound},
		"nobody":             {func(*middleware.Config) {}, []option{func(r *http.Request) { r.RemoteAddr = "@" }}, http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := waiting(new(clock), middleware.Newcomers)
			test.change(&cfg)
			resp := ticketed(newSite(t, cfg), test.options...)
			require.Equal(t, test.status, resp.StatusCode)
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
	for name, mode := range allModes {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			h := newSite(t, challenging(now, mode))
			require.False(t, carried(t, h))
			redemption := redeemed(h, solved(t, fetched(h)))
			require.Equal(t, http.StatusOK, redemption.StatusCode)
			cookies := redemption.Cookies()
			require.Len(t, cookies, 1)
			bring := func(r *http.Request) { r.AddCookie(cookies[0]) }
			require.True(t, carried(t, h, bring))
			require.False(t, carried(t, h, bring, from("203.0.113.9")) && mode == middleware.EveryRequest, "somebody else's proof")
			now.advance(3 * time.Hour)
			require.False(t, carried(t, h, bring), "it has ended")
		})
	}
}
