// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/storeless"
)

// divided is a policy of 30 a minute, of which each of n instances admits its part.
func divided(c *clock, n int64) middleware.Config { return under(contact(c), 30, n) }

// under is a policy of so many a minute, under the ceiling of n instances.
func under(cfg middleware.Config, quota, n int64) middleware.Config {
	cfg.Limits[0].Quota, cfg.Instances, cfg.UnfairCeiling = quota, n, true
	return cfg
}

// Whatever a client shows, whichever instance it asks and however often they start anew: it gets
// L·(1 + C/N) at the most.
func TestUnfairCeiling(t *testing.T) {
	for _, n := range []int{3, 10} {
		for _, quota := range []int64{30, 37} {
			t.Run(fmt.Sprintf("drops, L=%d, N=%d", quota, n), func(t *testing.T) {
				cfg := under(contact(new(clock)), quota, int64(n))
				instances := fleet(t, n, cfg)
				part := int(quota) / n
				require.Equal(t, n*part, admitted(inTurn(instances), 40*n))
				instances[1], _ = limited(t, cfg)
				require.Equal(t, part, admitted(inTurn(instances), 40*n), "C = 1")
			})
			t.Run(fmt.Sprintf("drops, forks and echoes, L=%d, N=%d", quota, n), func(t *testing.T) {
				for seed := range uint64(3) {
					c, r := new(clock), random(seed)
					cfg := divided(c, int64(n))
					cfg.Limits[0] = middleware.Limit{Quota: quota, Window: time.Minute} // sliding
					instances := fleet(t, n, cfg)
					tokens, passed, starts := []string{""}, 0, 0
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
						resp := send(instances[r.IntN(n)], showing(tokens[r.IntN(len(tokens))]))
						if resp.StatusCode == http.StatusOK {
							passed++
							tokens = append(tokens, tokenIn(resp))
						}
						require.LessOrEqual(t, passed*n, int(quota)*(n+starts))
					}
				}
			})
		}
	}
}

// What a client gets that echoes and is under its limit: all of it where the balancer spreads
// its requests evenly, and a part where it does not.
func TestUnfairCeilingIsUnfair(t *testing.T) {
	t.Run("one instance after the other", func(t *testing.T) {
		for _, n := range []int{2, 3, 10} {
			require.Equal(t, 30, admitted(echoing(inTurn(fleet(t, n, divided(new(clock), int64(n))))), 30))
		}
		require.Equal(t, 28, admitted(echoing(inTurn(fleet(t, 4, divided(new(clock), 4)))), 40), "four do not divide 30")
	})
	t.Run("always the same instance", func(t *testing.T) {
		for _, n := range []int64{2, 3, 4, 10} {
			require.EqualValues(t, 30/n, admitted(echoing(newSite(t, divided(new(clock), n))), 30))
		}
	})
	t.Run("twice as many instances as there were to be", func(t *testing.T) {
		require.Equal(t, 30, admitted(echoing(inTurn(fleet(t, 20, divided(new(clock), 10)))), 40), "the token holds the quota")
		require.Equal(t, 60, admitted(inTurn(fleet(t, 20, divided(new(clock), 10))), 100))
	})
	t.Run("what it is told", func(t *testing.T) {
		c := new(clock)
		h := newSite(t, divided(c, 10))
		resp := send(h)
		require.Equal(t, `"contact";q=30;w=60`, resp.Header.Get("RateLimit-Policy"))
		require.Equal(t, `"contact";r=2;t=60`, resp.Header.Get("RateLimit"), "of a part of 3")
		require.Equal(t, 2, admitted(echoing(h), 5))
		c.advance(12 * time.Second)
		resp = requireStatus(t, http.StatusTooManyRequests, send(h))
		require.Equal(t, `"contact";r=0;t=48`, resp.Header.Get("RateLimit"))
		require.GreaterOrEqual(t, retryAfter(t, resp), 48*time.Second)
		c.advance(48 * time.Second)
		require.Equal(t, http.StatusOK, send(h).StatusCode)
	})
	t.Run("a cost above its part", func(t *testing.T) {
		cfg := divided(new(clock), 10)
		cfg.Cost = func(*http.Request) int64 { return 4 }
		resp := requireStatus(t, http.StatusForbidden, send(newSite(t, cfg)), "it can never be admitted")
		require.Empty(t, resp.Header.Get("Retry-After"))
	})
	t.Run("a page asks for more than a part", func(t *testing.T) {
		cfg := under(challenging(new(clock), middleware.WhenExhausted), 30, 10)
		cfg.Challenge.NoWaitingRoom = true
		resp := requireStatus(t, http.StatusOK, fetched(newSite(t, cfg), path("/tally/challenge"), query("cost=1000")))
		require.Contains(t, bodyOf(t, resp), `"needed":false,"left":3`, "as of any cost above a quota, it is told of the most there may be")
	})
}

// Wrong passwords are what this is for: neither at once nor one after the other does an attacker
// get more guesses than L·(1 + C/N).
func TestUnfairCeilingOfAThousandWrongPasswords(t *testing.T) {
	const n = 10
	c := new(clock)
	cfg := login(c)
	cfg.Limits[1].Quota = 20
	cfg.Instances, cfg.UnfairCeiling = n, true
	fails := func(instances []*middleware.Middleware, times int) (tried int) {
		for i := range times {
			h := instances[i%len(instances)].Handler(http.HandlerFunc(passwords))
			if send(h).StatusCode == http.StatusUnauthorized {
				tried++
			}
		}
		return tried
	}
	var instances []*middleware.Middleware
	for range n {
		instances = append(instances, newLimiter(t, cfg))
	}
	for _, m := range instances {
		for range 50 {
			require.Equal(t, http.StatusSeeOther, send(m.Handler(http.HandlerFunc(passwords)), right).StatusCode)
		}
	}
	require.Equal(t, 20, fails(instances, 1000))
	instances[3] = newLimiter(t, cfg)
	require.Equal(t, 2, fails(instances, 1000), "C = 1")

	// All at once: what is under way holds its part.
	c.advance(time.Minute)
	under := 0
	var nested http.Handler
	nested = instances[0].Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		under++
		if under < 10 {
			send(nested) // while this is still being hashed
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	send(nested)
	require.Equal(t, 2, under)
	require.Equal(t, 18, fails(instances, 1000), "two of the twenty are counted")

	// What turns out to be right, or is taken back, leaves its part.
	c.advance(time.Minute)
	for range 100 {
		h := instances[0].Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			middleware.Charge(r, false)
		}))
		require.Equal(t, http.StatusUnauthorized, send(h).StatusCode)
	}
	require.Equal(t, 20, fails(instances, 1000))
}

func TestUnfairCeilingOfAll(t *testing.T) {
	const n = 3
	t.Run("bought tallies", func(t *testing.T) {
		cfg := under(challenging(new(clock), middleware.WhenExhausted), 30, n)
		cfg.Challenge.BindOwn = true
		all := handlers(sites(t, n, cfg))
		tok := bought(t, all[0])
		require.Equal(t, 60, admitted(inTurn(all), 200, showing(tok)), "L·(1+F)")
		require.Zero(t, admitted(inTurn(all), 200))
	})
	t.Run("Newcomers", func(t *testing.T) {
		all := handlers(sites(t, n, under(challenging(new(clock), middleware.Newcomers), 30, n)))
		tok, other := bought(t, all[0]), bought(t, all[1])
		require.Equal(t, 30, admitted(inTurn(all), 200, showing(tok)))
		require.Equal(t, 30, admitted(inTurn(all), 200, showing(other)))
	})
	t.Run("EveryRequest", func(t *testing.T) {
		s := newSite(t, under(challenging(new(clock), middleware.EveryRequest), 6, n))
		var proofs []string
		for range 3 { // while a proof would still help
			proofs = append(proofs, solved(t, send(s)))
		}
		for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
			require.Equal(t, want, send(s, proving(proofs[i])).StatusCode, "%d", i)
		}
		require.Equal(t, http.StatusTooManyRequests, send(s).StatusCode, "no proof would help")
	})
	t.Run("networks", func(t *testing.T) {
		c := new(clock)
		all := fleet(t, n, divided(c, n))
		passed := 0
		for i := range 1000 {
			passed += admitted(inTurn(all), n, from(fmt.Sprintf("2001:db8:0:%x::1", i%256)))
		}
		require.Equal(t, 8*30, passed, "a /56")
		c.advance(time.Minute)
		passed = 0
		for i := range 3000 {
			passed += admitted(inTurn(all), n, from(fmt.Sprintf("2001:db8:0:%x::1", i%256<<8|i/256)))
		}
		require.Equal(t, 64*30, passed, "a /48")
	})
	t.Run("the waiting room", func(t *testing.T) {
		c := new(clock)
		cfg := waiting(c, middleware.WhenExhausted)
		cfg.Limits = []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 60, Window: 10 * time.Minute}}
		cfg.Instances, cfg.UnfairCeiling = n, true
		site := newSite(t, cfg)
		require.Equal(t, 20, admitted(site, 100))
		tickets := ticketsOf(t, site, 40)
		c.advance(6 * time.Second)
		require.Equal(t, 60/5/n, admittedWith(site, tickets))
	})
}

func TestUnfairCeilingOfTiersAndCustomers(t *testing.T) {
	cfg := divided(new(clock), 3)
	pro := cfg.Limits[0]
	pro.Quota = 60
	cfg.Tiers = map[string][]middleware.Limit{"pro": {pro}}
	cfg.Identity = byCustomer
	cfg.LimitsFor = patiently(func(_ context.Context, id middleware.Identity) ([]middleware.Limit, error) {
		return map[string][]middleware.Limit{"large": minutely(90), "small": minutely(2)}[id.Name()], nil
	})
	log := logTo(&cfg)
	h := inTurn(fleet(t, 3, cfg))
	require.Equal(t, 30, admitted(h, 300, customer("free")))
	for name, want := range map[string]int{"any": 60, "large": 90, "small": 60} { // 2 cannot be divided by 3: the limits of the tier apply
		require.Equal(t, want, admitted(h, 300, with("X-Customer", name, "X-Tier", "pro")), name)
	}
	require.Contains(t, log.String(), "UnfairCeiling")
}

// A charge that is changed is changed under the ceiling too, and what shadows and Shadow would
// refuse is told and not refused.
func TestUnfairCeilingIsSettled(t *testing.T) {
	refunds := func(w http.ResponseWriter, r *http.Request) { require.NoError(t, middleware.Refund(w, r)) }
	t.Run("Refund", func(t *testing.T) {
		h := newSite(t, divided(new(clock), 10))
		h.spy.serve = refunds
		require.Equal(t, 50, admitted(h, 50))
		h.spy.serve = nil
		require.Equal(t, 3, admitted(h, 50))
	})
	t.Run("Settle", func(t *testing.T) {
		h := newSite(t, divided(new(clock), 10))
		h.spy.serve = func(_ http.ResponseWriter, r *http.Request) { require.NoError(t, middleware.Settle(r, 2)) }
		require.Equal(t, 2, admitted(h, 50), "3, of which the second took 2")
	})
	t.Run("Settle, of an own tally", func(t *testing.T) {
		cfg := under(challenging(new(clock), middleware.Newcomers), 30, 10)
		cfg.Challenge.NoWaitingRoom = true
		s := newSite(t, cfg)
		tok := bought(t, s)
		s.spy.serve = refunds
		require.Equal(t, 20, admitted(s, 20, showing(tok)))
		s.spy.serve = nil
		require.Equal(t, 3, admitted(s, 20, showing(tok)))
	})
	t.Run("a shadow", func(t *testing.T) {
		cfg := divided(new(clock), 10)
		cfg.Limits = append(cfg.Limits, middleware.Limit{Name: "tried", Algorithm: middleware.FixedWindow, Quota: 10, Window: time.Minute, Shadow: true})
		h := newSite(t, cfg)
		for i, why := range []string{"", "the part of ten is one", "nothing was counted there, and nothing given back", "its part is still used up"} {
			if h.spy.serve = nil; i == 2 {
				h.spy.serve = refunds
			}
			require.Equal(t, 1, admitted(h, 1))
			require.Equal(t, i > 0, h.decisions.last().Limits()[1].Blocked, why)
		}
		require.Zero(t, admitted(h, 5))
	})
	t.Run("Shadow", func(t *testing.T) {
		cfg := divided(new(clock), 10)
		cfg.Shadow = true
		h := newSite(t, cfg)
		require.Equal(t, 5, admitted(h, 5))
		require.False(t, h.decisions.last().Admitted)
	})
	t.Run("outside of HTTP", func(t *testing.T) {
		m := newLimiter(t, divided(new(clock), 10))
		id := middleware.Principal("alice")
		for i := range 5 {
			require.Equal(t, i < 3, peeked(t, m, id).Allowed)
			require.Equal(t, i < 3, check(t, m, id, 1).Allowed)
		}
	})
}

// It is switched on and off while serving, begins with nothing, and keeps what it has counted.
func TestUnfairCeilingIsReconfigured(t *testing.T) {
	cfg := divided(new(clock), 10)
	plain := cfg
	plain.UnfairCeiling = false
	m := newLimiter(t, plain)
	h := m.Handler(new(spy))
	require.Equal(t, 5, admitted(h, 5))
	require.NoError(t, m.Reconfigure(cfg))
	require.Equal(t, 3, admitted(h, 10))
	cfg.Instances = 5
	require.NoError(t, m.Reconfigure(cfg))
	require.Equal(t, 3, admitted(h, 10), "of a part of 6")
	require.NoError(t, m.Reconfigure(plain))
	require.Equal(t, 30-5-3-3, admitted(h, 40))
}

// Where the memory is full nobody has more than its part; newcomers may be refused early, and the
// sooner the smaller the parts are.
func TestUnfairCeilingInAFullMemory(t *testing.T) {
	cfg := divided(new(clock), 3)
	cfg.MaxClients = 16
	h := newLimiter(t, cfg).Handler(new(spy))
	for i := range 2000 {
		send(h, from(fmt.Sprintf("198.51.%d.%d", i/250, i%250)))
	}
	passed := 0
	for i := range 100 {
		passed += admitted(h, 1)
		admitted(h, 3, from(fmt.Sprintf("192.0.%d.%d", i/200, i%200)))
	}
	require.LessOrEqual(t, passed, 10)
}

// A ceiling makes the memory larger: an IPv6 client takes a cell more.
func TestUnfairCeilingTakesRoom(t *testing.T) {
	require.Equal(t, limiter.NewMemory(1366, 1).Size(), middleware.MemorySize(newLimiter(t, divided(new(clock), 3))))
}

func TestUnfairCeilingProblems(t *testing.T) {
	limit := func(change func(*middleware.Limit)) func(*middleware.Config) {
		return func(cfg *middleware.Config) { change(&cfg.Limits[0]) }
	}
	for _, test := range []struct {
		name   string
		change func(*middleware.Config)
		says   []string
	}{
		{"one instance", func(cfg *middleware.Config) { cfg.Instances = 0 }, []string{"UnfairCeiling: needs Instances of at least 2"}},
		{"no memory", func(cfg *middleware.Config) { cfg.InsecureNoMemory = true }, []string{"UnfairCeiling: cannot go with InsecureNoMemory"}},
		{"no memory, one instance", func(cfg *middleware.Config) { cfg.Instances, cfg.InsecureNoMemory = 1, true },
			[]string{"UnfairCeiling: needs Instances", "UnfairCeiling: cannot go with InsecureNoMemory"}},
		{"a counter", func(cfg *middleware.Config) { cfg.Exact = &middleware.Exact{} }, []string{"UnfairCeiling: cannot go with Exact"}},
		{"a small quota", limit(func(l *middleware.Limit) { l.Quota = 9 }), []string{"Limits[0].Quota: must be at least Instances under UnfairCeiling: 9 cannot be divided by 10"}},
		{"a small burst", limit(func(l *middleware.Limit) { l.Algorithm, l.Burst = middleware.TokenBucket, 9 }), []string{"Limits[0].Burst: must be at least Instances"}},
		{"a small bucket", limit(func(l *middleware.Limit) { l.Algorithm, l.Quota, l.Burst = middleware.TokenBucket, 9, 8 }),
			[]string{"Limits[0].Quota: must be at least Instances", "Limits[0].Burst: must be at least Instances"}},
		{"a bucket of its quota", limit(func(l *middleware.Limit) { l.Algorithm, l.Quota = middleware.TokenBucket, 9 }), []string{"Limits[0].Quota: must be at least Instances"}},
		{"a meter", limit(func(l *middleware.Limit) { l.Algorithm = storeless.LeakyBucket }), []string{"Limits[0].Algorithm: must be another"}},
		{"a tier", func(cfg *middleware.Config) {
			small := cfg.Limits[0]
			small.Quota = 5
			cfg.Tiers = map[string][]middleware.Limit{"b": {small}, "a": {small}}
		}, []string{`Tiers["a"][0].Quota: must be at least Instances`, `Tiers["b"][0].Quota: must be at least Instances`}},
		{"a pass", func(cfg *middleware.Config) {
			cfg.Limits[0] = middleware.Limit{Quota: 50, Window: 24 * time.Hour}
			cfg.Challenge = &middleware.Challenge{NoWaitingRoom: true}
		}, []string{"Challenge.PassTime: leaves a bought tally too little of the limit contact"}},
		{"a waiting room", func(cfg *middleware.Config) { cfg.Challenge = &middleware.Challenge{} }, []string{"Challenge.WaitingRoom: has too little of the limit contact"}},
		{"two at once", func(cfg *middleware.Config) {
			cfg.Limits[0].Quota = 2
			cfg.MaxClients = -1
		}, []string{"MaxClients: must be", "Limits[0].Quota: must be at least Instances"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := divided(new(clock), 10)
			test.change(&cfg)
			_, err := middleware.New(cfg)
			require.Error(t, err)
			var said []string
			for problem := range storeless.ConfigErrors(err) {
				if !strings.HasPrefix(problem.Field, "Exact") {
					said = append(said, problem.Error())
				}
			}
			require.Len(t, said, len(test.says), "%s", said)
			for i, want := range test.says {
				require.Contains(t, said[i], want)
			}
		})
	}
	cfg := divided(new(clock), 10)
	cfg.Limits[0].Quota = 10
	_, err := middleware.New(cfg)
	require.NoError(t, err)
}
