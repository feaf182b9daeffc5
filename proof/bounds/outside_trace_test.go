// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
)

// A twin is one configuration twice, with two memories and one clock: one instance is
// asked over HTTP, the other outside of it.
type twin struct {
	seen    *handlers.Recorded // over HTTP
	h       http.Handler
	outside *middleware.Middleware
}

func newTwin(t *testing.T, cfg func() middleware.Config) twin {
	t.Helper()
	there := cfg()
	there.Identity = func(r *http.Request) (middleware.Identity, error) {
		id, err := middleware.PeerAddress(r)
		id.Tier = r.Header.Get("Tier")
		return id.For(r.Header.Get("Thing")), err
	}
	there.Cost = func(r *http.Request) int64 {
		n, _ := strconv.ParseInt(r.Header.Get("Cost"), 10, 64)
		return n
	}
	seen := handlers.Record(&there)
	return twin{seen, handlers.NewLimiter(t, there).Handler(new(handlers.Spy)), handlers.NewLimiter(t, cfg())}
}

// The same trace gives the same decisions, counts and tokens, over HTTP and outside of it:
// random clients, tiers, costs and pauses, which show any of the tokens that anybody was ever
// sent, by either way, own tallies among them.
func TestTraceIsTheSameOutside(t *testing.T) {
	seeds := uint64(8)
	if !kit.Whole() {
		seeds = 3
	}
	limits := map[string][]middleware.Limit{
		"fixed":   {{Algorithm: middleware.FixedWindow, Quota: 4, Window: 7 * time.Second}},
		"sliding": {{Quota: 5, Window: 8 * time.Second}, {Name: "long", Quota: 9, Window: 40 * time.Second}},
		"buckets": {{Algorithm: middleware.TokenBucket, Quota: 10, Window: 30 * time.Second, Burst: 4}},
	}
	for name, l := range limits {
		for kind, change := range map[string]func(*middleware.Config, *handlers.Clock){
			"plain":     func(*middleware.Config, *handlers.Clock) {},
			"shadow":    func(cfg *middleware.Config, _ *handlers.Clock) { cfg.Shadow = true },
			"exhausted": func(cfg *middleware.Config, _ *handlers.Clock) { cfg.Challenge = &middleware.Challenge{Work: 64} },
			"newcomers": func(cfg *middleware.Config, _ *handlers.Clock) {
				cfg.Challenge = &middleware.Challenge{Work: 64, Mode: middleware.Newcomers}
			},
			"exact": func(cfg *middleware.Config, c *handlers.Clock) {
				*cfg = withLimits(handlers.Paid(c, handlers.NewLedger(c)), cfg.Limits, cfg.Tiers)
			},
			"quiet": func(cfg *middleware.Config, _ *handlers.Clock) {
				cfg.Quiet, cfg.TokenTransport = true, middleware.MemoryOnly
			},
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				for seed := range seeds {
					playTwice(t, seed, l, change)
				}
			})
		}
	}
}

// withLimits returns cfg with other limits.
func withLimits(cfg middleware.Config, limits []middleware.Limit, tiers map[string][]middleware.Limit) middleware.Config {
	cfg.Limits, cfg.Tiers = limits, tiers
	return cfg
}

func playTwice(t *testing.T, seed uint64, limits []middleware.Limit, change func(*middleware.Config, *handlers.Clock)) {
	c, rnd := new(handlers.Clock), handlers.Random(seed)
	large := append([]middleware.Limit(nil), limits...)
	large[0].Quota *= 2
	cfg := func() middleware.Config {
		cfg := handlers.Contact(c)
		cfg.Limits, cfg.Tiers = limits, map[string][]middleware.Limit{"pro": large}
		change(&cfg, c)
		cfg.TokenTransport = middleware.HeaderOnly
		if cfg.Challenge != nil {
			cfg.Challenge.Path = "/tally/"
		}
		return cfg
	}
	w := newTwin(t, cfg)
	addresses := []string{"203.0.113.1", "203.0.113.2", "2001:db8::1", "2001:db8:0:1::1"}
	tokens, offered := []string{""}, 0
	for step := range 150 {
		c.Advance(time.Duration(rnd.IntN(3)) * time.Second)
		addr, tier, thing := addresses[rnd.IntN(len(addresses))], []string{"", "pro", "none"}[rnd.IntN(3)], []string{"", "", "shop"}[rnd.IntN(3)]
		cost := 1 + rnd.Int64N(3)
		shown := make([]string, rnd.IntN(3))
		for i := range shown {
			shown[i] = tokens[rnd.IntN(len(tokens))]
		}
		id := handlers.Address(addr).For(thing)
		id.Tier = tier
		resp := handlers.Send(w.h, handlers.From(addr), handlers.With("Tier", tier, "Thing", thing, "Cost", fmt.Sprint(cost)), handlers.Showing(shown...))
		over := w.seen.Last()
		ask := middleware.Ask{Identity: id, Cost: cost, Tokens: shown, DryRun: true}
		dry := handlers.Decided(t, w.outside, ask)
		ask.DryRun = false
		a := handlers.Decided(t, w.outside, ask)
		at := fmt.Sprintf("seed %d, step %d: %s %s %s for %d with %d tokens", seed, step, addr, tier, thing, cost, len(shown))
		require.Equal(t, over.Reason, a.Reason, at)
		require.Equal(t, a.Reason, dry.Reason, at)
		require.Equal(t, a.Status, dry.Status, at)
		require.Equal(t, a.Allowed, dry.Allowed, at)
		require.Empty(t, dry.Token(), at)
		require.Equal(t, over.Allowed, a.Allowed, at)
		require.Equal(t, over.Admitted, a.Admitted, at)
		require.Equal(t, over.Status, a.Status, at)
		require.Equal(t, over.Own, a.Own, at)
		require.Equal(t, over.Tier, a.Tier, at)
		require.Equal(t, over.Tokens, a.Tokens, at)
		require.Equal(t, over.TokenErr, a.TokenErr, at)
		require.Equal(t, over.Limits(), a.Limits(), at)
		require.Equal(t, over.Pseudonym(), a.Pseudonym(), at)
		require.Equal(t, handlers.TokenIn(resp), a.Token(), at)
		require.Equal(t, over.Offered == nil, a.Offered == nil, at)
		if tok := a.Token(); tok != "" {
			tokens = append(tokens, tok)
		}
		if over.Offered != nil && offered < 6 && rnd.IntN(3) == 0 {
			// A proof buys a tally: one challenge for both, so that they sell the same.
			offered++
			proof := handlers.Solve(t, *over.Offered)
			a := handlers.Decided(t, w.outside, middleware.Ask{Identity: id, Proof: proof})
			resp := handlers.Send(w.h, handlers.From(addr), handlers.With("Tier", tier, "Thing", thing, "Cost", "1"), handlers.Proving(proof))
			require.Equal(t, w.seen.Last().Own, a.Own, at)
			require.Equal(t, w.seen.Last().Limits(), a.Limits(), at)
			require.Equal(t, handlers.TokenIn(resp), a.Token(), at)
			tokens = append(tokens, a.Token())
		}
	}
	require.Greater(t, len(tokens), 0)
}
