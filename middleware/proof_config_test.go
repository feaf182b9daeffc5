// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// Every refusal of a Challenge is one named error that says what is permitted.
func TestBadChallenges(t *testing.T) {
	type challenge = middleware.Challenge
	every := func(spoil func(*challenge)) func(*middleware.Config) {
		return func(cfg *middleware.Config) {
			cfg.Challenge = &challenge{Mode: middleware.EveryRequest}
			spoil(cfg.Challenge)
		}
	}
	with := func(spoil func(*challenge)) func(*middleware.Config) {
		return func(cfg *middleware.Config) { cfg.Challenge = new(challenge); spoil(cfg.Challenge) }
	}
	busy := func(spoil func(*challenge)) func(*middleware.Config) {
		return func(cfg *middleware.Config) {
			cfg.Challenge = &challenge{Mode: middleware.WhenBusy}
			spoil(cfg.Challenge)
		}
	}
	bad := func(path string) func(*middleware.Config) {
		return with(func(c *challenge) { c.Path = path })
	}
	for _, test := range []struct {
		field string
		spoil func(*middleware.Config)
		says  string
	}{
		{"Mode", with(func(c *challenge) { c.Mode = middleware.EveryRequest + 1 }), "WhenExhausted, WhenBusy, Newcomers or EveryRequest"},
		{"Mode", with(func(c *challenge) { c.Mode = middleware.WhenBusy }), "BusyPerSecond, BusyAtOnce or both"},
		{"BusyPerSecond", busy(func(c *challenge) { c.BusyPerSecond = -1 }), "from 1 to 1000000, or 0 for not set, not -1"},
		{"BusyPerSecond", busy(func(c *challenge) { c.BusyPerSecond = 1_000_001 }), "from 1 to 1000000"},
		{"BusyPerSecond", with(func(c *challenge) { c.BusyPerSecond = 1 }), "belongs to WhenBusy"},
		{"BusyPerSecond", every(func(c *challenge) { c.BusyPerSecond = 1 }), "belongs to WhenBusy"},
		{"BusyAtOnce", busy(func(c *challenge) { c.BusyPerSecond, c.BusyAtOnce = 1, -1 }), "from 1 to 1000000"},
		{"BusyAtOnce", busy(func(c *challenge) { c.BusyAtOnce = 1_000_001 }), "from 1 to 1000000"},
		{"BusyAtOnce", with(func(c *challenge) { c.Mode, c.BusyAtOnce = middleware.Newcomers, 1 }), "belongs to WhenBusy"},
		{"Mode", func(cfg *middleware.Config) {
			cfg.Challenge, cfg.TokenTransport = new(challenge), middleware.MemoryOnly
		}, "never get its token"},
		{"Mode", func(cfg *middleware.Config) {
			cfg.Challenge, cfg.TokenTransport = &challenge{Mode: middleware.Newcomers}, middleware.MemoryOnly
		}, "EveryRequest"},
		{"Work", with(func(c *challenge) { c.Work = 15 }), "from 16"},
		{"Work", with(func(c *challenge) { c.Work = -1 }), "from 16"},
		{"Work", with(func(c *challenge) { c.Work = 1<<29 + 1 }), "536870912"},
		{"Work", every(func(c *challenge) { c.Work = 1 }), "from 16"},
		{"Crowd", with(func(c *challenge) { c.Crowd = -1 }), "from 1 to 255"},
		{"Crowd", with(func(c *challenge) { c.Crowd = 256 }), "from 1 to 255"},
		{"SalesPerHour", with(func(c *challenge) { c.SalesPerHour = -1 }), "from 1 to 100000"},
		{"SalesPerHour", with(func(c *challenge) { c.SalesPerHour = 100_001 }), "from 1 to 100000"},
		{"PassTime", with(func(c *challenge) { c.PassTime = time.Second }), "from 1m to 24h"},
		{"PassTime", with(func(c *challenge) { c.PassTime = 25 * time.Hour }), "from 1m to 24h"},
		{"PassTime", with(func(c *challenge) { c.PassTime = -time.Hour }), "from 1m to 24h"},
		{"PassTime", with(func(c *challenge) { c.PassTime = time.Hour + time.Millisecond }), "whole seconds"},
		{"NonceOnly", with(func(c *challenge) { c.NonceOnly = true }), "belongs to EveryRequest"},
		{"NonceOnly", with(func(c *challenge) { c.Mode, c.NonceOnly = middleware.Newcomers, true }), "no limit"},
		{"NonceOnly", every(func(c *challenge) { c.NonceOnly, c.Work = true, 1024 }), "leave Work 0"},
		{"Path", bad("tally/"), "absolute path"},
		{"Path", bad("/tally"), "ends in a slash"},
		{"Path", bad("https://example.com/"), "plain absolute path"},
		{"Path", bad("//evil.example/"), "plain absolute path"},
		{"Path", bad("/a//b/"), "plain absolute path"},
		{"Path", bad("/a/../b/"), "plain absolute path"},
		{"Path", bad("/a/./"), "plain absolute path"},
		{"Path", bad("/../"), "plain absolute path"},
		{"Path", bad(`/"/`), "/tally/contact/"},
		{"Path", bad(`/\/`), "plain"},
		{"Path", bad("/{id}/"), "plain"},
		{"Path", bad("/a?b/"), "plain"},
		{"Path", bad("/a#b/"), "plain"},
		{"Path", bad("/%41/"), "plain"},
		{"Path", bad("/a b/"), "plain"},
		{"Path", bad("/<script>/"), "plain"},
		{"Path", bad("/a\r\nX: y/"), "plain"},
		{"Path", bad("/\x7f/"), "plain"},
		{"Path", bad("/é/"), "plain"},
	} {
		t.Run(test.field+" "+test.says, func(t *testing.T) {
			cfg := contact(new(clock))
			test.spoil(&cfg)
			m, err := middleware.New(cfg)
			require.Nil(t, m)
			require.Equal(t, []string{"Challenge." + test.field}, problems(t, err), "%v", err)
			require.ErrorContains(t, err, test.says)
			require.Len(t, problems(t, err), 1)
		})
	}
}

// All at once, beside those of the rest.
func TestAllProblemsOfAChallenge(t *testing.T) {
	cfg, want := everythingWrong()
	cfg.Challenge = &middleware.Challenge{
		Mode: 7, Work: 3, NonceOnly: true, Crowd: 1000, SalesPerHour: -1, PassTime: time.Nanosecond, Path: "x",
		BusyPerSecond: -1, BusyAtOnce: 3,
	}
	for _, field := range []string{"BusyPerSecond", "BusyAtOnce", "Mode", "Work", "NonceOnly", "NonceOnly", "Crowd", "SalesPerHour", "PassTime", "Path"} {
		want = append(want, "Challenge."+field)
	}
	m, err := middleware.New(cfg)
	require.Nil(t, m)
	got := problems(t, err)
	slices.Sort(got)
	slices.Sort(want)
	require.Equal(t, want, got)
	requireNoSecret(t, err.Error(), cfg.Secrets[0], cfg.Secrets[2])
}

func TestGoodChallenges(t *testing.T) {
	for name, challenge := range map[string]middleware.Challenge{
		"zero":         {},
		"least":        {Work: 16, Crowd: 1, SalesPerHour: 1, PassTime: time.Minute, Path: "/"},
		"most":         {Work: 1 << 29, Crowd: 255, SalesPerHour: 100_000, PassTime: 24 * time.Hour, Path: "/a-b_c.d~e/f/"},
		"WhenBusy":     {Mode: middleware.WhenBusy, BusyPerSecond: 1_000_000, BusyAtOnce: 1},
		"NonceOnly":    {Mode: middleware.EveryRequest, NonceOnly: true},
		"EveryRequest": {Mode: middleware.EveryRequest, Work: 1 << 29, BindOwn: true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := contact(new(clock))
			cfg.Challenge = &challenge
			h, _ := limited(t, cfg)
			if challenge.Mode <= middleware.WhenBusy {
				exhaust(t, h)
			}
			resp := send(h)
			if name == "most" {
				require.EqualValues(t, 1<<29, challengeIn(t, resp).Work)
			}
			challengeIn(t, resp)
		})
	}
}

// The zero Challenge is safe: WhenExhausted, 2¹⁸ hashes, a Crowd of 64, 32 sales an
// hour, own tallies that travel, no URLs.
func TestDefaultChallenge(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.WhenExhausted)
	cfg.Challenge = &middleware.Challenge{}
	h := newSite(t, cfg)
	exhaust(t, h)
	resp := requireStatus(t, http429, send(h))
	c := challengeIn(t, resp)
	require.EqualValues(t, 1<<18, c.Work)
	require.Equal(t, 10*time.Second, c.TTL)
	require.Empty(t, problemIn(t, resp).RedeemURL)

	// The price doubles with every 64, and 32 leak within an hour, on each instance: with a tenth of that, one of
	// ten would be shut for a tenth of the work.
	for _, cfg.Instances = range []int64{0, 10} {
		cfg.Challenge = &middleware.Challenge{Work: 16}
		h = newSite(t, cfg)
		exhaust(t, h)
		for i := range 2 * 64 {
			offer := challengeIn(t, send(h))
			require.Equal(t, priceAfter(i, 64, 16), offer.Work)
			require.Equal(t, 200, send(h, proving(solve(t, offer))).StatusCode)
		}
		now.Advance(time.Hour)
		exhaust(t, h)
		require.EqualValues(t, 48, challengeIn(t, send(h)).Work)
		now.Advance(3 * time.Hour)
		exhaust(t, h)
		require.EqualValues(t, 16, challengeIn(t, send(h)).Work)
	}
}

const http429 = 429

// New copies the Challenge: what is changed afterwards changes nothing.
func TestChallengeIsCopied(t *testing.T) {
	cfg := challenging(new(clock), middleware.Newcomers)
	h := newSite(t, cfg)
	cfg.Challenge.Mode, cfg.Challenge.Work, cfg.Challenge.Path = middleware.EveryRequest, 1<<20, "/elsewhere/"
	require.EqualValues(t, 16, challengeIn(t, fetched(h)).Work)
	require.EqualValues(t, 16, challengeIn(t, send(h)).Work)
}

// Reconfigure keeps what was sold, what was opened and what is spent.
func TestReconfigureKeepsSales(t *testing.T) {
	cfg := challenging(new(clock), middleware.Newcomers)
	h := newSite(t, cfg)
	proof := solved(t, fetched(h))
	tok := bought(t, h)
	require.Equal(t, 3, admitted(h, 3, showing(tok)))
	require.Equal(t, 200, redeemed(h, proof).StatusCode)
	cfg.Secrets = [][]byte{secret("next"), secret("a")}
	cfg.Limits = []middleware.Limit{fixed(7, time.Minute)}
	require.NoError(t, h.M.Reconfigure(cfg))
	require.EqualValues(t, 32, challengeIn(t, fetched(h)).Work)
	require.Equal(t, 200, redeemed(h, proof).StatusCode, "held, at whatever price")
	require.EqualValues(t, 32, challengeIn(t, fetched(h)).Work)
	require.Equal(t, 4, admitted(h, 9, showing(tok)), "and its new quota")

	cfg.Challenge.Mode = middleware.EveryRequest
	require.NoError(t, h.M.Reconfigure(cfg))
	single := solved(t, send(h))
	require.Equal(t, 1, admitted(h, 2, proving(single)))
	require.NoError(t, h.M.Reconfigure(cfg))
	require.Zero(t, admitted(h, 2, proving(single)))
}
