// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/token"
)

// A request keeps less than a Decision has. What is kept apart, because few have it, is in the
// Decision of those that do.

func TestDecisionTellsOfAllLimits(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Limits = []middleware.Limit{
		{Name: "a", Algorithm: middleware.FixedWindow, Quota: 9, Window: time.Minute},
		{Name: "b", Algorithm: middleware.FixedWindow, Quota: 8, Window: 10 * time.Minute},
		{Name: "c", Algorithm: middleware.FixedWindow, Quota: 7, Window: time.Hour},
		{Name: "d", Algorithm: middleware.FixedWindow, Quota: 2, Window: 24 * time.Hour},
	}
	h := newSite(t, cfg)
	standing := func() (remaining []int64, reset []time.Duration, blocked []bool) {
		for _, l := range h.Decisions.Last().Limits() {
			remaining, reset, blocked = append(remaining, l.Remaining), append(reset, l.Reset), append(blocked, l.Blocked)
		}
		return remaining, reset, blocked
	}
	resets := []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour}
	for i, test := range []struct {
		status    int
		remaining []int64
		blocked   []bool
	}{
		{http.StatusOK, []int64{8, 7, 6, 1}, []bool{false, false, false, false}},
		{http.StatusOK, []int64{7, 6, 5, 0}, []bool{false, false, false, false}},
		{http.StatusTooManyRequests, []int64{7, 6, 5, 0}, []bool{false, false, false, true}},
	} {
		resp := requireStatus(t, test.status, send(h))
		remaining, reset, blocked := standing()
		require.Equal(t, test.remaining, remaining, i)
		require.Equal(t, resets, reset, i)
		require.Equal(t, test.blocked, blocked, i)
		if test.status != http.StatusOK {
			require.Equal(t, []string{"d"}, problemIn(t, resp).Violated)
		}
	}
}

func TestDecisionTellsWhyATokenWasNotAccepted(t *testing.T) {
	now := new(clock)
	cfg := contact(now)
	h := newSite(t, cfg)
	tok := spend(t, h, 1)
	other := contact(now)
	other.Policy = "other"
	foreign := spend(t, newLimiter(t, other).Handler(new(spy)), 1)
	forged := []byte(tok)
	forged[len(forged)-2] ^= 1
	for _, test := range []struct {
		name    string
		want    error
		options []option
	}{
		{"none", nil, nil},
		{"sound", nil, []option{showing(tok)}},
		{"malformed", token.ErrMalformed, []option{showing("garbage")}},
		{"foreign", token.ErrForeign, []option{showing(foreign)}},
		{"forged", token.ErrForged, []option{showing(string(forged))}},
		{"another holder", token.ErrHolder, []option{showing(tok), from("198.51.100.1")}},
		{"the last of several", token.ErrForged, []option{showing("garbage", string(forged), tok)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			send(h, test.options...)
			require.Equal(t, test.want, h.Decisions.Last().TokenErr)
		})
	}
	now.Advance(time.Hour)
	send(h, showing(tok))
	require.Equal(t, token.ErrExpired, h.Decisions.Last().TokenErr)
}

func TestDecisionOfAnIdentityThatFailed(t *testing.T) {
	lost := errors.New("database")
	for _, test := range []struct {
		name   string
		id     middleware.Identity
		err    error
		reason middleware.Reason
		kept   error
	}{
		{"denied", middleware.APIKey("k"), &middleware.Denial{Status: 401}, middleware.IdentityDenied, nil},
		{"failed", middleware.APIKey("k"), lost, middleware.IdentityUnknown, lost},
		{"nobody with a tier", middleware.Identity{Tier: "pro"}, nil, middleware.IdentityUnknown, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := contact(new(clock))
			cfg.Identity = func(*http.Request) (middleware.Identity, error) { return test.id, test.err }
			h := newSite(t, cfg)
			send(h)
			d := h.Decisions.Last()
			require.Equal(t, test.reason, d.Reason)
			require.Equal(t, middleware.Identity{}, d.Identity)
			require.Empty(t, d.Tier)
			require.Empty(t, d.Pseudonym())
			require.Equal(t, test.kept, d.IdentityErr)
		})
	}
}

func TestDecisionOfARefusalWithAllThatIsOffered(t *testing.T) {
	cfg := waiting(new(clock), middleware.Newcomers)
	decisions := record(&cfg)
	h, _ := limited(t, cfg)
	resp := requireStatus(t, http.StatusForbidden, send(h, html, proving("garbage")))
	d := decisions.Last()
	require.Equal(t, middleware.Reason("wrong-solution"), d.Proof)
	require.NotNil(t, d.Offered)
	require.Equal(t, challengeIn(t, resp).Text, d.Offered.Text)
	require.Positive(t, d.RoomWait)
	require.Zero(t, d.Call)
	require.Zero(t, d.Inherited)
}

func TestDecisionOfACallToTheCounter(t *testing.T) {
	now := new(clock)
	cfg := paid(now, newLedger(now))
	h := newSite(t, cfg)
	for left := int64(4); left >= 0; left-- {
		require.Equal(t, http.StatusOK, send(h).StatusCode)
		d := h.Decisions.Last()
		require.Equal(t, "answered", d.Call)
		require.Zero(t, d.CallTook%time.Microsecond)
		require.Equal(t, left, d.Limits()[0].Remaining)
	}
}

// Adapters make requests themselves, and some have no header.
func TestDecisionOfARequestWithoutAHeader(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Limits[0].Quota = 1
	decisions := record(&cfg)
	var inHandler *http.Request
	h := newLimiter(t, cfg).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		d, _ := middleware.FromContext(r.Context())
		inHandler, _ = d.Request()
		require.Same(t, r, inHandler)
	}))
	for _, admitted := range []bool{true, false} {
		send(h, func(r *http.Request) { r.Header = nil })
		require.Equal(t, admitted, decisions.Last().Allowed)
		r, ok := decisions.Last().Request()
		require.True(t, ok)
		require.Equal(t, http.MethodPost, r.Method)
	}
	require.NotNil(t, inHandler)
}

// Whatever hears of a refusal is given the request that has the decision.
func TestRequestOfARefusal(t *testing.T) {
	decided := func(r *http.Request) bool {
		d, ok := middleware.FromContext(r.Context())
		return ok && d.Reason == middleware.OverLimit
	}
	for name, set := range map[string]func(*middleware.Config, *bool){
		"OnDecision": func(cfg *middleware.Config, told *bool) {
			cfg.OnDecision = func(ctx context.Context, d middleware.Decision) {
				r, ok := d.Request()
				*told = ok && decided(r) && r.Context() == ctx
			}
		},
		"RefusalHandler": func(cfg *middleware.Config, told *bool) {
			cfg.RefusalHandler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { *told = decided(r) })
		},
		"PageHandler": func(cfg *middleware.Config, told *bool) {
			cfg.PageHandler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { *told = decided(r) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, told := shut(), false
			set(&cfg, &told)
			h, _ := limited(t, cfg)
			send(h, html)
			send(h, html)
			require.True(t, told)
		})
	}
}
