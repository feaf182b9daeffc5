// SPDX-License-Identifier: Apache-2.0

package price

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// By default an honest crowd gets in behind one address, whatever its balancer does: nobody attacks, and nobody is
// locked out. What an address is sold before the burst was apart from the leak does not do that: see the table.
func TestCrowdsGetIn(t *testing.T) {
	for _, c := range crowds[:5] {
		percent, median := 99, 16.0
		if c.people > 300 {
			percent, median = 95, 32
		}
		for _, c.phonesOnly = range []bool{true, false} {
			for _, n := range []int{1, 3, 10} {
				for name, balance := range map[string]balancer{"by chance": byChance, "by cookie": byCookie, "by address": byAddress} {
					if kit.Brief() && (c.people > 600 || n == 3) {
						continue
					}
					got := c.meets(servers{n, balance, usual, false})
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
	got := third.meets(servers{1, byAddress, usual, false})
	require.InDelta(t, 100*24*32/third.people, got.percent, 2)
}

// What crowds meet at the prices alone, they meet at the middleware.
func TestCrowdsMeetTheSamePrices(t *testing.T) {
	for i, c := range crowds[:4] {
		if kit.Brief() && i > 2 {
			continue
		}
		for _, f := range []servers{{1, byAddress, small, false}, {1, byAddress, usual, false}, {3, byChance, usual, false}, {10, byCookie, usual, false}} {
			prices := c.meets(f)
			f.real = true
			require.Equal(t, prices.String(), c.meets(f).String(), fmt.Sprint(c.name, " ", f.instances))
		}
	}
}

// Of all that one balancer sends to one instance, the others sell nothing: it is the only one.
func TestByAddressIsOne(t *testing.T) {
	school := crowds[2]
	require.Equal(t, school.meets(servers{1, byCookie, small, false}), school.meets(servers{10, byAddress, small, false}))
}
