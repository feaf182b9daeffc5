// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/storeless"
)

// tried is contact, five a minute, with three a minute on trial before it, and an hour's worth after it.
func tried(cfg middleware.Config) middleware.Config {
	cfg.Limits = []middleware.Limit{
		{Name: "trial", Algorithm: middleware.FixedWindow, Quota: 3, Window: time.Minute, Shadow: true},
		{Name: "contact", Algorithm: middleware.FixedWindow, Quota: 5, Window: time.Minute},
		{Name: "trial-hour", Algorithm: middleware.TokenBucket, Quota: 4, Window: time.Hour, Shadow: true},
	}
	return cfg
}

// wouldRefuse are the names of the shadows that would have refused.
func wouldRefuse(d middleware.Decision) (names []string) {
	for _, l := range d.Limits() {
		if l.Shadow && l.Blocked {
			names = append(names, l.Name)
		}
	}
	return names
}

func TestShadowLimits(t *testing.T) {
	trial := func(cfg *middleware.Config) { *cfg = tried(*cfg) }
	refusing := func(names ...string) func(*scene) {
		return func(s *scene) { require.Equal(s, names, wouldRefuse(s.decision())) }
	}
	told := func(left string) fields {
		return fields{"RateLimit-Policy": `"contact";q=5;w=60`, "RateLimit": `"contact";r=` + left + `;t=60`, "X-RateLimit-Limit": "5", "X-RateLimit-Remaining": left}
	}
	dear := func(cfg *middleware.Config) { cfg.Cost = metered(*cfg, 3).Cost }
	settled := func(addr string) []step { // trial counts nothing of four
		as := func(options ...option) option { return both(append(options, from(addr))...) }
		return []step{
			{as: as(costing(4), settles(0)), want: 200, see: all{refusing("trial")}}, {as: as(costing(0)), want: 200, see: all{remain(3, 5, 4)}},
			{as: as(costing(4), settles(3)), want: 200, see: all{refusing("trial")}}, {as: as(costing(0)), want: 200, see: all{remain(3, 2, 1)}},
		}
	}
	inForce := func(yes bool) change { return func(cfg *middleware.Config) { cfg.Limits[0].Shadow = !yes } }
	play(t, []scenario{
		// Each counts for itself: what trial would refuse is counted in trial-hour.
		{"refuse no client, and are told to none", limiting(trial, func(cfg *middleware.Config) {
			cfg.Fields = middleware.RateLimitFields | middleware.XRateLimitInSeconds
		}), []step{
			{show: latest, want: 200, fields: told("4"), see: all{refusing()}}, {show: latest, want: 200, fields: told("3"), see: all{refusing()}},
			{show: latest, want: 200, fields: told("2"), see: all{refusing()}}, {show: latest, want: 200, fields: told("1"), see: all{refusing("trial")}},
			{show: latest, want: 200, fields: told("0"), see: all{refusing("trial", "trial-hour")}},
			{show: latest, want: 429, fields: told("0"), see: all{
				refusing("trial", "trial-hour"), says(`"violated-policies":["contact"]`), lacks("trial"), waitsAtMost(66 * time.Second),
			}},
		}},
		// What other clients of a network have counted there is theirs.
		{"give nothing back that they have not counted", limiting(trial, func(cfg *middleware.Config) {
			cfg.Cost, cfg.Net56Factor = metered(*cfg, 3).Cost, 1
		}).serving(settling(t, false)), []step{
			{as: from("2001:db8::1"), want: 200},
			{as: both(from("2001:db8:0:1::1"), both(costing(3), settles(0))), want: 200, see: all{refusing("trial")}},
			{as: both(from("2001:db8:0:2::1"), costing(0)), want: 200, see: all{remain(2, 4, 3)}},
		}},
		{"of an address are given back and charged what they have counted", limiting(trial, dear).serving(settling(t, false)), settled("203.0.113.1")},
		{"of a network too", limiting(trial, dear).serving(settling(t, false)), settled("2001:db8::1")},
		{"come into force with what they have counted, in memory and in tokens", limiting(trial), []step{
			{show: latest, times: 4, want: 200, keep: "own"}, {do: becomes(inForce(true)), want: 429},
			{on: 1, show: "own", want: 429}, {on: 1, want: 200}, {do: becomes(inForce(false)), want: 200},
		}},
	})
}

// What a client meets with shadows is what it meets without them, whatever it does: with
// tokens, without, from networks, with work, and with limits of its own tier.
func TestShadowLimitsChangeNothing(t *testing.T) {
	bare := func(c *clock) middleware.Config {
		cfg := challenging(c, middleware.WhenExhausted)
		cfg.Fields = middleware.RateLimitFields | middleware.XRateLimitInSeconds
		cfg.Cost = metered(cfg, 5).Cost
		cfg.Limits = []middleware.Limit{
			{Name: "contact", Quota: 5, Window: time.Minute},
			{Name: "burst", Algorithm: middleware.TokenBucket, Quota: 20, Burst: 6, Window: time.Hour},
		}
		return cfg
	}
	for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers, middleware.EveryRequest} {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("%d/%d", mode, seed), func(t *testing.T) {
				now, r := new(clock), random(seed)
				without, with := bare(now), bare(now)
				without.Challenge.Mode, with.Challenge.Mode = mode, mode
				with.Limits = slices.Insert(with.Limits, r.IntN(3),
					middleware.Limit{Name: "a", Quota: 2, Window: 5 * time.Minute, Shadow: true},
					middleware.Limit{Name: "b", Algorithm: storeless.LeakyBucket, Quota: 10, Window: time.Minute, Shadow: true})
				sites := []*site{newSite(t, without), newSite(t, with)}
				tokens := [2]map[string]string{{}, {}}
				would := 0
				for range 150 {
					now.Advance(time.Duration(r.Int64N(int64(10 * time.Second))))
					client := []string{"203.0.113.1", "203.0.113.2", "2001:db8::1", "2001:db8:0:1::1"}[r.IntN(4)]
					drop, work, cost := r.IntN(3) == 0, r.IntN(4) == 0, r.Int64N(4)
					var seen [2][]string
					for i, h := range sites {
						options := []option{from(client), costing(cost)}
						if !drop {
							options = append(options, showing(tokens[i][client]))
						}
						if offered := fetched(h, from(client)); work && offered.Header.Get(middleware.ChallengeHeader) != "" {
							options = append(options, proving(solved(t, offered)))
						}
						resp := send(h, options...)
						if tok := tokenIn(resp); tok != "" {
							tokens[i][client] = tok
						}
						d := h.Decisions.Last()
						seen[i] = []string{
							resp.Status, string(d.Reason), fmt.Sprint(d.Own, d.Admitted),
							resp.Header.Get("RateLimit"), resp.Header.Get("RateLimit-Policy"),
							resp.Header.Get("X-RateLimit-Limit"), resp.Header.Get("X-RateLimit-Remaining"), resp.Header.Get("X-RateLimit-Reset"),
						}
						would += len(wouldRefuse(d))
					}
					require.Equal(t, seen[0], seen[1])
				}
				require.Positive(t, would)
			})
		}
	}
}

func TestShadowLimitIncorrect(t *testing.T) {
	requireMistakes(t, func(c *clock) middleware.Config { return tried(contact(c)) }, []mistake{
		{"Limits", func(cfg *middleware.Config) { cfg.Limits = cfg.Limits[:1] }, ": at least one limit must be in force, and no Shadow\n"},
		{"Limits[0].Shadow", func(cfg *middleware.Config) {
			cfg.Limits = cfg.Limits[:2]
			cfg.Exact = &middleware.Exact{Counter: memory.New(0, nil), Outage: middleware.FailClosed}
		}, ": cannot go with an exact counter, which charges all limits or none\n"},
		{"ByOutcome.Limits", func(cfg *middleware.Config) { cfg.ByOutcome = &middleware.ByOutcome{Limits: []string{"trial"}} },
			": \"trial\" is a Shadow, and cannot count by outcome\n"},
		{"ByOutcome.Limits", func(cfg *middleware.Config) { cfg.ByOutcome = &middleware.ByOutcome{Limits: []string{"contact"}} },
			": must leave out at least one: what is free would not be limited at all\n"},
		{`Tiers["pro"]`, func(cfg *middleware.Config) {
			cfg.Tiers = map[string][]middleware.Limit{"pro": slices.Clone(cfg.Limits)}
			cfg.Tiers["pro"][0].Shadow = false
		}, ": must have the names, algorithms, windows and zones of Limits, and the same Shadow, in that order; tiers differ in Quota and Burst alone\n"},
	})
}
