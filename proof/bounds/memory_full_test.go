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
	"github.com/tallystick/tallystick/proof/kit"
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
			require.Equal(t, []string{"policy-made-twice", "memory-full"}, handlers.CodesIn(lines.Lines())[:2], "instances of one process")
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

// A client that pays can fill the cells of bought tallies: then its next tallies begin
// with what it has used, and none is worth more than its price.
func TestBuyingWhileTheMemoryIsFull(t *testing.T) {
	now := new(handlers.Clock)
	cfg := handlers.Challenging(now, middleware.WhenExhausted)
	cfg.Limits[0].Window = time.Hour
	cfg.MaxClients = 1
	h := handlers.NewSite(t, cfg)
	for i := range 20 { // one each: four have taken a cell that had counted one
		payer := handlers.From(fmt.Sprintf("198.51.100.%d", i))
		require.Equal(t, http.StatusOK, handlers.Send(h, payer, handlers.Proving(handlers.Solved(t, handlers.Fetched(h, payer)))).StatusCode)
		now.Advance(time.Minute) // until there is room for the next sale
	}
	handlers.Admitted(h, 10)
	proof := handlers.Solved(t, handlers.Send(h))
	first := handlers.RequireStatus(t, http.StatusOK, handlers.Send(h, handlers.Proving(proof)))
	require.True(t, h.Decisions.Last().Own)
	began := h.Decisions.Last().Inherited
	require.Positive(t, began)
	more := handlers.Admitted(h, 20, handlers.Proving(proof)) + handlers.Admitted(h, 20, handlers.Showing(handlers.TokenIn(first)))
	require.EqualValues(t, 5-began-1, more, "one quota, however it is shown")
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

// Clients that paid can fill the rest: then nothing more is sold, for a sale that is
// not remembered would raise no price.
func TestRegisterFull(t *testing.T) {
	handlers.InAllModes(t, func(t *testing.T, mode middleware.Mode) {
		cfg := handlers.Challenging(new(handlers.Clock), mode)
		cfg.MaxClients, cfg.Limits[0].Quota = 1, 1
		lines := handlers.LogTo(&cfg)
		h := handlers.NewSite(t, cfg)
		through := 0
		var last *http.Response
		for i := range 40 {
			addr := handlers.From(fmt.Sprintf("198.%d.100.1", i)) // a network takes a quarter
			last = handlers.Send(h, addr, handlers.Proving(handlers.Solved(t, handlers.Fetched(h, addr))))
			if last.StatusCode == http.StatusOK {
				through++
			}
		}
		require.Less(t, through, 40)
		require.NotEqual(t, http.StatusOK, last.StatusCode)
		if mode != middleware.WhenExhausted {
			require.Equal(t, http.StatusForbidden, last.StatusCode)
			require.Equal(t, middleware.MemoryFull, handlers.ProblemIn(t, last).Reason)
		}
		handlers.ChallengeIn(t, last)
		require.Positive(t, h.M.Stats().Saturations)
		require.Contains(t, lines.Lines()[0], "memory saturated")
		if mode == middleware.EveryRequest {
			return
		}
		buyer := handlers.From("203.0.113.1")
		proof := handlers.Solved(t, handlers.Fetched(h, buyer))
		resp := handlers.RequireStatus(t, http.StatusForbidden, handlers.Redeemed(h, proof, buyer))
		require.Equal(t, middleware.MemoryFull, handlers.ProblemIn(t, resp).Reason)
		for range 9 {
			require.Equal(t, http.StatusForbidden, handlers.Redeemed(h, proof, buyer).StatusCode, "not at the second try either")
		}
		require.EqualValues(t, 16, handlers.ChallengeIn(t, handlers.Fetched(h, buyer)).Work)
	})
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

// Addresses cost nothing, and fill the memory. What a client has paid for
// with work has cells of its own there: it is worth what was paid, however many come.
func TestAFloodTakesNothingFromPayers(t *testing.T) {
	for name, mode := range map[string]middleware.Mode{"WhenExhausted": middleware.WhenExhausted, "Newcomers": middleware.Newcomers} {
		t.Run(name, func(t *testing.T) {
			cfg := handlers.Challenging(new(handlers.Clock), mode)
			cfg.MaxClients = 8
			h := handlers.NewSite(t, cfg)
			for range 2 * 5 { // more than once what each may
				for i := range 400 {
					handlers.Send(h, handlers.From(fmt.Sprintf("198.51.%d.%d", 100+i/256, i%256)))
				}
			}
			proof := handlers.Solved(t, handlers.Fetched(h))
			require.Equal(t, 5, handlers.Admitted(h, 20, handlers.Proving(proof)))
		})
	}
}

// A pass has what it has for all of its life, also where strangers take its cells: what
// the others have counted fades at midnight, and a pass's does not.
func TestPassesOutliveTheirWindowsInAFullMemory(t *testing.T) {
	seeds := uint64(20)
	if kit.Brief() {
		seeds = 3
	}
	for name, row := range map[string]struct {
		limits []middleware.Limit
		memory time.Duration
		pass   int // in all
	}{
		"a day, fixed": {[]middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 50, Window: 24 * time.Hour}}, time.Hour, 3},
		"a day":        {[]middleware.Limit{{Quota: 50, Window: 24 * time.Hour}}, time.Hour, 3},
		"two minutes":  {[]middleware.Limit{{Quota: 6, Window: 2 * time.Minute}}, time.Minute, 3},
		"a bucket":     {[]middleware.Limit{{Algorithm: middleware.TokenBucket, Quota: 72, Window: 24 * time.Hour}}, time.Hour, 3},
	} {
		t.Run(name, func(t *testing.T) {
			most := 0
			for seed := range seeds {
				r, now := handlers.Random(seed), new(handlers.Clock)
				now.Advance(24*time.Hour - time.Minute)
				cfg := handlers.Challenging(now, middleware.WhenExhausted)
				cfg.Limits, cfg.MaxClients, cfg.Challenge.PassTime = row.limits, 1, row.memory
				h := handlers.NewSite(t, cfg)
				token, own := handlers.Bought(t, h), 0
				for range 100 {
					for range r.IntN(40) {
						handlers.Send(h, handlers.From(fmt.Sprintf("198.51.%d.%d", r.IntN(256), r.IntN(256))))
					}
					for range r.IntN(3) {
						if handlers.Send(h, handlers.Showing(token)).StatusCode == http.StatusOK && h.Decisions.Last().Own {
							own++
						}
					}
					now.Advance(time.Duration(r.Int64N(int64(time.Minute))))
				}
				most = max(most, own)
			}
			require.Equal(t, row.pass, most)
		})
	}
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
