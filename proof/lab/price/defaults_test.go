// SPDX-License-Identifier: Apache-2.0

package price

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/sale"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/players"
)

// priceAt is what a newcomer from there is asked for.
func priceAt(t *testing.T, c *players.Attacker, peer string) int64 {
	offered, ok := c.Ask(fleet.Request{From: peer}).Challenge()
	require.True(t, ok)
	return int64(offered.Work)
}

// sellerOf is a client of one till.
func sellerOf(c middleware.Challenge) *players.Attacker {
	return &players.Attacker{Fleet: openTills(1, c)[0].(*till).Moved}
}

// What is simulated is what users get: the middleware with its defaults asks newcomers for what
// a stall of the simulation does, whoever has bought before, and when.
func TestDefaultsAreTheMiddlewares(t *testing.T) {
	require.EqualValues(t, work, priceAt(t, sellerOf(middleware.Challenge{}), "192.0.2.1:1"))

	const cheap = work / 64 // so that the test does not compute for long
	type visitor struct {
		peer   string
		buyers func(s *stall) []sale.Buyer
	}
	v4 := visitor{"192.0.2.1:1", func(s *stall) []sale.Buyer { return s.v4(0) }}
	v6 := func(peer string, n int64) visitor {
		return visitor{peer, func(s *stall) []sale.Buyer { return s.v6(n) }}
	}
	for name, scene := range map[string]struct {
		sales    int
		visitors []visitor // the first one buys
	}{
		"an address": {sales: 12, visitors: []visitor{v4}},
		"networks": {sales: 12, visitors: []visitor{v6("[2001:db8:0:101::1]:1", 0x101), v6("[2001:db8:0:102::1]:1", 0x102),
			v6("[2001:db8:0:201::1]:1", 0x201)}},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := sellerOf(middleware.Challenge{Work: cheap}), open(usual, few)
			now, buyer := int64(0), scene.visitors[0]
			same := func(when string) {
				for _, v := range scene.visitors {
					require.InEpsilon(t, s.price(now, v.buyers(s)), priceAt(t, c, v.peer)*work/cheap, 0.01, "%s: %s", when, v.peer)
				}
			}
			for range scene.sales {
				same("while it buys")
				proof := c.Solve(c.Ask(fleet.Request{From: buyer.peer}))
				require.True(t, c.Ask(fleet.Request{From: buyer.peer, Proof: proof}).Admitted())
				require.True(t, s.redeem(now, buyer.buyers(s), s.price(now, buyer.buyers(s))))
			}
			same("after it has bought")
			for range 3 {
				now += 5 * minute
				c.Fleet.(*fleet.Moved).Advance(5 * time.Minute)
				same("later")
			}
		})
	}
}
