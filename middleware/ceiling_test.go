// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"math/rand/v2"
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
func divided(c *clock, n int64) middleware.Config {
	cfg := contact(c)
	cfg.Limits[0].Quota = 30
	cfg.Instances, cfg.UnfairCeiling = n, true
	return cfg
}

// Whatever a client shows, whichever instance it asks and however often they start anew: it gets
// L·(1 + C/N) at the most.
func TestUnfairCeiling(t *testing.T) {
	for _, n := range []int{3, 10} {
		for _, quota := range []int64{30, 37} {
			t.Run(fmt.Sprintf("drops, L=%d, N=%d", quota, n), func(t *testing.T) {
				cfg := divided(new(clock), int64(n))
				cfg.Limits[0].Quota = quota
				instances := fleet(t, n, cfg)
				part := int(quota) / n
				require.Equal(t, n*part, admitted(inTurn(instances), 40*n))
				instances[1], _ = limited(t, cfg)
				require.Equal(t, part, admitted(inTurn(instances), 40*n), "C = 1")
			})
			t.Run(fmt.Sprintf("drops, forks and echoes, L=%d, N=%d", quota, n), func(t *testing.T) {
				for seed := range uint64(3) {
					c, r := new(clock), rand.New(rand.NewPCG(seed, 7))
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
	echoing := func(t *testing.T, h http.Handler, n int) (passed int) {
		tok := ""
		for range n {
			resp := send(h, showing(tok))
			if resp.StatusCode == http.StatusOK {
				passed++
			}
			if tokenIn(resp) != "" {
				tok = tokenIn(resp)
			}
		}
		return passed
	}
	t.Run("one instance after the other", func(t *testing.T) {
		for _, n := range []int{2, 3, 10} {
			require.Equal(t, 30, echoing(t, inTurn(fleet(t, n, divided(new(clock), int64(n)))), 30))
		}
		require.Equal(t, 28, echoing(t, inTurn(fleet(t, 4, divided(new(clock), 4))), 40), "four do not divide 30")
	})
	t.Run("always the same instance", func(t *testing.T) {
		for _, n := range []int64{2, 3, 4, 10} {
			require.EqualValues(t, 30/n, echoing(t, fleet(t, 1, divided(new(clock), n))[0], 30))
		}
	})
	t.Run("twice as many instances as there were to be", func(t *testing.T) {
		require.Equal(t, 30, echoing(t, inTurn(fleet(t, 20, divided(new(clock), 10))), 40), "the token holds the quota")
		require.Equal(t, 60, admitted(inTurn(fleet(t, 20, divided(new(clock), 10))), 100))
	})
	t.Run("what it is told", func(t *testing.T) {
		c := new(clock)
		h := fleet(t, 1, divided(c, 10))[0]
		resp := send(h)
		require.Equal(t, `"contact";q=30;w=60`, resp.Header.Get("RateLimit-Policy"))
		require.Equal(t, `"contact";r=2;t=60`, resp.Header.Get("RateLimit"), "of a part of 3")
		require.Equal(t, 2, echoing(t, h, 5))
		c.advance(12 * time.Second)
		resp = send(h)
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		require.Equal(t, `"contact";r=0;t=48`, resp.Header.Get("RateLimit"))
		wait := retryAfter(t, resp)
		require.GreaterOrEqual(t, wait, 48*time.Second)
		c.advance(48 * time.Second)
		require.Equal(t, http.StatusOK, send(h).StatusCode)
	})
	t.Run("a cost above its part", func(t *testing.T) {
		cfg := divided(new(clock), 10)
		cfg.Cost = func(*http.Request) int64 { return 4 }
		resp := send(fleet(t, 1, cfg)[0])
		require.Equal(t, http.StatusForbidden, resp.StatusCode, "it can never be admitted")
		require.Empty(t, resp.Header.Get("Retry-After"))
	})
	t.Run("a page asks for more than a part", func(t *testing.T) {
		cfg := challenging(new(clock), middleware.WhenExhausted)
		cfg.Limits[0].Quota = 30
		cfg.Instances, cfg.UnfairCeiling = 10, true
		cfg.Challenge.NoWaitingRoom = true
		resp := fetched(newSite(t, cfg), path("/tally/challenge"), func(r *http.Request) { r.URL.RawQuery = "cost=1000" })
		require.Equal(t, http.StatusOK, resp.StatusCode)
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

// Bought tallies, networks, the waiting room and the modes have their parts as well.
func TestUnfairCeilingOfAll(t *testing.T) {
	const n = 3
	t.Run("bought tallies", func(t *testing.T) {
		cfg := challenging(new(clock), middleware.WhenExhausted)
		cfg.Limits[0].Quota = 30
		cfg.Instances, cfg.UnfairCeiling = n, true
		cfg.Challenge.BindOwn = true
		var all []http.Handler
		for range n {
			all = append(all, newSite(t, cfg))
		}
		tok := bought(t, all[0])
		require.Equal(t, 60, admitted(inTurn(all), 200, showing(tok)), "L·(1+F)")
		require.Zero(t, admitted(inTurn(all), 200))
	})
	t.Run("Newcomers", func(t *testing.T) {
		cfg := challenging(new(clock), middleware.Newcomers)
		cfg.Limits[0].Quota = 30
		cfg.Instances, cfg.UnfairCeiling = n, true
		var all []http.Handler
		for range n {
			all = append(all, newSite(t, cfg))
		}
		tok, other := bought(t, all[0]), bought(t, all[1])
		require.Equal(t, 30, admitted(inTurn(all), 200, showing(tok)))
		require.Equal(t, 30, admitted(inTurn(all), 200, showing(other)))
	})
	t.Run("EveryRequest", func(t *testing.T) {
		cfg := challenging(new(clock), middleware.EveryRequest)
		cfg.Limits[0].Quota = 6
		cfg.Instances, cfg.UnfairCeiling = n, true
		s := newSite(t, cfg)
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

// Each tier has its parts, and each customer.
func TestUnfairCeilingOfTiersAndCustomers(t *testing.T) {
	cfg := divided(new(clock), 3)
	pro := cfg.Limits[0]
	pro.Quota = 60
	cfg.Tiers = map[string][]middleware.Limit{"pro": {pro}}
	cfg.Identity = func(r *http.Request) (middleware.Identity, error) {
		id := middleware.Principal(r.Header.Get("X-User"))
		id.Tier, _, _ = strings.Cut(r.Header.Get("X-User"), "-")
		return id, nil
	}
	cfg.LimitsFor = &middleware.LimitsFor{Func: func(_ context.Context, id middleware.Identity) ([]middleware.Limit, error) {
		l := pro
		switch id.Name() {
		case "pro-large":
			l.Quota = 90
		case "pro-small":
			l.Quota = 2
		default:
			return nil, nil
		}
		return []middleware.Limit{l}, nil
	}}
	cfg.LimitsFor.Deadline = 10 * time.Second // a busy machine must not meet it
	log := logTo(&cfg)
	h := inTurn(fleet(t, 3, cfg))
	require.Equal(t, 30, admitted(h, 300, with("X-User", "free-1")))
	require.Equal(t, 60, admitted(h, 300, with("X-User", "pro-1")))
	require.Equal(t, 90, admitted(h, 300, with("X-User", "pro-large")))
	require.Equal(t, 60, admitted(h, 300, with("X-User", "pro-small")), "2 cannot be divided by 3: the limits of the tier apply")
	require.Contains(t, strings.Join(log.lines(), "\n"), "UnfairCeiling")
}

// A charge that is changed is changed under the ceiling too, and what shadows and Shadow would
// refuse is told and not refused.
func TestUnfairCeilingIsSettled(t *testing.T) {
	t.Run("Refund", func(t *testing.T) {
		m := newLimiter(t, divided(new(clock), 10))
		h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			require.NoError(t, middleware.Refund(w, r))
		}))
		require.Equal(t, 50, admitted(h, 50))
		require.Equal(t, 3, admitted(m.Handler(new(spy)), 50))
	})
	t.Run("Settle", func(t *testing.T) {
		m := newLimiter(t, divided(new(clock), 10))
		h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			require.NoError(t, middleware.Settle(r, 2))
		}))
		require.Equal(t, 2, admitted(h, 50), "3, of which the second took 2")
	})
	t.Run("Settle, of an own tally", func(t *testing.T) {
		cfg := challenging(new(clock), middleware.Newcomers)
		cfg.Limits[0].Quota = 30
		cfg.Instances, cfg.UnfairCeiling = 10, true
		cfg.Challenge.NoWaitingRoom = true
		s := newSite(t, cfg)
		tok := bought(t, s)
		s.spy.serve = func(w http.ResponseWriter, r *http.Request) { require.NoError(t, middleware.Refund(w, r)) }
		require.Equal(t, 20, admitted(s, 20, showing(tok)))
		s.spy.serve = nil
		require.Equal(t, 3, admitted(s, 20, showing(tok)))
	})
	t.Run("a shadow", func(t *testing.T) {
		cfg := divided(new(clock), 10)
		cfg.Limits = append(cfg.Limits, middleware.Limit{Name: "tried", Algorithm: middleware.FixedWindow, Quota: 10, Window: time.Minute, Shadow: true})
		d := record(&cfg)
		m := newLimiter(t, cfg)
		h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Back") != "" {
				require.NoError(t, middleware.Refund(w, r))
			}
		}))
		require.Equal(t, 2, admitted(h, 2))
		require.True(t, d.last().Limits()[1].Blocked, "the part of ten is one")
		require.Equal(t, 1, admitted(h, 1, with("X-Back", "1")))
		require.True(t, d.last().Limits()[1].Blocked, "nothing was counted there, and nothing given back")
		require.Equal(t, 1, admitted(h, 1))
		require.True(t, d.last().Limits()[1].Blocked, "its part is still used up")
		require.Zero(t, admitted(h, 5))
	})
	t.Run("Shadow", func(t *testing.T) {
		cfg := divided(new(clock), 10)
		cfg.Shadow = true
		d := record(&cfg)
		require.Equal(t, 5, admitted(newLimiter(t, cfg).Handler(new(spy)), 5))
		require.False(t, d.last().Admitted)
	})
	t.Run("outside of HTTP", func(t *testing.T) {
		m := newLimiter(t, divided(new(clock), 10))
		id := middleware.Principal("alice")
		for i := range 5 {
			d, err := m.Peek(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, i < 3, d.Allowed)
			a, err := m.Check(t.Context(), id, 1)
			require.NoError(t, err)
			require.Equal(t, i < 3, a.Allowed)
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
		}, []string{"Challenge.PriceMemory: leaves a bought tally too little of the limit contact"}},
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
