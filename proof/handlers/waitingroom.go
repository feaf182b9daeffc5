// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// LaneQuota is the quota without work of the waiting room of most tests: one in five of 20 a minute.
const LaneQuota = 4

// Waiting is Challenging with a waiting room.
func Waiting(c *Clock, mode middleware.Mode) middleware.Config {
	cfg := Challenging(c, mode)
	cfg.Limits = []middleware.Limit{Fixed(5*LaneQuota, time.Minute)}
	cfg.Challenge.WaitingRoom = 5
	return cfg
}

// HTML is a browser's Accept, in essence.
var HTML = With("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")

// WaitCookieIn returns the value of the cookie with a wait ticket; "": none.
func WaitCookieIn(t testing.TB, resp *http.Response) (value string) {
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

// Holding shows cookies with wait tickets.
func Holding(values ...string) Option {
	return func(r *http.Request) {
		for _, value := range values {
			r.Header.Add("Cookie", "__Host-tallystick-contact.wait="+value)
		}
	}
}

// RefusedWithTicket sends a request as a browser does and returns the ticket that it is refused with.
func RefusedWithTicket(t testing.TB, h http.Handler, options ...Option) string {
	t.Helper()
	resp := Send(h, append([]Option{HTML}, options...)...)
	require.GreaterOrEqual(t, resp.StatusCode, 400)
	value := WaitCookieIn(t, resp)
	require.Len(t, value, 44)
	return value
}

// TicketsOf returns tickets of one client, or of many behind one address.
func TicketsOf(t testing.TB, h http.Handler, n int, options ...Option) (tickets []string) {
	t.Helper()
	for range n {
		tickets = append(tickets, RefusedWithTicket(t, h, options...))
	}
	return tickets
}

// AdmittedWith shows each ticket once and returns how many requests were not refused.
func AdmittedWith(h http.Handler, tickets []string, options ...Option) (passed int) {
	for _, ticket := range tickets {
		passed += Admitted(h, 1, append([]Option{Holding(ticket)}, options...)...)
	}
	return passed
}

// Opened returns a site, and tickets of 203.0.113.1 that are open: more than its room has quota.
func Opened(t testing.TB, mode middleware.Mode, change ...func(*middleware.Config)) (*Site, *Clock, []string) {
	t.Helper()
	now := new(Clock)
	cfg := Waiting(now, mode)
	for _, change := range change {
		change(&cfg)
	}
	h := NewSite(t, cfg)
	tickets := TicketsOf(t, h, 2*LaneQuota)
	now.Advance(5 * time.Second)
	return h, now, tickets
}
