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

// The waiting room of most tests: 20 a minute, of which one in five without work.
const laneQuota = 4

func waiting(c *clock, mode middleware.Mode) middleware.Config {
	cfg := challenging(c, mode)
	cfg.Limits = []middleware.Limit{fixed(5*laneQuota, time.Minute)}
	cfg.Challenge.WaitingRoom = 5
	return cfg
}

// html is a browser's Accept, in essence.
var html = with("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")

// waitCookieIn returns the value of the cookie with a wait ticket; "": none.
func waitCookieIn(t testing.TB, resp *http.Response) (value string) {
	t.Helper()
	for _, c := range resp.Cookies() {
		if c.Name != "__Host-tallystick-contact.wait" {
			continue
		}
		require.Empty(t, value, "two of them")
		require.True(t, c.Secure)
		require.True(t, c.HttpOnly)
		require.Equal(t, "/", c.Path)
		require.Empty(t, c.Domain)
		require.Equal(t, http.SameSiteLaxMode, c.SameSite)
		require.Positive(t, c.MaxAge)
		require.LessOrEqual(t, len(c.Value), 44+1+512)
		require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
		value = c.Value
	}
	return value
}

// holding shows cookies with wait tickets.
func holding(values ...string) option {
	return func(r *http.Request) {
		for _, value := range values {
			r.Header.Add("Cookie", "__Host-tallystick-contact.wait="+value)
		}
	}
}

// refusedWithTicket sends a request as a browser does and returns the ticket that it is refused with.
func refusedWithTicket(t testing.TB, h http.Handler, options ...option) string {
	t.Helper()
	resp := send(h, append([]option{html}, options...)...)
	require.GreaterOrEqual(t, resp.StatusCode, 400)
	value := waitCookieIn(t, resp)
	require.Len(t, value, 44)
	return value
}

// ticketsOf returns tickets of one client, or of many behind one address.
func ticketsOf(t testing.TB, h http.Handler, n int, options ...option) (tickets []string) {
	t.Helper()
	for range n {
		tickets = append(tickets, refusedWithTicket(t, h, options...))
	}
	return tickets
}

// admittedWith shows each ticket once and returns how many requests were not refused.
func admittedWith(h http.Handler, tickets []string, options ...option) (passed int) {
	for _, ticket := range tickets {
		passed += admitted(h, 1, append([]option{holding(ticket)}, options...)...)
	}
	return passed
}

// spendShared uses up what the identity has without work and without waiting.
func spendShared(t testing.TB, h http.Handler, mode middleware.Mode, options ...option) {
	t.Helper()
	if mode == middleware.WhenExhausted {
		require.Equal(t, 5*laneQuota, admitted(h, 5*laneQuota+1, options...))
	}
}

// ticketOf returns the ticket of a cookie's value, without the tally.
func ticketOf(value string) string {
	ticket, _, _ := strings.Cut(value, "~")
	return ticket
}

// opened returns a site, and tickets of 203.0.113.1 that are open: more than its room has quota.
func opened(t testing.TB, mode middleware.Mode, change ...func(*middleware.Config)) (*site, *clock, []string) {
	t.Helper()
	now := new(clock)
	cfg := waiting(now, mode)
	for _, change := range change {
		change(&cfg)
	}
	h := newSite(t, cfg)
	tickets := ticketsOf(t, h, 2*laneQuota)
	now.advance(5 * time.Second)
	return h, now, tickets
}
