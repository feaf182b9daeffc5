// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"net/http"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
)

// Fixed is a limit in fixed windows.
func Fixed(quota int64, window time.Duration) middleware.Limit {
	return middleware.Limit{Algorithm: middleware.FixedWindow, Quota: quota, Window: window}
}

// AllModes are the modes that are the same at any load, by name.
var AllModes = map[string]middleware.Mode{
	"WhenExhausted": middleware.WhenExhausted, "Newcomers": middleware.Newcomers, "EveryRequest": middleware.EveryRequest,
}

// Costing has a request name its cost, for CostOf.
func Costing(n int64) Option { return With("Cost", strconv.FormatInt(n, 10)) }

// CostOf is a Config.Cost: what a request that is Costing says, and 1 otherwise.
func CostOf(r *http.Request) int64 { return fleet.CostOf(r) }

// ByTier has each request say its tier in the field Tier.
func ByTier(identify middleware.IdentityFunc) middleware.IdentityFunc {
	return func(r *http.Request) (middleware.Identity, error) {
		id, err := identify(r)
		id.Tier = r.Header.Get("Tier")
		return id, err
	}
}

// Login is a policy with a plain limit of 10,000 a minute and five failures a minute.
func Login(c *Clock) middleware.Config {
	cfg := Contact(c)
	cfg.Policy = "login"
	cfg.Limits = []middleware.Limit{
		{Name: "attempts", Algorithm: middleware.FixedWindow, Quota: 10_000, Window: time.Minute},
		{Name: "failures", Algorithm: middleware.FixedWindow, Quota: 5, Window: time.Minute},
	}
	cfg.ByOutcome = &middleware.ByOutcome{Limits: []string{"failures"}, Free: []int{http.StatusSeeOther}}
	return cfg
}

// Metered has a configuration ask for the cost that a request is Costing.
func Metered(cfg middleware.Config, quota int64) middleware.Config {
	cfg.Limits[0].Quota, cfg.Cost = quota, CostOf
	return cfg
}

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
