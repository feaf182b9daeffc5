// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/kit"
)

// inLine is a policy of one at once, with a line of five, and a challenge.
func inLine(mode middleware.Mode) middleware.Config {
	cfg := challenging(new(clock), mode)
	cfg.Now = time.Now
	cfg.Limits = []middleware.Limit{{Quota: 1000, Window: time.Minute}}
	cfg.Concurrency = &middleware.Concurrency{Max: 1, Queue: 5}
	return cfg
}

// A proof that was good when its request came buys one request, though several that show it
// stand in line until it has long ended.
func TestAProofThatWaitsInLineIsSpentOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := newSite(t, inLine(middleware.EveryRequest))
		d := newDoor(false)
		busy := h.M.Handler(d)
		first, proof := solved(t, send(h)), solved(t, send(h))
		come(busy, 1, proving(first))
		admitted := come(h, 5, proving(proof))
		time.Sleep(20 * time.Second) // a proof is good for ten
		d.opens()
		require.EqualValues(t, 1, admitted.Load())
	})
}

// What would be refused when it is its turn, for want of a proof or over its limits, costs
// nothing to send: it takes nobody's place in the line.
func TestOnlyWhatWouldBeAdmittedStandsInLine(t *testing.T) {
	tally := func(t *testing.T, h *site) option { return showing(bought(t, h)) }
	ticket := func(t *testing.T, h *site) option {
		ticket := refusedWithTicket(t, h)
		time.Sleep(6 * time.Second)
		return holding(ticket)
	}
	for _, test := range []struct {
		name     string
		mode     middleware.Mode
		share    int64
		admitted func(t *testing.T, h *site) option
	}{
		{"a proof", middleware.EveryRequest, 0, func(t *testing.T, h *site) option { return proving(solved(t, fetched(h))) }},
		{"a tally", middleware.WhenExhausted, 0, tally},
		{"a newcomer's tally", middleware.Newcomers, 0, tally},
		{"a ticket", middleware.WhenExhausted, 5, ticket},
		{"a newcomer's ticket", middleware.Newcomers, 5, ticket},
	} {
		kit.RunBubble(t, test.name, func(t *testing.T) {
			cfg := inLine(test.mode)
			cfg.Limits = []middleware.Limit{fixed(20, time.Minute)}
			cfg.Challenge.WaitingRoom = test.share
			h := newSite(t, cfg)
			if test.mode == middleware.WhenExhausted {
				require.Equal(t, 20, admitted(h, 21))
			}
			d, honest := newDoor(false), test.admitted(t, h)
			if test.mode == middleware.EveryRequest {
				come(h.M.Handler(d), 1, proving(solved(t, fetched(h))))
			} else { // the slots of its own are one, and the shared one
				own := bought(t, h)
				if test.share == 0 {
					come(h.M.Handler(d), 1, honest)
				}
				come(h.M.Handler(d), 2, showing(own))
			}
			began := time.Now()
			require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
			require.Equal(t, middleware.TooManyAtOnce, h.Decisions.Last().Reason)
			require.Zero(t, time.Since(began), "told at once")
			before := len(h.Decisions.All)
			come(h, 1, honest)
			require.Len(t, h.Decisions.All, before, "it waits")
			d.opens()
			require.True(t, h.Decisions.Last().Admitted)
		})
	}
}

// A tally that was bought is worth nothing after its end, though the request that shows it
// has stood in line since before: the memory has forgotten what was used of it.
func TestATallyThatEndsInLineIsNotCharged(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		cfg := inLine(middleware.WhenExhausted)
		cfg.Concurrency.MaxHold = time.Hour
		cfg.Limits = []middleware.Limit{{Quota: 96, Window: 24 * time.Hour}}
		h := newSite(t, cfg)
		spend(t, h, 96)
		own, other := bought(t, h), bought(t, h) // worth four each
		require.Equal(t, 3, admitted(h, 3, showing(own)))
		time.Sleep(50 * time.Minute)
		d := newDoor(false)
		come(h.M.Handler(d), 3, showing(own, other)) // the slots of both, and the shared one
		require.EqualValues(t, 3, d.live.Load())
		late := come(h, 5, showing(own))
		time.Sleep(55 * time.Minute)
		d.opens()
		require.Zero(t, late.Load())
	})
}

func TestShadowModeHoldsNobodyUp(t *testing.T) {
	for _, counter := range []exact.Counter{nil, exact.NewMemory(1024, time.Now)} {
		kit.Bubble(t, func(t *testing.T) {
			cfg := atOnce(middleware.Concurrency{Max: 1, CancelHeld: true})
			cfg.Shadow = true
			if counter == nil {
				cfg.Concurrency.Queue = 5
			} else {
				cfg.Exact = &middleware.Exact{Counter: counter, Outage: middleware.FailOpen}
			}
			d := newDoor(true)
			come(newLimiter(t, cfg).Handler(d), 3)
			require.EqualValues(t, 3, d.live.Load(), "nobody waits")
			time.Sleep(time.Minute)
			synctest.Wait()
			require.EqualValues(t, 3, d.live.Load(), "nobody is ended")
			close(d.open)
		})
	}
}

func TestAPanicOfTheHookGivesTheSlotBack(t *testing.T) {
	cfg := atOnce(middleware.Concurrency{Max: 1})
	n := 0
	cfg.OnDecision = func(context.Context, middleware.Decision) {
		if n++; n == 1 {
			panic(http.ErrAbortHandler)
		}
	}
	h, spy := limited(t, cfg)
	require.Panics(t, func() { send(h) })
	require.Equal(t, http.StatusOK, send(h).StatusCode)
	require.EqualValues(t, 1, spy.Calls.Load())
}

func TestARefusalHoldsNoSlot(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		cfg := atOnce(middleware.Concurrency{Max: 1})
		cfg.Limits[0].Quota = 2
		cfg.Cost = costOf
		tarpit := newDoor(false)
		cfg.RefusalHandler = tarpit
		h, _ := limited(t, cfg)
		require.Equal(t, http.StatusOK, send(h).StatusCode)
		come(h, 1, costing(2))
		require.EqualValues(t, 1, tarpit.live.Load())
		require.Equal(t, http.StatusOK, send(h).StatusCode)
		close(tarpit.open)
	})
}

func TestAHijackedConnectionCanBeHalfClosed(t *testing.T) {
	half := make(chan bool, 1)
	m := newLimiter(t, atOnce(middleware.Concurrency{Max: 1}))
	server := serve(t, m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn := upgraded(t, w)
		_, ok := conn.(interface{ CloseWrite() error })
		half <- ok
		_ = conn.Close()
	})))
	oneShot(t, server, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	require.True(t, <-half)
}

// A client with a tally of its own stands in that tally's line, however long that of its address is.
func TestABoughtTallyHasALineOfItsOwn(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		cfg := inLine(middleware.WhenExhausted)
		cfg.Concurrency.Queue = 1
		h := newSite(t, cfg)
		own, d := bought(t, h), newDoor(false)
		busy := h.M.Handler(d)
		come(busy, 1, showing(own))
		come(busy, 1)
		live := d.live.Load()
		come(busy, 1) // as many as may stand in the line of the address
		before := len(h.Decisions.All)
		come(busy, 1, showing(own))
		decided := len(h.Decisions.All)
		d.opens()
		require.EqualValues(t, 2, live)
		require.Equal(t, before, decided, "it waits")
		require.Len(t, h.Decisions.All, before+2)
		require.True(t, h.Decisions.Last().Admitted)
	})
}

// A request whose pass has ended in line is charged to the tally that its proof has opened.
func TestAProofOutlivesAPassInLine(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		cfg := inLine(middleware.WhenExhausted)
		cfg.Concurrency.MaxHold = time.Hour
		h := newSite(t, cfg)
		own := bought(t, h)
		time.Sleep(50 * time.Minute)
		proof, d := solved(t, fetched(h)), newDoor(false)
		busy := h.M.Handler(d)
		come(busy, 1, showing(own))
		come(busy, 1, proving(proof))
		come(busy, 1)
		live := d.live.Load()
		come(h, 1, showing(own), proving(proof))
		time.Sleep(15 * time.Minute)
		before := len(h.Decisions.All)
		d.opens()
		require.EqualValues(t, 3, live, "the slots of both tallies, and the shared one")
		require.Len(t, h.Decisions.All, before+1)
		require.True(t, h.Decisions.Last().Admitted)
		require.True(t, h.Decisions.Last().Own)
	})
}

// What a request has paid that stood in line is given back in the window in which it was charged,
// not in that in which it came.
func TestARequestThatStoodInLineIsSettledWhereItWasCharged(t *testing.T) {
	for name, limit := range map[string]middleware.Limit{
		"fixed":   fixed(10, time.Minute),
		"sliding": {Quota: 10, Window: time.Minute},
		"bucket":  {Quota: 10, Window: time.Minute, Algorithm: middleware.TokenBucket},
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			cfg := inLine(middleware.WhenExhausted)
			cfg.Challenge, cfg.Limits = nil, []middleware.Limit{limit}
			cfg.Cost = func(r *http.Request) int64 { return int64(len(r.Header["X-Paid"])) }
			m := newLimiter(t, cfg)
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(110 * time.Second)))
			d := newDoor(false)
			come(m.Handler(d), 1) // costs nothing, and holds the slot
			come(m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				require.NoError(t, middleware.Refund(w, r))
			})), 1, with("X-Paid", "1"))
			time.Sleep(20 * time.Second)
			d.opens()
			require.Equal(t, 10, admitted(m.Handler(new(spy)), 20, with("X-Paid", "1")))
		})
	}
}
