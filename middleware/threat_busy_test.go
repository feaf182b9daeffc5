// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// An attacker can make an instance busy, with requests that are admitted, and keep it so for as long as it pays for
// them. That costs others work, and locks nobody out: a newcomer proves work once, at the price of its own address,
// and is served as ever; a client that has bought a tally notices nothing.
func TestAnAttackerWhoCrowdsAnInstanceLocksNobodyOut(t *testing.T) {
	const perSecond = 2
	for name, addr := range map[string]string{"of its own": "", "that the attacker has too": "203.0.113.66"} {
		t.Run("newcomers with an address "+name, func(t *testing.T) {
			now := new(clock)
			h := newSite(t, busyFrom(now, perSecond, 0))
			holder := &honest{token: bought(t, h, from("203.0.113.50"))}
			var farm []string
			work := uint64(0)
			attack := func() { // half the threshold, and a little more
				for range perSecond {
					for len(farm) > 0 && send(h, from("203.0.113.66"), showing(farm[0])).StatusCode != http.StatusOK {
						farm = farm[1:]
					}
					if len(farm) == 0 {
						c := challengeIn(t, fetched(h, from("203.0.113.66")))
						work += c.Work
						farm = append(farm, tokenIn(send(h, from("203.0.113.66"), proving(solve(t, c)))))
					}
				}
			}
			strangers(h, 10*perSecond+1)
			served, proofs := 0, 0
			for second := range 60 {
				require.True(t, h.m.Stats().Busy, "second %d", second)
				attack()
				newcomer := &honest{}
				who := from(fmt.Sprintf("192.0.2.%d", second))
				if addr != "" && second < 3 {
					who = from(addr)
				}
				for range 5 { // its whole quota
					if newcomer.askFrom(t, h, who) {
						served++
					}
				}
				proofs += len(newcomer.prices)
				if second%12 == 0 {
					require.True(t, holder.askFrom(t, h, from("203.0.113.50")), "second %d", second)
				}
				now.advance(time.Second)
			}
			require.Equal(t, 60*5, served, "all that they asked for")
			require.Equal(t, 60, proofs, "for one proof each")
			require.Empty(t, holder.prices, "a holder is asked for nothing")
			require.Positive(t, work, "what it has cost the attacker")
		})
	}
}

// askFrom is ask, from an address.
func (c *honest) askFrom(t *testing.T, h http.Handler, who option) bool {
	return c.ask(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who(r)
		h.ServeHTTP(w, r)
	}))
}

// Tokens that were had for nothing while it was calm, and tallies that were bought whenever, are
// worth no more than in WhenExhausted: (N+C)·L·(1+F), whatever the load has been in between.
func TestBoundWhenBusy(t *testing.T) {
	const instances, starts, limit, farmed = 3, 2, 5, 4
	now := new(clock)
	cfg := busyFrom(now, 2, 0)
	var sites []*site
	for range instances + starts {
		sites = append(sites, newSite(t, cfg))
	}
	var farm, shared []string
	passed, asked := int64(0), 0
	attack := func(s *site) {
		before := s.spy.calls.Load()
		for range limit + 2 {
			for _, shown := range append([]string{""}, append(farm, shared...)...) {
				resp := send(s, showing(shown))
				if resp.StatusCode == http.StatusForbidden {
					asked++
				}
			}
		}
		passed += s.spy.calls.Load() - before
	}
	for _, s := range sites[:instances] {
		passed++
		shared = append(shared, tokenIn(send(s))) // first tokens, while it is calm
	}
	for i := range farmed {
		farm = append(farm, bought(t, sites[i%instances]))
	}
	for range 5 { // busy, calm, and busy again, within one window
		for _, s := range sites[:instances] {
			strangers(s, 30)
			attack(s)
			attack(s)
		}
		now.advance(10 * time.Second)
		for _, s := range sites {
			attack(s)
		}
	}
	require.Positive(t, asked)
	require.LessOrEqual(t, now.Now().Sub(midnight), time.Minute)
	require.EqualValues(t, (instances+starts)*limit*(1+farmed), passed, "(N+C)·L·(1+F), and no less: what it says is true")
}

// However many addresses a crowd has, and however it times its requests: all together an
// instance admits no more without work, in any time, than the threshold and ten seconds' worth.
func TestAllThatACrowdGetsWithoutWork(t *testing.T) {
	const perSecond, seconds = 3, 120
	for name, perTick := range map[string]func(i int, busy bool) int{
		"a flood":                            func(int, bool) int { return 20 },
		"bursts":                             func(i int, _ bool) int { return (i % 37) / 36 * 100 },
		"a crowd that comes when it is calm": func(_ int, busy bool) int { return map[bool]int{false: 15}[busy] },
		"a trickle above the threshold":      func(i int, _ bool) int { return (i%3 + 1) / 3 },
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := busyFrom(now, perSecond, 0)
			cfg.MaxClients = 1 << 16
			h := newSite(t, cfg)
			passed, spells, was, next := 0, 0, false, 0
			for i := range seconds * 10 {
				busy := h.m.Stats().Busy
				for range perTick(i, busy) {
					next++
					passed += admitted(h, 1, from(fmt.Sprintf("10.%d.%d.%d", next>>16, next>>8&255, next&255)))
				}
				busy = h.m.Stats().Busy
				if busy && !was {
					spells++
				}
				was = busy
				most := float64(perSecond)*(float64(i)/10+10) + float64(spells)
				require.LessOrEqual(t, float64(passed), most, "after %d tenths of a second", i)
				now.advance(100 * time.Millisecond)
			}
			require.Positive(t, spells)
			require.Greater(t, passed, perSecond*seconds/2, "a crowd shuts nobody out for good")
			t.Logf("%d admitted of %d, busy %d times", passed, next, spells)
		})
	}
}

// Everything at once, for the race detector: whatever the order, all that have begun have ended.
func TestWhenBusyIsSafeForConcurrentUse(t *testing.T) {
	now := new(clock)
	cfg := busyFrom(now, 5, 3)
	cfg.Concurrency = &middleware.Concurrency{Max: 5, Queue: 5}
	h := newSite(t, cfg)
	tok := bought(t, h)
	inParallel(400, func(i int) {
		switch i % 8 {
		case 0:
			_ = h.m.Reconfigure(cfg)
		case 1:
			h.m.Stats()
		case 2:
			send(h, showing(tok))
		case 3:
			now.advance(50 * time.Millisecond)
		default:
			send(h, stranger(i))
		}
	})
	now.advance(10 * time.Second)
	require.False(t, h.m.Stats().Busy)
	for i := range 2 {
		require.Equal(t, 1, admitted(h, 1, from(fmt.Sprintf("192.0.2.%d", i))), "nobody is under way")
	}
}

// TestWaitingRoomOfACrowd: what a crowd gets without work is beside the waiting room, which each of its addresses has.
func TestWaitingRoomOfACrowd(t *testing.T) {
	const perSecond, many = 2, 100
	now := new(clock)
	cfg := waiting(now, middleware.WhenBusy)
	cfg.Challenge.BusyPerSecond = perSecond
	h := newSite(t, cfg)
	require.Equal(t, 10*perSecond+1, strangers(h, many))
	tickets := map[int][]string{}
	for i := range many {
		tickets[i] = ticketsOf(t, h, 2*laneQuota, stranger(i))
	}
	now.advance(5 * time.Second)
	require.True(t, h.m.Stats().Busy)
	for i := range many {
		require.Equal(t, laneQuota, admittedWith(h, tickets[i], stranger(i)), "stranger %d", i)
	}
	require.Zero(t, strangers(h, many), "and no more without a ticket")
}
