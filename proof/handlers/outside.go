// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// Address is the identity of an address.
func Address(s string) middleware.Identity { return middleware.Address(netip.MustParseAddr(s)) }

// Check asks about id, which shows nothing, and wants no error.
func Check(t testing.TB, m *middleware.Middleware, id middleware.Identity, cost int64) middleware.Answer {
	t.Helper()
	return Decided(t, m, middleware.Ask{Identity: id, Cost: cost})
}

// Decided asks, and wants no error.
func Decided(t testing.TB, m *middleware.Middleware, ask middleware.Ask) middleware.Answer {
	t.Helper()
	a, err := m.Decide(t.Context(), ask)
	require.NoError(t, err)
	return a
}

// Peeked looks how id stands.
func Peeked(t testing.TB, m *middleware.Middleware, id middleware.Identity) middleware.Decision {
	t.Helper()
	return Decided(t, m, middleware.Ask{Identity: id, DryRun: true}).Decision
}

// Allowed returns how many of n checks pass.
func Allowed(t testing.TB, m *middleware.Middleware, id middleware.Identity, n int) (passed int) {
	t.Helper()
	for range n {
		if Check(t, m, id, 1).Allowed {
			passed++
		}
	}
	return passed
}

// Visitor sends the requests of most tests.
var Visitor = Address("203.0.113.1")
