// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

// busyFrom is contact with WhenBusy, by a rate or by requests under way.
func busyFrom(c *clock, perSecond, atOnce int64) middleware.Config {
	cfg := challenging(c, middleware.WhenBusy)
	cfg.Challenge.BusyPerSecond, cfg.Challenge.BusyAtOnce = perSecond, atOnce
	return cfg
}

// stranger is the address of nobody who was here before, in a network of its own.
func stranger(i int) option { return from(fmt.Sprintf("%d.%d.7.1", 20+i>>8, i&255)) }

// strangers has so many strangers come, one request each, and returns how many were admitted.
func strangers(h http.Handler, n int) (passed int) {
	for i := range n {
		passed += admitted(h, 1, stranger(i))
	}
	return passed
}

// WhenBusy: while it is calm all have the quota of their address, and while it is busy
// work comes first. What was bought is good all the time, and what was counted stays counted.
func TestWhenBusy(t *testing.T) {
	now := new(clock)
	h := newSite(t, busyFrom(now, 20, 0))
	own := bought(t, h, from("203.0.113.7"))
	shared := spend(t, h, 3)
	requireNoChallenge(t, send(h, from("203.0.113.8"), showing(own)))
	require.True(t, h.Decisions.Last().Own)
	require.Contains(t, bodyOf(t, fetched(h)), `{"needed":false,"left":2,`)
	require.False(t, h.M.Stats().Busy)

	require.Equal(t, 197, strangers(h, 300), "ten seconds' worth, and one")
	require.True(t, h.M.Stats().Busy)
	for name, shown := range map[string][]option{"nothing": nil, "the shared token": {showing(shared), showingCookie(shared)}} {
		refused := requireStatus(t, http.StatusForbidden, send(h, shown...), name)
		require.Equal(t, middleware.NoToken, h.Decisions.Last().Reason, name)
		require.Empty(t, tokenIn(refused), name)
		challengeIn(t, refused)
	}
	require.Contains(t, bodyOf(t, fetched(h)), `{"needed":true,"challenge":`)
	require.Equal(t, 3, admitted(h, 3, from("203.0.113.8"), showing(own)), "bought while it was calm")
	worked := requireStatus(t, http.StatusOK, send(h, showing(shared), proving(solved(t, fetched(h)))))
	require.Contains(t, bodyOf(t, fetched(h, showing(tokenIn(worked)))), `{"needed":false,"left":4,"carried":true`)
	spent := tokenIn(worked)
	require.Equal(t, 4, admitted(h, 5, showing(spent)), "no more than its own")
	require.Equal(t, middleware.OverLimit, h.Decisions.Last().Reason, "the shared one is closed")

	now.Advance(15 * time.Second)
	require.False(t, h.M.Stats().Busy)
	require.Equal(t, 2, admitted(h, 9), "what the address has used was not forgotten")
	require.Equal(t, 1, admitted(h, 1, from("203.0.113.9")), "nobody is asked")
	require.Equal(t, 1, admitted(h, 1, from("203.0.113.8"), showing(own)))
	require.True(t, h.Decisions.Last().Own, "and own tallies are charged first")

	now.Advance(45 * time.Second) // the next window
	require.Equal(t, 1, admitted(h, 1, showing(shared)), "the shared token is good again")
	require.False(t, h.Decisions.Last().Own)
	require.Equal(t, 1, admitted(h, 1, showing(spent)))
	require.True(t, h.Decisions.Last().Own, "bought while it was busy")
}

// What is refused, and what costs nothing, makes nobody busy; what is admitted does, whoever admits it.
func TestWhatMakesAnInstanceBusy(t *testing.T) {
	const enough = 201 // of 20 a second: some of their hashes meet
	flooded := func(_ *testing.T, h *site, _ *clock) { strangers(h, enough) }
	for name, test := range map[string]struct {
		busy   bool
		change func(*middleware.Config)
		come   func(t *testing.T, h *site, now *clock)
	}{
		"admitted":  {true, nil, flooded},
		"one fewer": {false, nil, func(_ *testing.T, h *site, _ *clock) { strangers(h, enough-1) }},
		"own tallies": {true, nil, func(t *testing.T, h *site, _ *clock) {
			for i := range enough {
				require.Equal(t, 1, admitted(h, 1, showing(bought(t, h, stranger(i))), stranger(i)))
			}
		}},
		"the waiting room": {true, nil, func(t *testing.T, h *site, now *clock) {
			exhaust(t, h)
			ticket := refusedWithTicket(t, h)
			now.Advance(6 * time.Second)
			strangers(h, enough-1)
			require.False(t, h.M.Stats().Busy)
			require.Equal(t, 1, admitted(h, 1, holding(ticket)))
			require.True(t, h.Decisions.Last().FromWaitingRoom)
		}},
		"outside of HTTP": {true, nil, func(t *testing.T, h *site, _ *clock) {
			for i := range enough {
				allowed(t, h.M, middleware.Principal(fmt.Sprint(i)), 1)
			}
		}},
		"in shadow mode": {true, func(cfg *middleware.Config) { cfg.Shadow = true }, flooded},
		"over their limits": {false, func(cfg *middleware.Config) { cfg.Limits[0].Window = time.Hour }, func(t *testing.T, h *site, now *clock) {
			for i := range enough {
				require.Equal(t, 5, admitted(h, 5, stranger(i)))
				now.Advance(time.Second)
			}
			now.Advance(time.Minute)
			require.False(t, h.M.Stats().Busy)
			for range 10 {
				require.Zero(t, strangers(h, enough))
			}
		}},
		"over its limit": {false, nil, func(_ *testing.T, h *site, _ *clock) { admitted(h, 1000) }},
		"over its limit, in shadow mode": {false, func(cfg *middleware.Config) { cfg.Shadow = true }, func(_ *testing.T, h *site, _ *clock) {
			require.Equal(t, 1000, admitted(h, 1000))
		}},
		"free":       {false, func(cfg *middleware.Config) { cfg.Cost = func(*http.Request) int64 { return 0 } }, func(_ *testing.T, h *site, _ *clock) { strangers(h, 1000) }},
		"a dear one": {false, func(cfg *middleware.Config) { cfg.Cost = func(*http.Request) int64 { return 5 } }, func(_ *testing.T, h *site, _ *clock) { strangers(h, enough-1) }},
		"skipped":    {false, func(cfg *middleware.Config) { cfg.Skip = func(*http.Request) bool { return true } }, func(_ *testing.T, h *site, _ *clock) { strangers(h, 1000) }},
		"peeks": {false, nil, func(t *testing.T, h *site, _ *clock) {
			for range 1000 {
				peeked(t, h.M, visitor)
			}
		}},
		"the endpoints": {false, nil, func(t *testing.T, h *site, _ *clock) {
			for i := range 100 {
				bought(t, h, stranger(i))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := busyFrom(now, 20, 0)
			cfg.MaxClients = 1 << 12 // tallies that are bought find no place in a memory that is full
			if test.change != nil {
				test.change(&cfg)
			}
			h := newSite(t, cfg)
			test.come(t, h, now)
			require.Equal(t, test.busy, h.M.Stats().Busy)
		})
	}
}

func TestARefusedFloodLetsItCalmDown(t *testing.T) {
	now := new(clock)
	h := newSite(t, busyFrom(now, 10, 0))
	require.Equal(t, 101, strangers(h, 200))
	for range 99 {
		now.Advance(100 * time.Millisecond)
		require.Zero(t, strangers(h, 200))
		require.True(t, h.M.Stats().Busy)
	}
	now.Advance(100 * time.Millisecond)
	require.False(t, h.M.Stats().Busy)
	require.Positive(t, strangers(h, 1))
}

// many is how many requests are under way on a busy instance: so many that nine may share a hash, and ten never do. Of
// half as many five were one too many, once in 40,000 runs.
const many = 160

// comeFromAfar has strangers come, one request each.
func comeFromAfar(h http.Handler, first, end int) {
	for i := first; i < end; i++ {
		come(h, 1, stranger(i))
	}
}

// Requests under way count until their handlers are done, however these end; one that was
// refused is none, nor one that is free.
func TestWhenBusyCountsRequestsUnderWay(t *testing.T) {
	for name, concurrency := range map[string]*middleware.Concurrency{"alone": nil, "with Concurrency": {Max: 5}} {
		kit.RunBubble(t, name, func(t *testing.T) {
			cfg := busyFrom(new(clock), 0, many)
			cfg.Now, cfg.Concurrency = time.Now, concurrency
			h, d := newSite(t, cfg), newDoor(false)
			held := h.M.Handler(d)
			comeFromAfar(held, 1, many)
			require.Equal(t, http.StatusOK, send(h, from("203.0.113.2")).StatusCode, "one more, which is gone")
			require.False(t, h.M.Stats().Busy)
			come(held, 1, from("203.0.113.3"))
			require.Equal(t, http.StatusForbidden, send(h, from("203.0.113.2")).StatusCode)
			require.Equal(t, middleware.NoToken, h.Decisions.Last().Reason)
			require.Equal(t, http.StatusOK, send(h, proving(solved(t, fetched(h)))).StatusCode)

			time.Sleep(time.Hour)
			require.True(t, h.M.Stats().Busy, "for as long as they stay")
			for range 100 {
				require.Equal(t, http.StatusForbidden, send(h, stranger(0)).StatusCode)
			}
			d.opens()
			require.False(t, h.M.Stats().Busy)

			aborts := h.M.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
			for i := range 2 * many {
				require.Panics(t, func() { send(aborts, stranger(i)) })
			}
			require.False(t, h.M.Stats().Busy, "a panic leaves nobody behind")
			if concurrency == nil {
				allowed(t, h.M, visitor, 5)
				require.False(t, h.M.Stats().Busy, "what is no request is never under way")
			}
		})
	}
}

func TestAHijackedConnectionIsUnderWay(t *testing.T) {
	hang, now := make(chan struct{}), new(clock)
	m := newLimiter(t, busyFrom(now, 0, 1))
	server := serve(t, m.Handler(hanging(t, hang)))
	upgraded := oneShot(t, server, "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	require.Equal(t, http.StatusSwitchingProtocols, upgraded.StatusCode)
	require.True(t, m.Stats().Busy)
	now.Advance(time.Hour)
	require.True(t, m.Stats().Busy)
	hang <- struct{}{}
	<-hang
	require.False(t, m.Stats().Busy)
}

// Reconfigure changes nothing about what was admitted and is under way: else a program that
// reads its file every second would never be busy.
func TestReconfigureKeepsTheLoad(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		cfg := busyFrom(nil, 20, many)
		cfg.Now = time.Now
		h, d := newSite(t, cfg), newDoor(false)
		again := func() { require.NoError(t, h.M.Reconfigure(cfg)) }
		for i := range 201 {
			again()
			require.Equal(t, 1, admitted(h, 1, stranger(i)))
		}
		again()
		require.True(t, h.M.Stats().Busy)
		require.Zero(t, strangers(h, 9))
		require.False(t, newLimiter(t, cfg).Stats().Busy, "another instance")

		cfg.Challenge = &middleware.Challenge{Work: 16, Path: "/tally/"}
		again()
		require.False(t, h.M.Stats().Busy, "in another mode nobody is")
		require.Equal(t, 9, strangers(h, 9))
		cfg.Challenge = busyFrom(nil, 20, many).Challenge
		again()
		require.True(t, h.M.Stats().Busy, "it was not ten seconds")

		time.Sleep(10 * time.Second)
		require.False(t, h.M.Stats().Busy)
		comeFromAfar(h.M.Handler(d), 1, many)
		again()
		require.False(t, h.M.Stats().Busy)
		comeFromAfar(h.M.Handler(d), many, many+1)
		require.True(t, h.M.Stats().Busy, "those under way before count on")
		d.opens()
		again()
		time.Sleep(10 * time.Second)
		require.False(t, h.M.Stats().Busy)
	})
}
