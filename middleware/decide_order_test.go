// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// Each step is made out to what the one before has told: who asks, what it costs, what it
// shows. A request that ends at one of them costs none of the next.
func TestTheOrderOfADecision(t *testing.T) {
	priced, cost := 0, int64(1)
	cfg := contact(new(clock))
	cfg.Cost = func(*http.Request) int64 {
		priced++
		return cost
	}
	decisions := record(&cfg)
	h, spy := limited(t, cfg)
	tok := spend(t, h, 1)
	require.Equal(t, 1, priced, "once for each request")

	send(h, showing(tok), func(r *http.Request) { r.RemoteAddr = "@" })
	require.Equal(t, middleware.IdentityUnknown, decisions.last().Reason)
	require.Equal(t, 1, priced, "nobody is asked for a price")
	require.Zero(t, decisions.last().Tokens)

	cost = -1
	require.Empty(t, send(h, showing(tok, "garbage")).Header.Values("Tallystick-Token"))
	require.Equal(t, middleware.NegativeCost, decisions.last().Reason)
	require.Zero(t, decisions.last().Tokens, "what cannot be charged costs no MAC")
	require.NoError(t, decisions.last().TokenErr)

	cost = 1
	send(h, showing(tok))
	require.Equal(t, 1, decisions.last().Tokens)
	require.EqualValues(t, 3, decisions.last().Limits()[0].Remaining, "neither was charged")
	require.EqualValues(t, 2, spy.calls.Load())
}
