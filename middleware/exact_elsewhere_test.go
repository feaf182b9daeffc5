// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/kit"
)

// believed is for how long a refusal is at most.
const believed = 10 * time.Second

// waitOf is the Retry-After of a refusal without its jitter, at most: that is a tenth, and thirty seconds.
func waitOf(t *testing.T, resp *http.Response) (least, most time.Duration) {
	t.Helper()
	s, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	require.NoError(t, err)
	wait := time.Duration(s) * time.Second
	return wait - min(wait/10, 30*time.Second) - time.Second, wait
}

// estimating is a route with a month's quota of 1000: a request says what it is going to
// cost, and what it has cost at last.
func estimating(c *clock, counter exact.Counter) middleware.Config {
	cfg := metered(paid(c, counter), 1000)
	cfg.Limits[0].Algorithm, cfg.Limits[0].Window = middleware.FixedWindow, 30*24*time.Hour
	return cfg
}

// What was estimated too high on one instance, and is given back there, is refused on the
// others for ten seconds at most: by what they remember, and by what tokens say.
func TestSettledElsewhereIsHeardOf(t *testing.T) {
	for name, change := range map[string]func(*middleware.Config){
		"an address": func(*middleware.Config) {},
		"a tier": func(cfg *middleware.Config) {
			pro := cfg.Limits[0]
			cfg.Limits[0].Quota, cfg.Tiers = 5, map[string][]middleware.Limit{"pro": {pro}}
			cfg.Identity = func(*http.Request) (middleware.Identity, error) {
				id := middleware.APIKey("customer")
				id.Tier = "pro"
				return id, nil
			}
		},
		"one thing": func(cfg *middleware.Config) {
			cfg.Identity = only(middleware.Principal("customer").For("maps"))
		},
		"five at once": func(cfg *middleware.Config) { cfg.Concurrency = &middleware.Concurrency{Max: 5} },
	} {
		t.Run(name, func(t *testing.T) {
			c := new(clock)
			l := newLedger(c)
			cfg := estimating(c, l)
			change(&cfg)
			begun, finish := make(chan struct{}), make(chan struct{})
			b := newLimiter(t, cfg).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Settle") != "" {
					close(begun)
					<-finish
					settling(t, false)(w, r)
				}
			}))
			a, third := newSite(t, cfg), newSite(t, cfg)
			var wg sync.WaitGroup
			wg.Go(func() { send(b, costs(1000), settles(5)) })
			<-begun
			refused := requireStatus(t, http.StatusTooManyRequests, send(a))
			tok := tokenOf(refused)
			close(finish)
			wg.Wait()

			calls := l.Count()
			for _, after := range []time.Duration{0, 4 * time.Second} {
				c.Advance(after)
				for _, h := range []http.Handler{a, third} {
					resp := requireStatus(t, http.StatusTooManyRequests, send(h, tok))
					least, most := waitOf(t, resp)
					require.Less(t, least, 30*24*time.Hour)
					require.Greater(t, most, 24*time.Hour, "the true wait")
				}
			}
			require.Equal(t, calls, l.Count(), "without a call")
			c.Advance(believed - 4*time.Second)
			for name, h := range map[string]http.Handler{"that has refused": a, "that has the refund": b, "another": third} {
				require.Equal(t, http.StatusOK, send(h, tok).StatusCode, "%s, by the token of before", name)
				require.Equal(t, http.StatusOK, send(h).StatusCode, name)
			}
		})
	}
}

// A customer who is locked out is let in by deleting its account.
func TestDeletedAccountIsHeardOf(t *testing.T) {
	c, l, instances, tok := spentKey(t)
	clear(l.Tallies)
	for _, h := range instances {
		require.Equal(t, http.StatusTooManyRequests, send(h, tok).StatusCode)
	}
	c.Advance(believed)
	for _, h := range instances {
		require.Equal(t, 1, admitted(h, 1, tok))
		require.Equal(t, 1, admitted(h, 1))
	}
}

// spentKey is two instances, of which the first has refused a key that is spent, and told so by a token.
func spentKey(t *testing.T) (c *clock, l *ledger, instances []*site, tok option) {
	c = new(clock)
	l = newLedger(c)
	instances = sites(t, 2, estimating(c, l))
	require.Equal(t, http.StatusOK, send(instances[0], costs(1000)).StatusCode)
	return c, l, instances, tokenOf(send(instances[0]))
}

// estimatingNow is estimating by the clock of a bubble.
func estimatingNow() (*ledger, middleware.Config) {
	l := newLedger(new(clock))
	l.Now = time.Now
	cfg := estimating(new(clock), l)
	cfg.Now = time.Now
	return l, cfg
}

// A spent key costs an instance one call in ten seconds, however it asks, and with its token
// half of that on instances that have not refused it themselves.
func TestSpentKeyCostsACallInTenSeconds(t *testing.T) {
	for _, shows := range []bool{false, true} {
		c, l, instances, tok := spentKey(t)
		before := l.Count()
		for range 600 { // a minute
			for _, h := range instances {
				var options []option
				if shows {
					options = append(options, tok)
				}
				resp := requireStatus(t, http.StatusTooManyRequests, send(h, options...))
				if tokenIn(resp) != "" {
					tok = tokenOf(resp)
				}
			}
			c.Advance(100 * time.Millisecond)
		}
		require.LessOrEqual(t, l.Count()-before, 2*6)
		require.Positive(t, l.Count()-before)
	}
}

// Many requests of a spent key at once, when the ten seconds are over, are one call: the others
// wait for its answer. If there is room again, all of them are counted.
func TestNoHerdOfASpentKey(t *testing.T) {
	for name, room := range map[string]bool{"spent": false, "given back": true} {
		for _, stamped := range []bool{false, true} {
			kit.RunBubble(t, fmt.Sprintf("%s, known by its token %t", name, stamped), func(t *testing.T) {
				l, cfg := estimatingNow()
				h := newSite(t, cfg)
				require.Equal(t, http.StatusOK, send(h, costs(1000)).StatusCode)
				tok := tokenOf(send(h))
				if stamped {
					h = newSite(t, cfg) // which knows nothing
				}
				time.Sleep(believed)
				if room {
					clear(l.Tallies)
				}
				l.Fault = func(context.Context, int) error { time.Sleep(5 * time.Millisecond); return nil }
				before := l.Count()
				began, known := time.Now(), len(h.Decisions.All)
				passed := together(h, 80, tok)
				if room {
					require.Equal(t, 80, passed)
					require.Equal(t, 80, l.Count()-before)
					began := time.Now()
					together(h, 20)
					require.Equal(t, 5*time.Millisecond, time.Since(began), "nobody waits any more")
					return
				}
				require.Zero(t, passed)
				for _, d := range h.Decisions.All[known:] {
					require.Equal(t, middleware.OverLimit, d.Reason)
				}
				require.Equal(t, 1, l.Count()-before)
				require.Equal(t, 5*time.Millisecond, time.Since(began))
			})
		}
	}
}

// One that waits for another's answer does so once, and no longer than a call may take:
// a counter that does not answer is an outage for it as for all.
func TestWhoWaitsForAnAnswerHasADeadline(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		l, cfg := estimatingNow()
		cfg.Exact.Deadline = 50 * time.Millisecond
		h := newSite(t, cfg)
		require.Equal(t, http.StatusOK, send(h, costs(1000)).StatusCode)
		require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
		time.Sleep(believed)
		l.Fault = func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		inParallel(20, func(int) { send(h) })
		require.LessOrEqual(t, time.Since(began), 2*cfg.Exact.Deadline)
	})
}

// The clocks of instances, apart by what is permitted, do not have a refusal be believed for
// longer; and by what is not permitted, no refusal is believed that was said in the future.
func TestRefusalsUnderClocksThatAreApart(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, -20 * time.Second, -5 * time.Second, -time.Second, time.Second, 5 * time.Second, 20 * time.Second, time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			c := new(clock)
			l := newLedger(c)
			cfg := estimating(c, l)
			b := newSite(t, cfg)
			cfg.Now = func() time.Time { return c.Now().Add(ahead) }
			a := newSite(t, cfg)
			require.Equal(t, http.StatusOK, send(a, costs(1000)).StatusCode)
			tok := tokenOf(send(a))
			clear(l.Tallies)
			if ahead > 5*time.Second {
				require.Equal(t, http.StatusOK, send(b, tok).StatusCode, "at once")
			}
			c.Advance(believed)
			require.Equal(t, http.StatusOK, send(b, tok).StatusCode)
			require.Equal(t, http.StatusOK, send(a, tok).StatusCode)
		})
	}
}

// A refund of somebody else, on its way together with a refusal, does not have it forgotten:
// a gateway that settles all the time would ask for spent keys with every request.
func TestRefundsOfOthersLeaveARefusalAlone(t *testing.T) {
	c := new(clock)
	l := newLedger(c)
	cfg := estimating(c, l)
	h := newLimiter(t, cfg).Handler(settling(t, false))
	require.Equal(t, http.StatusOK, send(h, costs(1000)).StatusCode)
	l.Fault = func(_ context.Context, call int) error {
		if call == 2 { // the refusal
			send(h, from("203.0.113.77"), costs(10), settles(1))
		}
		return nil
	}
	require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
	before := l.Count()
	require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
	require.Equal(t, before, l.Count())
}

// The stamp of a refusal on the wire, as docs/wire.md has it: id, age, seconds, hash and limit 0.
func TestRefusalOnTheWire(t *testing.T) {
	c := new(clock)
	cfg := estimating(c, newLedger(c))
	h := newSite(t, cfg)
	require.Equal(t, http.StatusOK, send(h, costs(1000)).StatusCode)
	c.Advance(1234567 * time.Microsecond)
	claims := claimsIn(t, tokenIn(send(h)))
	require.EqualValues(t, 1728000020, claims.Exp)
	require.Equal(t, []int64{7759220, 18765433, 863999, 36848}, claims.T)
}
