package middleware_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// Every proof that is not accepted is counted once, by its reason, at the endpoint and
// with a request; Reconfigure forgets none.
func TestStatsCountProofs(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.Newcomers)
	h := newSite(t, cfg)
	proofs := func() middleware.ProofStats { return h.m.Stats().Proofs }
	elsewhere := from("203.0.113.9")
	require.Zero(t, proofs())

	proof := solved(t, fetched(h))
	require.Equal(t, http.StatusForbidden, redeemed(h, proof, elsewhere).StatusCode)
	require.Equal(t, http.StatusForbidden, send(h, proving(proof), elsewhere).StatusCode)
	require.Equal(t, middleware.ProofStats{ClientChanged: 2}, proofs())
	require.Equal(t, http.StatusForbidden, send(h, proving(proof+"0")).StatusCode)
	require.Equal(t, middleware.ProofStats{ClientChanged: 2, Wrong: 1}, proofs())
	require.Equal(t, http.StatusOK, send(h, proving(proof)).StatusCode)
	require.Equal(t, http.StatusForbidden, send(h).StatusCode)
	require.Equal(t, middleware.ProofStats{ClientChanged: 2, Wrong: 1}, proofs(), "what is accepted, or not there, is not counted")

	cheap := solved(t, fetched(h, elsewhere))
	for range 3 {
		bought(t, h, elsewhere)
	}
	require.Equal(t, http.StatusForbidden, redeemed(h, cheap, elsewhere).StatusCode)
	now.advance(time.Hour)
	require.Equal(t, http.StatusForbidden, send(h, proving(cheap), elsewhere).StatusCode)
	want := middleware.ProofStats{ClientChanged: 2, Wrong: 1, PriceRisen: 1, Expired: 1}
	require.Equal(t, want, proofs())

	cfg.Challenge.Mode = middleware.EveryRequest
	require.NoError(t, h.m.Reconfigure(cfg))
	proof = solved(t, fetched(h))
	require.Equal(t, http.StatusOK, send(h, proving(proof)).StatusCode)
	require.Equal(t, http.StatusForbidden, send(h, proving(proof)).StatusCode)
	want.Replayed = 1
	require.Equal(t, want, proofs())
}
