// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
)

// An honest client behind a shared address: it asks, solves what it is offered, and asks again.
type honest struct {
	token  string
	prices []uint64
	wait   time.Duration // that it was told
}

// ask sends one request, solving until it is admitted or told to wait.
func (c *honest) ask(t *testing.T, h http.Handler) bool {
	resp := send(h, showing(c.token))
	for range 8 {
		if resp.StatusCode == http.StatusOK {
			if tok := tokenIn(resp); tok != "" {
				c.token = tok
			}
			return true
		}
		if resp.Header.Get(middleware.ChallengeHeader) == "" {
			c.wait = retryAfter(t, resp)
			return false
		}
		offer := challengeIn(t, resp)
		c.prices = append(c.prices, offer.Work)
		resp = send(h, showing(c.token), proving(solve(t, offer)))
	}
	return false
}

func (c *honest) price() (last uint64) {
	if len(c.prices) > 0 {
		last = c.prices[len(c.prices)-1]
	}
	return last
}

// Twenty honest clients behind one address, with a Crowd of eight.
func TestHonestCrowd(t *testing.T) {
	for name, mode := range map[string]middleware.Mode{"WhenExhausted": middleware.WhenExhausted, "Newcomers": middleware.Newcomers} {
		site := func(t *testing.T) (*site, *clock) {
			now := new(clock)
			cfg := challenging(now, mode)
			cfg.Challenge.Work, cfg.Challenge.Crowd = 64, 8
			return newSite(t, cfg), now
		}
		t.Run(name+"/beside one that floods without solving", func(t *testing.T) {
			h, now := site(t)
			clients := make([]honest, 20)
			var highest uint64
			for i := range clients {
				admitted(h, 50) // the flood: all that can be had for nothing
				for range 3 {
					require.True(t, clients[i].ask(t, h), "client %d", i)
				}
				highest = max(highest, clients[i].price())
			}
			require.LessOrEqual(t, highest, priceAfter(19, 8, 64), "five and a half times the base price")
			for range 10 { // and so it goes on, without another purchase
				now.Advance(time.Minute)
				for i := range clients {
					admitted(h, 20)
					paid := len(clients[i].prices)
					require.True(t, clients[i].ask(t, h))
					require.Len(t, clients[i].prices, paid, "what was bought lasts")
				}
			}
			t.Logf("the last of 20 paid %d times the base price", highest/64)
		})
		t.Run(name+"/all at once", func(t *testing.T) {
			h, _ := site(t)
			exhaustIn(t, mode, h)
			clients := make([]honest, 20)
			inParallel(len(clients), func(i int) {
				if !clients[i].ask(t, h) {
					t.Error("not admitted")
				}
			})
			var highest, most uint64
			for i := range clients {
				total := uint64(0)
				for _, price := range clients[i].prices {
					total += price
				}
				highest, most = max(highest, clients[i].price()), max(most, total)
			}
			require.LessOrEqual(t, highest, priceAfter(19, 8, 64))
			require.LessOrEqual(t, most, uint64(11*64), "with what was solved in vain as the price rose")
			t.Logf("of 20 at once the unluckiest paid %d times the base price in all", most/64)
		})
		t.Run(name+"/beside one that also buys", func(t *testing.T) {
			h, _ := site(t)
			exhaustIn(t, mode, h)
			greedy := func(n int) {
				for range n {
					var c honest
					c.ask(t, h)
				}
			}
			clients := make([]honest, 20)
			through := 0
			for i := range clients {
				greedy(1)
				if clients[i].ask(t, h) {
					through++
				}
			}
			require.Equal(t, 20, through, "all")
			t.Logf("the last of 20 paid %d times the base price", clients[19].price()/64)
		})
	}
}

// A spent shared token in the header beside a fresh own cookie, and every other way to plant what is spent.
func TestPlantedTokensLockNobodyOut(t *testing.T) {
	now := new(clock)
	spentOwn := func(t *testing.T, h *site) string {
		tok := bought(t, h, from("198.51.100.66"))
		for range 5 {
			tok = tokenIn(send(h, showing(tok), from("198.51.100.66")))
		}
		return tok
	}
	t.Run("a spent shared token in the header, a fresh own cookie", func(t *testing.T) {
		h := newSite(t, challenging(now, middleware.WhenExhausted))
		shared := spend(t, h, 5)
		own := bought(t, h)
		for range 5 {
			resp := requireStatus(t, http.StatusOK, send(h, showing(shared), showingCookie(own)))
			require.True(t, h.Decisions.Last().Own, "the own tally is charged")
			own = cookieIn(resp).Value
			require.NotEmpty(t, claimsIn(t, own).Fam)
		}
		require.Equal(t, http.StatusTooManyRequests, send(h, showing(shared), showingCookie(own)).StatusCode)
	})
	t.Run("a spent own token, and the shared quota", func(t *testing.T) {
		h := newSite(t, challenging(now, middleware.WhenExhausted))
		planted := spentOwn(t, h)
		require.Equal(t, 5, admitted(h, 9, showing(planted)))
		require.Equal(t, 5, admitted(h, 9, showingCookie(planted), from("203.0.113.2")))
	})
	for name, mode := range map[string]middleware.Mode{"WhenExhausted": middleware.WhenExhausted, "Newcomers": middleware.Newcomers} {
		t.Run("three spent own tokens beside a fresh one/"+name, func(t *testing.T) {
			h := newSite(t, challenging(now, mode))
			p1, p2, p3 := spentOwn(t, h), spentOwn(t, h), spentOwn(t, h)
			exhaustIn(t, mode, h)
			mine := bought(t, h)
			require.Equal(t, 5, admitted(h, 9, showing(p1, p2), showingCookie(p3, mine)))
		})
		t.Run("a spent own token beside a proof/"+name, func(t *testing.T) {
			h := newSite(t, challenging(now, mode))
			planted := spentOwn(t, h)
			exhaustIn(t, mode, h)
			resp := requireStatus(t, http.StatusTooManyRequests, send(h, showingCookie(planted)))
			ok := requireStatus(t, http.StatusOK, send(h, showingCookie(planted), proving(solved(t, resp))), "a proof is worth more than whatever stands beside it")
			require.NotEqual(t, claimsIn(t, planted).Fam, claimsIn(t, cookieIn(ok).Value).Fam, "and takes its place")
		})
	}
	t.Run("somebody's shared token", func(t *testing.T) {
		h := newSite(t, challenging(now, middleware.WhenExhausted))
		stolen := spend(t, h, 5, from("198.51.100.66"))
		require.Equal(t, 5, admitted(h, 9, showing(stolen), showingCookie(stolen)))
	})
}

// A challenge of one instance is redeemed on another whose clock is two seconds behind, for the same bytes.
func TestClocksOfInstancesDiffer(t *testing.T) {
	ahead, behind := new(clock), new(clock)
	for _, skew := range []time.Duration{0, time.Second, 2 * time.Second} {
		ahead.Offset.Store(int64(skew))
		a := newSite(t, challenging(ahead, middleware.Newcomers))
		b := newSite(t, challenging(behind, middleware.Newcomers))
		proof := solved(t, fetched(a))
		there, here := redeemed(a, proof), redeemed(b, proof)
		require.Equal(t, http.StatusOK, here.StatusCode, fmt.Sprint(skew))
		require.Equal(t, tokenIn(there), tokenIn(here))
		require.Equal(t, http.StatusOK, send(b, showing(tokenIn(there))).StatusCode)
	}
	ahead.Offset.Store(int64(3 * time.Second))
	a, b := newSite(t, challenging(ahead, middleware.Newcomers)), newSite(t, challenging(behind, middleware.Newcomers))
	require.Equal(t, middleware.Reason("clock-differs"), problemIn(t, redeemed(b, solved(t, fetched(a)))).Reason)
}

// The price that rises stays one that slow phones can pay before it expires.
func TestThreatOfSlowPhones(t *testing.T) {
	t.Run("T28", func(t *testing.T) {
		const rate = 75_000 // hashes a second, a browser without a JIT
		cfg := challenging(new(clock), middleware.Newcomers)
		cfg.Challenge.Work, cfg.Challenge.Crowd = pow.DefaultWork, 8
		h := newSite(t, cfg)
		c := challengeIn(t, send(h))
		worst := time.Duration(2 * c.Work * uint64(time.Second) / rate)
		require.LessOrEqual(t, worst+2*time.Second, c.TTL, "at the base price none misses it: the worst case fits, with two seconds for the network")
		for _, factor := range []int64{2, 4, 8, 16, 32} { // what the crowd of an address pays
			cfg.Challenge.Work = factor * pow.DefaultWork
			c := challengeIn(t, send(newSite(t, cfg)))
			require.LessOrEqual(t, time.Duration(2*c.Work*uint64(time.Second)/rate)+time.Second, c.TTL, "%d times the base price", factor)
		}
		cfg.Challenge.Work = 1 << 28
		require.Equal(t, 5*time.Minute, challengeIn(t, send(newSite(t, cfg))).TTL, "and no answer is good for longer")
		cfg.Challenge.Mode = middleware.EveryRequest
		require.Equal(t, time.Minute, challengeIn(t, send(newSite(t, cfg))).TTL, "the price does not rise there")
	})
}
