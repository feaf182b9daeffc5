// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/storeless"
)

// The waiting room is on by default where tallies are sold, and off in EveryRequest:
// there even a fifth without work is more than the owner asked for.
func TestWhereTheWaitingRoomIs(t *testing.T) {
	offered := func(t *testing.T, cfg middleware.Config) bool {
		h := newSite(t, cfg)
		admitted(h, 20)
		resp := send(h, html)
		require.GreaterOrEqual(t, resp.StatusCode, 400)
		require.Equal(t, waitCookieIn(t, resp) != "", h.Decisions.Last().RoomWait > 0)
		return waitCookieIn(t, resp) != ""
	}
	for name, want := range map[string]bool{"WhenExhausted": true, "Newcomers": true, "EveryRequest": false} {
		mode := allModes[name]
		t.Run(name, func(t *testing.T) {
			cfg := challenging(new(clock), mode)
			require.Equal(t, want, offered(t, cfg))
			cfg.Challenge.NoWaitingRoom = true
			require.False(t, offered(t, cfg))
			cfg.Challenge.NoWaitingRoom = false
			cfg.TokenTransport = middleware.HeaderOnly
			require.False(t, offered(t, cfg), "no cookie, no ticket")
			cfg.InsecureNoMemory = true
			if mode == middleware.Newcomers {
				require.False(t, offered(t, cfg), "nothing would count it")
			}
			cfg.InsecureNoMemory, cfg.TokenTransport = false, middleware.HeaderOrCookie
			cfg.Challenge.WaitingRoom = 3
			require.True(t, offered(t, cfg))
			cfg.Shadow = true
			h := newSite(t, cfg)
			admitted(h, 20)
			require.Empty(t, waitCookieIn(t, send(h, html)), "shadow mode withholds it with the refusal")
			require.False(t, h.Decisions.Last().Admitted)
			require.Zero(t, h.Decisions.Last().RoomWait)
		})
	}
	t.Run("no challenge", func(t *testing.T) {
		require.False(t, offered(t, contact(new(clock))))
	})
}

func TestBadWaitShares(t *testing.T) {
	for _, test := range []struct {
		field string
		spoil func(*middleware.Config)
	}{
		{"WaitingRoom", func(cfg *middleware.Config) { cfg.Challenge.WaitingRoom = -1 }},
		{"WaitingRoom", func(cfg *middleware.Config) { cfg.Challenge.WaitingRoom = 1 << 31 }},
		{"NoWaitingRoom", func(cfg *middleware.Config) {
			cfg.Challenge.WaitingRoom, cfg.Challenge.NoWaitingRoom = 5, true
		}},
		{"WaitingRoom", func(cfg *middleware.Config) {
			cfg.Challenge.WaitingRoom, cfg.TokenTransport = 5, middleware.HeaderOnly
		}},
		{"WaitingRoom", func(cfg *middleware.Config) { cfg.Challenge.WaitingRoom, cfg.InsecureNoMemory = 5, true }},
	} {
		cfg := challenging(new(clock), middleware.Newcomers)
		test.spoil(&cfg)
		_, err := middleware.New(cfg)
		require.Equal(t, []string{"Challenge." + test.field}, problems(t, err), "%v", err)
	}
}

// Every limit of every tier has its share, at least 1, in quota and burst.
func TestQuotasOfTheWaitingRoom(t *testing.T) {
	limits := func(quota int64) []middleware.Limit {
		return []middleware.Limit{
			{Name: "s", Quota: quota, Window: time.Minute},
			{Name: "f", Algorithm: middleware.FixedWindow, Quota: 10 * quota, Window: time.Hour},
			{Name: "t", Algorithm: middleware.TokenBucket, Quota: 3 * quota, Window: time.Hour, Burst: 2 * quota},
			{Name: "l", Algorithm: storeless.LeakyBucket, Quota: 2 * quota, Window: time.Second},
		}
	}
	for _, test := range []struct {
		share, quota, tier int64
		want               string
		wantTier           string
	}{
		{0, 11, 50, `"s";q=2;w=60, "f";q=22;w=3600, "t";q=4;w=2400, "l";q=1;w=1`, `"s";q=10;w=60, "f";q=100;w=3600, "t";q=20;w=2400, "l";q=1;w=1`},
		{1, 3, 7, `"s";q=3;w=60, "f";q=30;w=3600, "t";q=6;w=2400, "l";q=1;w=1`, `"s";q=7;w=60, "f";q=70;w=3600, "t";q=14;w=2400, "l";q=1;w=1`},
		{1 << 20, 3, 7, `"s";q=1;w=60, "f";q=1;w=3600, "t";q=1;w=3600, "l";q=1;w=1`, `"s";q=1;w=60, "f";q=1;w=3600, "t";q=1;w=3600, "l";q=1;w=1`},
	} {
		now := new(clock)
		cfg := challenging(now, middleware.Newcomers)
		cfg.Limits, cfg.Challenge.WaitingRoom = limits(test.quota), test.share
		cfg.Tiers = map[string][]middleware.Limit{"pro": limits(test.tier)}
		cfg.Identity = byTier(only(middleware.APIKey("somebody")))
		h := newSite(t, cfg)
		ticket := refusedWithTicket(t, h)
		now.Advance(5 * time.Second)
		resp := requireStatus(t, http.StatusOK, send(h, holding(ticket), with("Tier", "pro")))
		require.Equal(t, test.wantTier, resp.Header.Get("RateLimit-Policy"))
		require.Equal(t, "pro", h.Decisions.Last().Tier)
		now.Advance(48 * time.Hour)
		ticket = refusedWithTicket(t, h)
		now.Advance(5 * time.Second)
		require.Equal(t, test.want, send(h, holding(ticket)).Header.Get("RateLimit-Policy"))
	}
	t.Run("a bucket that would take longer than a year to empty", func(t *testing.T) {
		cfg := challenging(new(clock), middleware.Newcomers)
		cfg.Limits = []middleware.Limit{{Algorithm: middleware.TokenBucket, Quota: 9, Window: 24 * time.Hour, Burst: 366 * 9}}
		newSite(t, cfg)
	})
}

// Development over plain HTTP, and pages in other sites' frames.
func TestWaitCookieAttributes(t *testing.T) {
	cfg := waiting(new(clock), middleware.Newcomers)
	cfg.InsecureCookie = true
	line := send(newSite(t, cfg), html).Header.Get("Set-Cookie")
	require.Regexp(t, `^tallystick-contact\.wait=[\w-]{44}; Max-Age=605; Path=/; HttpOnly; SameSite=Lax$`, line)
	cfg.InsecureCookie, cfg.EmbeddedCookie = false, true
	line = send(newSite(t, cfg), html).Header.Get("Set-Cookie")
	require.Regexp(t, `^__Host-tallystick-contact\.wait=[\w-]{44}; Max-Age=605; Path=/; HttpOnly; Secure; SameSite=None; Partitioned$`, line)
}
