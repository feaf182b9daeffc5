// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/chance"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// spread is a policy of so many a minute, whose balancer spreads requests over n instances.
func spread(cfg middleware.Config, quota, n int64) middleware.Config {
	cfg.Limits[0].Quota, cfg.Instances, cfg.Spreads = quota, n, true
	return cfg
}

// byChance is a balancer that picks one of the instances for each request.
func byChance(instances []http.Handler, seed uint64) http.Handler {
	r := random(seed)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { instances[r.IntN(len(instances))].ServeHTTP(w, req) })
}

// Whatever a client shows, whichever instance it asks, whatever its requests cost and however often instances start
// anew: each admits the share of the dearest of its requests.
func TestSpreads(t *testing.T) {
	for _, n := range []int{3, 10} {
		for _, quota := range []int64{5, 20, 100} {
			t.Run(fmt.Sprintf("drops, L=%d, N=%d", quota, n), func(t *testing.T) {
				q := int(chance.Spread(quota, int64(n), 1))
				cfg := spread(contact(new(clock)), quota, int64(n))
				instances := fleet(t, n, cfg)
				require.Equal(t, n*q, admitted(inTurn(instances), (q+2)*n))
				instances[1], _ = limited(t, cfg)
				require.Equal(t, q, admitted(inTurn(instances), (q+2)*n), "C = 1")
			})
			t.Run(fmt.Sprintf("drops, forks and echoes at any cost, L=%d, N=%d", quota, n), func(t *testing.T) {
				for seed := range uint64(4) {
					c, r := new(clock), random(seed)
					cfg := spread(contact(c), quota, int64(n))
					cfg.Limits[0], cfg.Cost = middleware.Limit{Quota: quota, Window: time.Minute}, costOf // sliding
					instances := fleet(t, n, cfg)
					most := 1 + int(seed)
					q := chance.Spread(quota, int64(n), int64(most))
					tokens, passed, starts := []string{""}, int64(0), int64(0)
					for i := range 1500 {
						if i%500 == 0 {
							c.advance(time.Minute - c.Now().Sub(c.Now().Truncate(time.Minute)))
							passed, starts = 0, 0
						}
						c.advance(time.Duration(r.IntN(100)) * time.Millisecond)
						if r.IntN(200) == 0 {
							instances[r.IntN(n)], _ = limited(t, cfg)
							starts++
						}
						cost := 1 + r.Int64N(int64(most))
						resp := send(instances[r.IntN(n)], showing(tokens[r.IntN(len(tokens))]), costing(cost))
						if resp.StatusCode == http.StatusOK {
							passed += cost
							tokens = append(tokens, tokenIn(resp))
						}
						require.LessOrEqual(t, passed, q*(int64(n)+starts))
					}
				}
			})
		}
	}
}

// A client that echoes and uses all of its quota is refused nothing where the balancer goes round, and one request in
// 2,000 where it picks by chance. Where it keeps a client on one instance, it gets the share.
func TestSpreadsIsFair(t *testing.T) {
	windows := 100
	if kit.Brief() {
		windows = 20
	}
	for _, n := range []int{3, 10} {
		for _, quota := range []int64{5, 20, 100} {
			c := new(clock)
			cfg := spread(contact(c), quota, int64(n))
			require.EqualValues(t, quota, admitted(echoing(inTurn(fleet(t, n, cfg))), int(quota)+3))
			require.EqualValues(t, chance.Spread(quota, int64(n), 1), admitted(echoing(newSite(t, cfg)), 100), "always the same")

			h, refused := echoing(byChance(fleet(t, n, cfg), uint64(n))), 0
			for range windows {
				c.advance(time.Minute)
				refused += int(quota) - admitted(h, int(quota))
			}
			most := float64(windows*int(quota)) / 2000
			require.LessOrEqual(t, float64(refused), most+5*math.Sqrt(most), "%d on %d", quota, n)

			for range windows { // who comes again at once is hardly ever refused twice
				c.advance(time.Minute)
				left := int(quota)
				for range 3 {
					left -= admitted(h, left)
				}
				require.Zero(t, left, "%d on %d", quota, n)
			}
		}
	}
}

// Refused by the share alone, a client is told to come again at once: the next request will come to another
// instance. Until then it is told of its tally.
func TestSpreadsTells(t *testing.T) {
	c := new(clock)
	cfg := spread(contact(c), 20, 10)
	cfg.Cost = costOf
	all := fleet(t, 10, cfg)
	resp := send(all[0])
	require.Equal(t, `"contact";q=20;w=60`, resp.Header.Get("RateLimit-Policy"))
	require.Equal(t, `"contact";r=19;t=60`, resp.Header.Get("RateLimit"))
	require.Equal(t, 6, admitted(all[0], 10))
	resp = requireStatus(t, http.StatusTooManyRequests, send(all[0]))
	require.Equal(t, time.Second, retryAfter(t, resp))
	require.Equal(t, `"contact";r=0;t=1`, resp.Header.Get("RateLimit"))
	require.Equal(t, http.StatusOK, send(all[1], showing(tokenIn(resp))).StatusCode)

	require.Equal(t, http.StatusOK, send(all[2], costing(20)).StatusCode, "what fits the quota is never refused for ever")
	require.Equal(t, http.StatusForbidden, send(all[3], costing(21)).StatusCode)
	resp = requireStatus(t, http.StatusTooManyRequests, send(all[2]))
	require.GreaterOrEqual(t, retryAfter(t, resp), time.Minute, "its tally is used up too")
}

func TestSpreadsOfAll(t *testing.T) {
	const n, quota = 10, 100
	q := int(chance.Spread(quota, n, 1))
	t.Run("a bought tally", func(t *testing.T) { // is whole at home, and has its share elsewhere
		for mode, shared := range map[middleware.Mode]int{middleware.WhenExhausted: n * q, middleware.Newcomers: 0} {
			cfg := spread(challenging(new(clock), mode), quota, n)
			cfg.Challenge.BindOwn = true
			all := handlers(sites(t, n, cfg))
			tok := bought(t, all[0])
			own := quota + (n-1)*int(chance.Share(quota, n, 1))
			require.Equal(t, own+shared, admitted(inTurn(all), 3000, showing(tok)))
			require.Zero(t, admitted(inTurn(all), 200))
		}
	})
	t.Run("work is offered where the share refuses", func(t *testing.T) {
		h := newSite(t, spread(challenging(new(clock), middleware.WhenExhausted), quota, n))
		require.Equal(t, q, admitted(h, quota))
		resp := requireStatus(t, http.StatusTooManyRequests, send(h))
		require.Equal(t, time.Second, retryAfter(t, resp))
		require.Equal(t, http.StatusOK, send(h, proving(solved(t, resp))).StatusCode)
	})
	t.Run("EveryRequest", func(t *testing.T) {
		s := newSite(t, spread(challenging(new(clock), middleware.EveryRequest), 5, 3000))
		var proofs []string
		for range 4 {
			proofs = append(proofs, solved(t, send(s)))
		}
		for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
			require.Equal(t, want, send(s, proving(proofs[i])).StatusCode, "%d", i)
		}
	})
	t.Run("networks", func(t *testing.T) {
		c := new(clock)
		all := fleet(t, 3, spread(contact(c), 30, 3))
		passed := 0
		for i := range 1000 {
			passed += admitted(inTurn(all), 3, from(fmt.Sprintf("2001:db8:0:%x::1", i%256)))
		}
		require.EqualValues(t, 3*chance.Spread(8*30, 3, 1), passed, "a /56")
		c.advance(time.Minute)
		passed = 0
		for i := range 3000 {
			passed += admitted(inTurn(all), 3, from(fmt.Sprintf("2001:db8:0:%x::1", i%256<<8|i/256)))
		}
		require.EqualValues(t, 3*chance.Spread(64*30, 3, 1), passed, "a /48")
	})
	t.Run("the waiting room is whole", func(t *testing.T) {
		c := new(clock)
		cfg := spread(waiting(c, middleware.WhenExhausted), quota, n)
		cfg.Limits[0] = middleware.Limit{Algorithm: middleware.FixedWindow, Quota: quota, Window: 10 * time.Minute}
		site := newSite(t, cfg)
		require.Equal(t, q, admitted(site, quota))
		tickets := ticketsOf(t, site, 40)
		c.advance(6 * time.Second)
		require.Equal(t, quota/5, admittedWith(site, tickets))
	})
	t.Run("failures", func(t *testing.T) {
		cfg := login(new(clock))
		cfg.Limits[1].Quota, cfg.Instances, cfg.Spreads = 20, n, true
		tried := 0
		for range n {
			h := newLimiter(t, cfg).Handler(http.HandlerFunc(passwords))
			for range 50 {
				if send(h).StatusCode == http.StatusUnauthorized {
					tried++
				}
			}
		}
		require.EqualValues(t, n*chance.Spread(20, n, 1), tried)
	})
	t.Run("tiers and buckets", func(t *testing.T) {
		cfg := spread(contact(new(clock)), quota, n)
		pro := cfg.Limits[0]
		pro.Quota = 1000
		cfg.Tiers = map[string][]middleware.Limit{"pro": {pro}}
		cfg.Identity = byCustomer
		h := newLimiter(t, cfg).Handler(new(spy))
		require.Equal(t, q, admitted(h, 300, customer("free")))
		require.EqualValues(t, chance.Spread(1000, n, 1), admitted(h, 300, with("X-Customer", "any", "X-Tier", "pro")))

		cfg = spread(contact(new(clock)), quota, n)
		cfg.Limits[0] = middleware.Limit{Algorithm: middleware.TokenBucket, Quota: 60, Burst: 20, Window: time.Minute}
		require.Equal(t, n*20, admitted(inTurn(fleet(t, n, cfg)), 500), "N·b")
	})
	t.Run("beside UnfairCeiling, which is less", func(t *testing.T) {
		cfg := divided(new(clock), 10)
		cfg.Spreads = true
		require.Equal(t, 3, admitted(newSite(t, cfg), 30))
	})
	t.Run("switched on while serving", func(t *testing.T) {
		cfg := contact(new(clock))
		cfg.Limits[0].Quota = quota
		m := newLimiter(t, cfg)
		h := m.Handler(new(spy))
		require.Equal(t, 5, admitted(h, 5))
		require.NoError(t, m.Reconfigure(spread(cfg, quota, n)))
		require.Equal(t, q, admitted(h, quota), "it begins with nothing")
		cfg.Spreads = false
		require.NoError(t, m.Reconfigure(cfg))
		require.Equal(t, quota-5-q, admitted(h, quota))
	})
}

// A crowd behind one address whose requests are spread is expected by all instances together, with room for chance:
// each sells it a share at no more than twice the price of Work, and doubles the price with each share, while as much
// leaks from each as ever. So ten sell to who comes to all of them what little more than two would.
func TestSpreadsDividesCrowds(t *testing.T) {
	const n, work = 10, 32
	for crowd, part := range map[int64]int64{0: 14, 8: 5, 128: 23} {
		c := new(clock)
		cfg := spread(challenging(c, middleware.Newcomers), 5, n)
		cfg.Challenge.Crowd, cfg.Challenge.Work = crowd, work
		require.Equal(t, chance.Spread(cmp.Or(crowd, 64), n, 1), part)
		price := func(level int64) int64 { return work<<(level/part) + work<<(level/part)*(level%part)/part }
		h := newSite(t, cfg)
		buy := func() uint64 {
			offered := challengeIn(t, fetched(h))
			require.Equal(t, http.StatusOK, redeemed(h, solve(t, offered)).StatusCode)
			return offered.Work
		}
		for doubled := range 3 {
			for i := range part {
				require.InDelta(t, price(int64(doubled)*part+i), buy(), 4, "of a crowd of %d, after %d", crowd, i)
			}
		}
		c.advance(time.Hour)
		require.InDelta(t, price(max(0, 3*part-32)), challengeIn(t, fetched(h)).Work, 4, "32 leak, whatever the crowd is")

		all, r, dear := handlers(sites(t, n, cfg)), random(1), 0
		for range cmp.Or(crowd, 64) {
			at := all[r.IntN(n)]
			offered := challengeIn(t, fetched(at))
			require.Equal(t, http.StatusOK, redeemed(at, solve(t, offered)).StatusCode)
			if offered.Work > 2*work {
				dear++
			}
		}
		require.Zero(t, dear, "of a crowd of %d", crowd)
	}
}

func TestSpreadsProblems(t *testing.T) {
	for problem, change := range map[string]func(*middleware.Config){
		"Spreads: needs Instances of at least 2":       func(cfg *middleware.Config) { cfg.Instances = 0 },
		"Spreads: cannot go with Exact":                func(cfg *middleware.Config) { cfg.Exact = &middleware.Exact{} },
		"Spreads: cannot go with InsecureNoMemory":     func(cfg *middleware.Config) { cfg.InsecureNoMemory = true },
		"Spreads: needs Instances of at least 2: ther": func(cfg *middleware.Config) { cfg.Instances = 1 },
	} {
		cfg := spread(contact(new(clock)), 5, 10)
		change(&cfg)
		_, err := middleware.New(cfg)
		require.Error(t, err)
		found := false
		for p := range storeless.ConfigErrors(err) {
			found = found || p.Field == "Spreads" && p.Error()[:len(problem)] == problem
		}
		require.True(t, found, "%s: %v", problem, err)
	}
}

// hardly is a balancer that keeps clients on one instance, but for a request in 870.
func hardly(all []http.Handler) http.Handler {
	n := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		all[min(1, n%870/869)].ServeHTTP(w, r)
	})
}

// The log tells of a gain below 1.5, and of an instance whose clients come to no other: of bought tallies too, and
// not where one token in a thousand says what another instance has admitted, or where tokens are of windows that are
// over.
func TestSpreadsIsChecked(t *testing.T) {
	for name, test := range map[string]struct {
		mode    middleware.Mode
		balance func(all []http.Handler) http.Handler
		every   time.Duration
		told    bool
	}{
		"one instance":          {middleware.WhenExhausted, func(all []http.Handler) http.Handler { return echoing(all[0]) }, time.Second, true},
		"one, a bought tally":   {middleware.Newcomers, func(all []http.Handler) http.Handler { return echoing(all[0]) }, time.Second, true},
		"by chance":             {middleware.WhenExhausted, func(all []http.Handler) http.Handler { return echoing(byChance(all, 1)) }, time.Second, false},
		"hardly":                {middleware.WhenExhausted, func(all []http.Handler) http.Handler { return echoing(hardly(all)) }, time.Second, false},
		"of windows in between": {middleware.WhenExhausted, func(all []http.Handler) http.Handler { return echoing(all[0]) }, 3 * time.Minute, false},
		"no tokens":             {middleware.WhenExhausted, func(all []http.Handler) http.Handler { return all[0] }, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := new(clock)
			cfg := spread(challenging(c, test.mode), 1000, 10)
			log := logTo(&cfg)
			h := test.balance(handlers(sites(t, 2, cfg)))
			if test.mode == middleware.Newcomers {
				send(h, proving(solved(t, fetched(h))))
			}
			for range 1100 {
				c.advance(test.every)
				send(h)
			}
			require.Equal(t, test.told, slices.Contains(codesIn(log.lines()), "spreads-not"), "%s", log.lines())
		})
	}
	for quota, little := range map[int64]bool{5: true, 20: false, 100: false} {
		cfg := spread(contact(new(clock)), quota, 10)
		log := logTo(&cfg)
		newLimiter(t, cfg)
		require.Equal(t, little, len(log.lines()) == 1, "%d", quota)
	}
	cfg := spread(contact(new(clock)), 20, 10)
	cfg.UnfairCeiling, cfg.Limits[0].Quota = true, 10
	log := logTo(&cfg)
	newLimiter(t, cfg)
	require.Empty(t, log.lines(), "an even part wins all there is")
}

// Who shows an old token of its own again and again, as fast as it likes, does not have the log advise to take Spreads
// away, though honest clients' tokens are never looked at.
func TestSpreadsIsNotTalkedOutOf(t *testing.T) {
	for name, last := range map[string]bool{"its first token": false, "its last token": true} {
		t.Run(name, func(t *testing.T) {
			c := new(clock)
			cfg := spread(contact(c), 100, 10)
			log := logTo(&cfg)
			all, tok := handlers(sites(t, 2, cfg)), ""
			for second := range 2400 {
				c.advance(time.Second)
				if second%60 == 0 {
					tok = ""
				}
				for range 21 {
					resp := send(all[0], from("203.0.113.9"), showing(tok))
					if got := tokenIn(resp); got != "" && (last || tok == "") {
						tok = got
					}
				}
			}
			require.NotContains(t, codesIn(log.lines()), "spreads-not")
		})
	}
}
