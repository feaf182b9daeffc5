package middleware_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// crowd sends a request from each of n other addresses.
func crowd(h http.Handler, n int) {
	for i := range n {
		send(h, from(fmt.Sprintf("198.51.%d.%d", 100+i/256, i%256)))
	}
}

// Addresses cost nothing, so a crowd of them can fill the memory. It leaves a way
// in for whoever pays: one request for each proof, and none for a replay.
func TestMemoryFull(t *testing.T) {
	cfg := challenging(new(clock), middleware.WhenExhausted)
	cfg.MaxClients = 1 // sixteen cells
	cfg.Challenge.Crowd = 8
	lines := logTo(&cfg)
	h := newSite(t, cfg)
	crowd(h, 40)
	require.Equal(t, middleware.MemoryFull, h.decisions.last().Reason)
	require.True(t, h.decisions.last().Saturated)
	require.Positive(t, h.m.Stats().Saturations)
	require.Contains(t, lines.lines()[0], "memory")
	h.spy.calls.Store(0)

	for i := range int64(4) {
		resp := send(h)
		require.Equal(t, http.StatusForbidden, resp.StatusCode)
		p := problemIn(t, resp)
		require.Equal(t, middleware.MemoryFull, p.Reason)
		require.Equal(t, "https://github.com/tallystick/tallystick/blob/main/docs/problems.md#proof-required", p.Type)
		proof := solved(t, resp)
		first := send(h, proving(proof))
		require.Equal(t, http.StatusOK, first.StatusCode)
		require.True(t, h.decisions.last().Saturated)
		inParallel(50, func(int) { send(h, proving(proof)) })
		replay := send(h, proving(proof))
		require.Equal(t, http.StatusForbidden, replay.StatusCode)
		require.Equal(t, middleware.ProofReplayed, h.decisions.last().Reason)
		challengeIn(t, replay)
		again := send(h, showing(tokenIn(first)))
		require.Equal(t, http.StatusForbidden, again.StatusCode, "a token alone need not be believed")
		require.Equal(t, middleware.MemoryFull, h.decisions.last().Reason)
		require.Equal(t, i+1, h.spy.calls.Load())
	}
}

// Those who paid can fill the rest: then nothing more is sold, for a sale that is
// not remembered would raise no price.
func TestRegisterFull(t *testing.T) {
	for name, mode := range allModes {
		t.Run(name, func(t *testing.T) {
			cfg := challenging(new(clock), mode)
			cfg.MaxClients = 1
			lines := logTo(&cfg)
			h := newSite(t, cfg)
			through := 0
			var last *http.Response
			for i := range 40 {
				addr := from(fmt.Sprintf("198.51.100.%d", i))
				last = send(h, addr, proving(solved(t, fetched(h, addr))))
				if last.StatusCode == http.StatusOK {
					through++
				}
			}
			require.Less(t, through, 40)
			require.NotEqual(t, http.StatusOK, last.StatusCode)
			if mode != middleware.WhenExhausted {
				require.Equal(t, http.StatusForbidden, last.StatusCode)
				require.Equal(t, middleware.MemoryFull, problemIn(t, last).Reason)
			}
			challengeIn(t, last)
			require.Positive(t, h.m.Stats().Saturations)
			require.Contains(t, lines.lines()[0], "memory saturated")
			if mode == middleware.EveryRequest {
				return
			}
			buyer := from("203.0.113.1")
			proof := solved(t, fetched(h, buyer))
			resp := redeemed(h, proof, buyer)
			require.Equal(t, http.StatusForbidden, resp.StatusCode)
			require.Equal(t, middleware.MemoryFull, problemIn(t, resp).Reason)
			for range 9 {
				require.Equal(t, http.StatusForbidden, redeemed(h, proof, buyer).StatusCode, "not at the second try either")
			}
			require.EqualValues(t, 16, challengeIn(t, fetched(h, buyer)).Work)
		})
	}
}

// Where only some places are taken, the next challenge leads to another.
func TestMemoryNearlyFull(t *testing.T) {
	cfg := challenging(new(clock), middleware.WhenExhausted)
	cfg.MaxClients, cfg.Challenge.Crowd = 256, 255
	h := newSite(t, cfg)
	exhaust(t, h)
	crowd(h, 650)
	kept, once, unsold := 0, 0, 0
	for range 60 {
		switch n := admitted(h, 12, proving(solved(t, send(h)))); n {
		case 5:
			kept++
		case 1:
			once++
		case 0: // by chance, a few in a thousand: the set where the sale would be noted is full
			d := h.decisions.last() // refused for it, or for the shared family as ever
			require.Contains(t, []middleware.Reason{d.Reason, d.Proof}, middleware.MemoryFull)
			unsold++
		default:
			require.Fail(t, "a proof bought", "%d requests", n)
		}
	}
	require.LessOrEqual(t, unsold, 3)
	require.Positive(t, kept)
	require.Positive(t, once)
	t.Logf("of 60 families %d were remembered, %d had one request", kept, once)
}
