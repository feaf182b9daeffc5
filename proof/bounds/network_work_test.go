// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/truth"
)

// The holder of a whole network has any number of addresses, each of which pays the base price.
// The price of the network bounds what they buy together: a /56 pays as two addresses
// would, a /48 as eight. In one moment, on one instance, nothing leaks.
func TestWholeNetworksThatWork(t *testing.T) {
	const crowd, work = 2, 16
	for name, c := range map[string]struct {
		crowds int64
		addr   func(n int) string
	}{
		"one address": {1, func(int) string { return "2001:db8::1" }},
		"a /56":       {2, func(n int) string { return fmt.Sprintf("2001:db8:0:%x::1", n%256) }},
		"a /48":       {8, func(n int) string { return fmt.Sprintf("2001:db8:0:%x::1", n%256<<8|n>>8) }},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := handlers.Challenging(new(handlers.Clock), middleware.WhenExhausted)
			cfg.MaxClients = 1 << 14 // a sale that cannot be remembered is none
			s := handlers.NewSite(t, cfg)
			paid, tallies := int64(0), int64(0)
			for range 120 {
				addr := handlers.From(c.addr(int(tallies)))
				challenge := handlers.ChallengeIn(t, handlers.Fetched(s, addr))
				if challenge.Work > 1<<12 {
					break
				}
				resp := handlers.RequireStatus(t, http.StatusOK, handlers.Redeemed(s, handlers.Solve(t, challenge), addr))
				require.Equal(t, 5, handlers.Admitted(s, 5, addr, handlers.Showing(handlers.TokenIn(resp))), "of the tally that was bought")
				paid += int64(challenge.Work)
				tallies++
			}
			bound := truth.Tariff{Work: work, Crowd: crowd * c.crowds}.Most(paid, 0)
			require.LessOrEqual(t, tallies, bound)
			require.GreaterOrEqual(t, tallies, bound-2*crowd*c.crowds, "work buys what it may")
		})
	}
}
