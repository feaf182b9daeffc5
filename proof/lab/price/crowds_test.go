// SPDX-License-Identifier: Apache-2.0

package price

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/sale"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

// small is a tariff by which an address is sold little.
var small = sale.Tariff{Work: work, Crowd: 8, SalesPerHour: leak}

// byCookie keeps each client where it came first.
func byCookie(_ *rand.Rand, n int, c *newcomer) int { return c.at % n }

// By default an honest crowd gets in behind one address, whatever its balancer does: there is no attacker, and no
// client is locked out. What an address is sold before the burst was apart from the leak does not do that: see the table.
func TestCrowdsGetIn(t *testing.T) {
	for _, c := range crowds[:5] {
		percent, median := 99, 16.0
		if c.people > 300 {
			percent, median = 95, 32
		}
		for _, phones := range []bool{true, false} {
			for _, n := range []int{1, 3, 10} {
				for name, balance := range map[string]balancer{"by chance": byChance, "by cookie": byCookie, "by address": byAddress} {
					if kit.Brief() && (c.people > 600 || n == 3) {
						continue
					}
					f := servers{n, balance, usual, false}
					got := c.meets(balance, phones, f.opened)
					require.GreaterOrEqual(t, got.percent, percent, "%s, N = %d, %s", c.name, n, name)
					require.Less(t, float64(got.median), median*work, "%s, N = %d, %s", c.name, n, name)
				}
			}
		}
	}
}

// Day after day no more get in than what leaks of the price in a day.
func TestCarriersGetInAsItLeaks(t *testing.T) {
	third := crowds[5]
	f := servers{1, byAddress, usual, false}
	got := third.meets(byAddress, false, f.opened)
	require.InDelta(t, 100*24*32/third.people, got.percent, 2)
}

// What crowds meet at the prices alone, they meet at the middleware: with all crowds, in long runs.
func TestCrowdsMeetTheSamePrices(t *testing.T) {
	for i, c := range crowds {
		if kit.Brief() && i > 2 || !kit.Long() && i > 3 {
			continue
		}
		fleets := []servers{{1, byAddress, small, false}, {1, byAddress, usual, false}, {3, byChance, usual, false}, {10, byCookie, usual, false}}
		if kit.Long() {
			fleets = append(fleets, servers{3, byChance, small, false}, servers{3, byCookie, small, false}, servers{3, byCookie, usual, false}, servers{10, byChance, small, false}, servers{10, byChance, usual, false}, servers{10, byCookie, small, false})
		}
		for _, phones := range []bool{false, true} {
			for _, f := range fleets {
				tills := func() []counter {
					return openTills(f.instances, middleware.Challenge{Work: f.tariff.Work, Crowd: f.tariff.Crowd, SalesPerHour: f.tariff.SalesPerHour})
				}
				require.Equal(t, c.meets(f.balance, phones, f.opened).String(), c.meets(f.balance, phones, tills).String(), fmt.Sprint(c.name, " ", f.instances))
			}
		}
	}
}

// Of all that one balancer sends to one instance, the others sell nothing: it is the only one.
func TestByAddressIsOne(t *testing.T) {
	school, one, ten := crowds[2], servers{1, byCookie, small, false}, servers{10, byAddress, small, false}
	require.Equal(t, school.meets(byCookie, false, one.opened), school.meets(byAddress, false, ten.opened))
}
