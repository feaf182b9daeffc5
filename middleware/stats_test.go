// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/kit"
)

// Every proof that is not accepted is counted once, by its reason, at the endpoint and with a request; Reconfigure
// forgets none.
func TestStatsCountProofs(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.Newcomers)
	h := newSite(t, cfg)
	proofs := func() map[string]uint64 { return noted(h.M.Stats().Proofs) }
	elsewhere := from("203.0.113.9")
	require.Empty(t, proofs())
	require.Equal(t, "contact", h.M.Stats().Policy)
	require.Nil(t, h.M.Stats().Counter, "there is none")

	proof := solved(t, fetched(h))
	stats := h.M.Stats()
	require.EqualValues(t, 1, stats.Challenges)
	require.EqualValues(t, cfg.Challenge.Work, stats.Work)
	require.Equal(t, http.StatusForbidden, redeemed(h, proof, elsewhere).StatusCode)
	require.Equal(t, http.StatusForbidden, send(h, proving(proof), elsewhere).StatusCode)
	require.Equal(t, map[string]uint64{"client-changed": 2}, proofs())
	require.Equal(t, http.StatusForbidden, send(h, proving(proof+"0")).StatusCode)
	require.Equal(t, map[string]uint64{"client-changed": 2, "wrong-solution": 1}, proofs())
	require.Equal(t, 2, admitted(h, 2, proving(proof)))
	require.Equal(t, http.StatusForbidden, send(h).StatusCode)
	require.Equal(t, map[string]uint64{"accepted": 1, "client-changed": 2, "wrong-solution": 1}, proofs(), "one that is shown again has bought nothing more")
	require.EqualValues(t, 5, h.M.Stats().Challenges, "one was fetched, and four came with refusals")

	cheap := solved(t, fetched(h, elsewhere))
	for range 3 {
		bought(t, h, elsewhere)
	}
	require.Equal(t, http.StatusForbidden, redeemed(h, cheap, elsewhere).StatusCode)
	now.Advance(time.Hour)
	require.Equal(t, http.StatusForbidden, send(h, proving(cheap), elsewhere).StatusCode)
	want := map[string]uint64{"accepted": 4, "client-changed": 2, "wrong-solution": 1, "price-risen": 1, "expired": 1}
	require.Equal(t, want, proofs())

	cfg.Challenge.Mode = middleware.EveryRequest
	require.NoError(t, h.M.Reconfigure(cfg))
	proof = solved(t, fetched(h))
	require.Equal(t, http.StatusOK, send(h, proving(proof)).StatusCode)
	require.Equal(t, http.StatusForbidden, send(h, proving(proof)).StatusCode)
	want["replayed"], want["accepted"] = 1, 5
	require.Equal(t, want, proofs())
}

// What an operator hears of a counter: what came of each call, how long it took, whether
// it is down, and how many of its places are taken.
func TestStatsAndDecisionsTellOfTheCounter(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := new(clock)
		l := newLedger(c)
		cfg := hasty(c, l)
		cfg.Exact.InFlight = 8
		decisions := record(&cfg)
		m := newLimiter(t, cfg)
		h := m.Handler(new(spy))
		require.Zero(t, *m.Stats().Counter)

		took := 7 * time.Millisecond
		l.Fault = func(context.Context, int) error {
			require.Equal(t, 1./8, m.Stats().Counter.Utilization, "the call that is out")
			time.Sleep(took)
			return nil
		}
		require.Equal(t, 5, admitted(h, 5))
		require.Equal(t, "answered", decisions.Last().Call)
		require.Equal(t, took, decisions.Last().CallTook)
		send(h)
		require.Equal(t, "answered", decisions.Last().Call, "a refusal is an answer")
		send(h)
		require.Equal(t, "", decisions.Last().Call, "it remembers")
		require.Zero(t, decisions.Last().CallTook)
		require.Zero(t, *m.Stats().Counter)

		c.Advance(time.Minute)
		for err, want := range map[error]string{exact.ErrFull: "full", exact.ErrContended: "contended"} {
			l.Fault = func(context.Context, int) error { return err }
			send(h)
			require.Equal(t, want, decisions.Last().Call)
			require.False(t, m.Stats().Counter.Down)
		}

		l.Fault = onFire
		send(h)
		require.Equal(t, "failed", decisions.Last().Call)
		breaks(h, c)
		require.Contains(t, []string{"down", "skipped"}, decisions.Last().Call)
		send(h)
		require.Equal(t, "skipped", decisions.Last().Call)
		require.Equal(t, &middleware.CounterStats{Down: true}, m.Stats().Counter)
		require.NoError(t, m.Reconfigure(cfg))
		require.Zero(t, *m.Stats().Counter, "a counter that nobody has asked yet")
	})
}
