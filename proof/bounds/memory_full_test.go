// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/players"
	"github.com/tallystick/tallystick/proof/truth"
)

// Addresses cost nothing, so a flood of them can fill the memory. No client gains by that: also a new client gets L on
// each instance while the memory is full, and perhaps less.
func TestMemoryFull(t *testing.T) {
	const L, N, C = 5, 3, 1
	bucket := middleware.Limit{Algorithm: middleware.TokenBucket, Quota: L, Window: time.Hour}
	for name, limit := range map[string]middleware.Limit{"window": {Quota: L, Window: time.Minute}, "bucket": bucket} {
		t.Run(name, func(t *testing.T) {
			now := new(handlers.Clock)
			cfg := handlers.Contact(now)
			cfg.Limits = []middleware.Limit{limit}
			cfg.MaxClients = 1 // sixteen cells
			lines := handlers.LogTo(&cfg)
			instances := handlers.Sites(t, N, cfg)
			got := make([]int, 60)
			round := func() {
				for i := range got {
					for _, h := range instances {
						got[i] += handlers.Admitted(h, 1, handlers.From(fmt.Sprintf("198.51.100.%d", i)))
					}
				}
			}
			for range 2 * L {
				round()
			}
			require.Positive(t, instances[N-1].Decisions.Last().Inherited, "which the decision says")
			require.Equal(t, middleware.OverLimit, instances[N-1].Decisions.Last().Reason)
			require.Contains(t, lines.Lines()[0], " code=policy-made-twice ", "instances of one process")
			require.Contains(t, lines.Lines()[1], " code=memory-full ")
			require.Contains(t, lines.Lines()[1], "memory saturated")
			require.Contains(t, lines.Lines()[1], "may be refused early")
			instances[0] = handlers.NewSite(t, cfg) // a cold start
			for range 2 * L {
				round()
			}
			early := 0
			for i := range got {
				require.LessOrEqual(t, got[i], (N+C)*L, "client %d", i)
				if got[i] < (N+C)*L {
					early++
				}
			}
			require.Positive(t, early, "newcomers are refused early")
			s := instances[1].M.Stats()
			require.InDelta(t, 1, s.Fill, 0.001)
			require.Positive(t, s.Inherited)
			require.Greater(t, s.InheritedQuotas/float64(s.Inherited), 0.5)
			require.Zero(t, s.Saturations)

			now.Advance(3 * time.Hour)
			require.Zero(t, instances[1].M.Stats().Fill)
			require.Equal(t, L, handlers.Admitted(instances[1], 10, handlers.From("198.51.100.1")), "all is forgotten")
		})
	}
}

// An IPv4 /16, or an IPv6 /29, that has claimed a quarter of a memory that is full takes no
// more of it from others. What its newcomers share they take from no other network.
func TestAQuarterForAProvider(t *testing.T) {
	for name, row := range providers {
		t.Run(name, func(t *testing.T) {
			cfg := handlers.Contact(new(handlers.Clock))
			cfg.Limits[0].Quota = 50
			cfg.MaxClients = 8 // 48 cells
			h := handlers.NewSite(t, cfg)
			for i := range 48 {
				handlers.Send(h, handlers.From(fmt.Sprintf("192.%d.0.1", i)))
			}
			for i := range 6000 {
				handlers.Send(h, handlers.From(fmt.Sprintf(row.mine, i/256, i%256)))
			}
			for i := range 20 {
				handlers.Send(h, handlers.From(fmt.Sprintf(row.other, 1, i)))
				require.Less(t, h.Decisions.Last().Inherited, int64(20), "6000 over 48 cells would be more than 100")
			}
		})
	}
}

// An IPv4 /16, or an IPv6 /29, shuts no client of other networks out, however many tallies its hosts buy. Its own
// newcomers pay a price, and buy.
func TestAQuarterOfTheSalesForAProvider(t *testing.T) {
	for name, row := range providers {
		t.Run(name, func(t *testing.T) {
			now := new(handlers.Clock)
			cfg := handlers.Challenging(now, middleware.Newcomers)
			cfg.MaxClients, cfg.Challenge.Crowd = 1024, 8 // 768 cells
			h := handlers.NewSite(t, cfg)
			buy := func(addr string) int {
				return handlers.Redeemed(h, handlers.Solved(t, handlers.Fetched(h, handlers.From(addr))), handlers.From(addr)).StatusCode
			}
			for i := range 400 {
				buy(fmt.Sprintf(row.mine, i/256, i%256))
			}
			for i := range 10 {
				require.Equal(t, http.StatusOK, buy(fmt.Sprintf(row.other, 1, i)), "from elsewhere")
				now.Advance(time.Second)
			}
			require.Equal(t, http.StatusOK, buy(fmt.Sprintf(row.mine, 9, 9)), "from there")
			require.Greater(t, handlers.ChallengeIn(t, handlers.Fetched(h, handlers.From(fmt.Sprintf(row.mine, 9, 8)))).Work, uint64(16))
			require.EqualValues(t, 16, handlers.ChallengeIn(t, handlers.Fetched(h, handlers.From(fmt.Sprintf(row.other, 1, 99)))).Work)
		})
	}
}

// providers are networks that each have a quarter of the room, with hosts of theirs and of others.
var providers = map[string]struct{ mine, other string }{
	"IPv4": {"10.1.%d.%d", "10.2.%d.%d"},
	"IPv6": {"2001:db8:%x%02x::1", "2a00:1:%x%02x::1"},
}

// What passes have used stays where the configuration changes, as all counts do.
func TestReconfigureKeepsWhatPassesHaveUsed(t *testing.T) {
	cfg := handlers.Challenging(new(handlers.Clock), middleware.WhenExhausted)
	var log bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	h := handlers.NewSite(t, cfg)
	token := handlers.Bought(t, h)
	require.Equal(t, 2*5, handlers.Admitted(h, 20, handlers.Showing(token)), "the pass, and what all share")
	require.NoError(t, h.M.Reconfigure(cfg))
	require.Zero(t, handlers.Admitted(h, 20, handlers.Showing(token)))

	sizes := regexp.MustCompile(`memory="[^"]+"`).FindAllString(log.String(), -1)
	require.Len(t, sizes, 2, "at New, and at Reconfigure")
	require.Equal(t, sizes[0], sizes[1], "the room for passes is there before the first is sold")
}

// The holder of a whole network has any number of addresses, and each pays the base price.
// The price of the network bounds what they buy together: a /56 pays as two addresses
// would, a /48 as eight. In one moment, on one instance, nothing leaks.
func TestWholeNetworksThatWork(t *testing.T) {
	const crowd, work = 2, 16
	for name, c := range map[string]struct {
		crowds int64
		addr   func(n int) string
	}{
		"one address": {1, func(int) string { return "2001:db8::1" }},
		"a /56":       {2, func(n int) string { return fmt.Sprintf("2001:db8:0:%x::1", n%256) }},
		"a /48":       {8, func(n int) string { return fmt.Sprintf("2001:db8:0:%x::1", n%256<<8|n>>8) }},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := handlers.Challenging(new(handlers.Clock), middleware.WhenExhausted)
			cfg.MaxClients = 1 << 14 // a sale that cannot be remembered is none
			s := handlers.NewSite(t, cfg)
			paid, tallies := int64(0), int64(0)
			for range 120 {
				addr := handlers.From(c.addr(int(tallies)))
				challenge := handlers.ChallengeIn(t, handlers.Fetched(s, addr))
				if challenge.Work > 1<<12 {
					break
				}
				resp := handlers.RequireStatus(t, http.StatusOK, handlers.Redeemed(s, handlers.Solve(t, challenge), addr))
				require.Equal(t, 5, handlers.Admitted(s, 5, addr, handlers.Showing(handlers.TokenIn(resp))), "of the tally that was bought")
				paid += int64(challenge.Work)
				tallies++
			}
			bound := truth.Tariff{Work: work, Crowd: crowd * c.crowds}.Most(paid, 0)
			require.LessOrEqual(t, tallies, bound)
			require.GreaterOrEqual(t, tallies, bound-2*crowd*c.crowds, "work buys what it may")
		})
	}
}

// A pass has a quota on each instance, wherever its challenge came from and its proof was shown: (N+C)·L for a
// client that shows its first token, and L for one that echoes. Config.Instances changes nothing.
func TestAPassIsWholeOnEachInstance(t *testing.T) {
	const n, quota = 10, 100
	start := func(mode middleware.Mode) (*fleet.Moved, *players.Attacker) {
		cfg := handlers.Challenging(nil, mode)
		cfg.Limits = []middleware.Limit{{Quota: quota, Window: time.Minute}}
		f := fleet.New(n, cfg)
		require.EqualValues(t, n, f.Site.Instances)
		return f, &players.Attacker{Fleet: f, From: []string{fleet.V4(0)}}
	}
	i := truth.Instances{N: n, C: 1}
	for mode, bound := range map[middleware.Mode]int64{middleware.WhenExhausted: i.Adds(quota, 1), middleware.Newcomers: i.Buys(quota, 1)} {
		f, a := start(mode)
		a.Farm(1, 1)
		f.Scale(n + 1)
		a.Farm(1, 1) // it has one already
		require.Equal(t, bound, a.Gained().Admitted, "whole on each, in mode %d", mode)
	}
	_, a := start(middleware.Newcomers)
	h := players.Honest{Attacker: a, Token: a.Buy(3)}
	for range quota + 1 {
		h.Want(a.Next)
	}
	require.EqualValues(t, quota, h.Admitted, "a client that echoes has L of it")
}
