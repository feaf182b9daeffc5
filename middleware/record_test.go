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

func TestRecord(t *testing.T) {
	four := limits(middleware.Limit{Name: "a", Algorithm: middleware.FixedWindow, Quota: 9, Window: time.Minute},
		middleware.Limit{Name: "b", Algorithm: middleware.FixedWindow, Quota: 8, Window: 10 * time.Minute},
		middleware.Limit{Name: "c", Algorithm: middleware.FixedWindow, Quota: 7, Window: time.Hour},
		middleware.Limit{Name: "d", Algorithm: middleware.FixedWindow, Quota: 2, Window: 24 * time.Hour})
	stands := func(lastBlocked bool) func(*scene) {
		return func(s *scene) {
			for i, l := range s.decision().Limits() {
				require.Equal(s, l.Window, l.Reset)
				require.Equal(s, lastBlocked && i == 3, l.Blocked)
			}
		}
	}
	lost := errors.New("database")
	failed := func(reason middleware.Reason, kept error) []step {
		return []step{{want: map[bool]int{false: 403, true: 401}[reason == middleware.IdentityDenied], reason: reason, see: all{func(s *scene) {
			d := s.decision()
			require.Equal(s, middleware.Identity{}, d.Identity)
			require.Empty(s, d.Tier)
			require.Empty(s, d.Pseudonym())
			require.Equal(s, kept, d.IdentityErr)
		}}}}
	}
	answered := func(s *scene) {
		require.Equal(s, "answered", s.decision().Call)
		require.Zero(s, s.decision().CallTook%time.Microsecond)
	}
	play(t, []scenario{
		{"of all limits", limiting(four), []step{
			{want: 200, see: all{remain(8, 7, 6, 1), stands(false)}}, {want: 200, see: all{remain(7, 6, 5, 0), stands(false)}},
			{want: 429, see: all{remain(7, 6, 5, 0), stands(true), says(`"violated-policies":["d"]`)}},
		}},
		{"of why a token was not accepted", limiting(), []step{
			{want: 200, keep: "own", see: all{tokens(0, nil), func(s *scene) {
				other := contact(s.now)
				other.Policy = "other"
				s.tokens["foreign"] = spend(s, newLimiter(s, other).Handler(new(spy)), 1)
				forged := []byte(s.tokens["own"])
				forged[len(forged)-2] ^= 1
				s.tokens["forged"], s.tokens["garbage"] = string(forged), "garbage"
			}}},
			{show: "own", want: 200, see: all{err(nil)}}, {show: "garbage", want: 200, see: all{err(token.ErrMalformed)}},
			{show: "foreign", want: 200, see: all{err(token.ErrForeign)}}, {show: "forged", want: 200, see: all{err(token.ErrForged)}},
			{show: "garbage forged own", want: 429, see: all{err(token.ErrForged)}}, // the last of several
			{as: from("198.51.100.1"), show: "own", want: 200, see: all{err(token.ErrHolder)}},
			{after: time.Hour, show: "own", want: 200, see: all{err(token.ErrExpired)}},
		}},
		{"of an identity that was denied", limiting(telling(middleware.APIKey("k"), &middleware.Denial{Status: 401})), failed(middleware.IdentityDenied, nil)},
		{"of an identity that failed", limiting(telling(middleware.APIKey("k"), lost)), failed(middleware.IdentityUnknown, lost)},
		{"of no identity with a tier", limiting(telling(middleware.Identity{Tier: "pro"}, nil)), failed(middleware.IdentityUnknown, nil)},
		{"of a refusal with all that is offered", by(func(c *clock) middleware.Config { return waiting(c, middleware.Newcomers) }), []step{
			{as: both(html, proving("garbage")), want: 403, proof: "wrong-solution", keep: "offer", see: all{func(s *scene) {
				d := s.decision()
				require.Equal(s, s.challenges["offer"].Text, d.Offered.Text)
				require.Positive(s, d.RoomWait)
				require.Zero(s, d.Call)
				require.Zero(s, d.Inherited)
			}}},
		}},
		{"of a call to the counter", byCounter(), []step{
			{want: 200, see: all{answered, remain(4)}}, {want: 200, see: all{answered, remain(3)}}, {want: 200, see: all{answered, remain(2)}},
			{want: 200, see: all{answered, remain(1)}}, {want: 200, see: all{answered, remain(0)}},
		}},
	})
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
