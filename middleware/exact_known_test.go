// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/lease"
	"github.com/tallystick/tallystick/middleware/exact/memory"
)

// A mover is a counter whose accounts may begin anew.
type mover struct {
	*ledger
	known []exact.Used // of the last call
}

func (m *mover) ChangesOwners() bool { return true }

func (m *mover) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	m.known = call.Known
	return m.ledger.Take(ctx, call)
}

// A counter whose accounts may begin anew is told what token and memory know was used, and never more; no
// other is told anything.
func TestExactIsToldWhatIsKnown(t *testing.T) {
	window, hour := []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 50, Window: time.Minute}}, int64(60)
	bucket := []middleware.Limit{{Algorithm: middleware.TokenBucket, Quota: 60, Window: time.Hour}}
	site := func(c *clock, counter exact.Counter, limits []middleware.Limit, more func(*middleware.Config)) http.Handler {
		cfg := paid(c, counter)
		if cfg.Limits = limits; more != nil {
			more(&cfg)
		}
		h, _ := limited(t, cfg)
		return h
	}
	c := new(clock)
	m := &mover{ledger: newLedger(c)}
	one, other := site(c, m, window, nil), site(c, m, window, nil)
	minute := c.Now().Unix() / hour
	knows := func(cur, prev uint32) {
		t.Helper()
		require.Len(t, m.known, 1)
		m.known[0].ID = 0
		require.Equal(t, exact.Used{At: minute, Cur: cur, Prev: prev}, m.known[0])
	}
	send(one)
	require.Nil(t, m.known, "a newcomer")
	tok := tokenIn(send(one))
	knows(1, 0)
	send(other)
	require.Nil(t, m.known, "of another instance")
	send(other, showing(tok))
	knows(2, 0)
	send(one, showing("x"+tok))
	knows(2, 0)

	leased, err := lease.New(m, lease.Config{Instances: 1, Block: 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, leased.Close()) })
	one, m.known = site(c, leased, window, nil), nil
	send(one, showing(tok))
	knows(2, 0)

	plain := &quiet{ledger: newLedger(c)}
	one = site(c, plain, window, nil)
	send(one)
	send(one)
	require.Nil(t, plain.known, "a counter that does not ask")

	one = site(c, m, bucket, nil)
	send(one)
	require.Nil(t, m.known)
	send(one)
	require.Equal(t, c.Now().Add(time.Minute).UnixMicro(), m.known[0].At)
	for name, one := range map[string]http.Handler{
		"a part of a bucket, which takes longer to empty": site(c, m, bucket, func(cfg *middleware.Config) { cfg.Instances = 2 }),
	} {
		send(one)
		send(one)
		require.Nil(t, m.known, name)
	}

	full := site(c, m, window, func(cfg *middleware.Config) { cfg.MaxClients = 1 })
	for i := range 200 {
		send(full, from(fmt.Sprintf("198.51.100.%d", i)))
		require.Nil(t, m.known, "a newcomer to a full memory begins with the count of another")
	}
	for i := range 200 { // of unrelated networks, so that each has a cell
		addr, tok := from(fmt.Sprintf("%d.51.100.1", 20+i)), ""
		send(full, addr)
		require.Empty(t, m.known, "and goes on with it")
		for n := range uint32(3) {
			tok = tokenIn(send(full, addr, showing(tok)))
			for _, k := range m.known {
				require.Equal(t, n, k.Cur, "but its token has what it has used")
			}
		}
	}
}

// quiet is a mover that does not say so.
type quiet struct {
	*ledger
	known []exact.Used
}

func (q *quiet) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	q.known = call.Known
	return q.ledger.Take(ctx, call)
}

// elsewhere is a counter whose accounts may begin anew.
type elsewhere struct{ exact.Counter }

func (elsewhere) ChangesOwners() bool { return true }

// Where the clock of the owner is in another window than that of who asks, or the call was still waiting in the one before, a
// charge lies in one window all the same, and what is settled above it too: who echoes is refused where its limit is, and
// of what is given back nothing is known.
func TestExactIsToldInTheOwnersWindow(t *testing.T) {
	for name, by := range map[string]struct{ ahead, waits time.Duration }{
		"ahead": {ahead: 1500 * time.Millisecond}, "behind": {ahead: -1500 * time.Millisecond}, "late": {waits: 7 * time.Second},
	} {
		start := func(t *testing.T) (site http.Handler, known *[]exact.Used) {
			c, owner := new(clock), new(clock)
			c.Advance(time.Hour - by.ahead/2 - by.waits/2)
			owner.Advance(time.Hour + by.ahead/2 - by.waits/2)
			waits := by.waits
			known = new([]exact.Used)
			counter := &altered{Counter: memory.New(1, owner.Now)}
			counter.OnTake = func(ctx context.Context, call exact.Call) (exact.Verdict, error) {
				c.Advance(waits)
				owner.Advance(waits)
				waits, *known = 0, call.Known
				return counter.Counter.Take(ctx, call)
			}
			cfg := paid(c, elsewhere{counter})
			cfg.Limits = []middleware.Limit{{Quota: 5, Window: time.Minute}}
			limit, err := middleware.New(cfg)
			require.NoError(t, err)
			return limit.Handler(settling(t, false)), known
		}
		for _, tt := range []struct{ first, tokens int64 }{{1, 1}, {1, 2}, {3, 1}, {3, 2}} {
			t.Run(fmt.Sprint(name, tt), func(t *testing.T) {
				site, known := start(t)
				more, shows := settles(tt.first), showing()
				for range 5 - tt.first + 1 {
					resp := send(site, shows, more)
					require.Equal(t, http.StatusOK, resp.StatusCode, "%v", *known)
					more, shows = settles(1), showing(slices.Repeat([]string{tokenIn(resp)}, int(tt.tokens))...)
				}
				require.Equal(t, http.StatusTooManyRequests, send(site, shows).StatusCode)
			})
		}
		t.Run(name+" and given back", func(t *testing.T) {
			site, known := start(t)
			send(site, settles(0))
			send(site)
			require.Nil(t, *known)
		})
	}
}

// What was settled below its estimate is in the token, if that goes out later. If not, a new owner counts the estimate.
func TestExactIsToldTheEstimateOfTheToken(t *testing.T) {
	for after, more := range map[bool]int{false: 5, true: 4} {
		c := new(clock)
		counter := &altered{Counter: memory.New(1, c.Now)}
		cfg := paid(c, elsewhere{counter})
		cfg.Limits = []middleware.Limit{{Quota: 5, Window: time.Minute}}
		limit, err := middleware.New(cfg)
		require.NoError(t, err)
		site := limit.Handler(settling(t, after))
		tok := tokenIn(send(site, settles(0)))
		require.Equal(t, after, tok != "", "it says what was charged")
		counter.Counter = memory.New(1, c.Now) // the owner is another
		for range more {
			resp := send(site, showing(tok))
			require.Equal(t, http.StatusOK, resp.StatusCode)
			tok = tokenIn(resp)
		}
		require.Equal(t, http.StatusTooManyRequests, send(site, showing(tok)).StatusCode)
	}
}
