// SPDX-License-Identifier: Apache-2.0

package price

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/truth"
)

// What a day is worth: at the defaults, 5/min + 50/day, ten hours of a core buy less than two hundred times the quota
// of the day, which is twice what they buy with a Crowd of 8.
func TestWorthOfADay(t *testing.T) {
	u := uses()[0]
	require.Equal(t, int64(5), u.admitted(0, day), "a tally is a pass for an hour")
	for n, twice := range map[int64]int64{1: 2 * 880, 3: 2 * 2616, 10: 2 * 8581} {
		requests, tallies := raids(usual, oneAddress, purses[2]/n, day, u.admitted)
		require.LessOrEqual(t, n*tallies, twice)
		require.LessOrEqual(t, n*requests, 5*twice)
		require.GreaterOrEqual(t, n*tallies, twice*8/10, "the plans are good ones: the leak and some crowds")
	}
}

// Whatever the plan, an instance sells no more than the bound says.
func TestPlansStayBelowTheBound(t *testing.T) {
	for _, lasts := range []int64{hour, day} {
		for _, purse := range purses {
			t.Run(fmt.Sprint(lasts/hour, " h, ", purse/core, " s"), func(t *testing.T) {
				bound := truth.Tariff{Work: work, Crowd: expected, Leak: leak}.Most(purse, lasts/second)
				bought, _ := raids(usual, oneAddress, purse, lasts, aTally)
				require.LessOrEqual(t, bought, bound)
				require.Greater(t, bought, min(bound, purse/work)*8/10, "and the plans come near")
			})
		}
	}
}

// Without an attacker, 500 newcomers a day get in behind one address.
func TestNewcomersGetIn(t *testing.T) {
	for _, daily := range []int64{20, 100, 500} {
		for _, patience := range []int64{10, 60} {
			g := siege{oneAddress, daily, patience * second, 0, 1}
			c := g.fared()
			require.GreaterOrEqual(t, c.percent(desktop), int64(99), "%d a day, %d s", daily, patience)
			require.GreaterOrEqual(t, c.percent(phone), int64(95), "%d a day, %d s", daily, patience)
		}
	}
}

// An attacker with these budgets, which are less than the table says, lets some of the
// victims in. What leaks in an hour is for sale at the price that is held.
func TestAddressIsNotShutForLess(t *testing.T) {
	for name, c := range map[string]struct {
		victims int
		seconds int64
	}{
		"desktops": {desktop, 80},
		"phones":   {phone, 13},
	} {
		t.Run(name, func(t *testing.T) {
			g := siege{oneAddress, 20, 60 * second, 0, 2}
			for _, stock := range []bool{false, true} {
				hourly, shut := g.held(c.victims, c.seconds*vector/leak, stock)
				require.InEpsilon(t, c.seconds*vector, hourly, 0.15, "the budget")
				require.False(t, shut)
			}
		})
	}
}

// A subscriber of a carrier, with any budget, that holds its own price at what a desktop can
// pay, does not shut out those that have other addresses.
func TestSubscribersAreNotShutOut(t *testing.T) {
	for _, p := range []place{subscribers64, subscribers56} {
		g := siege{p, 500, 60 * second, 0, 1}
		c, _ := g.met(rich(rates[desktop]*60, true))
		require.GreaterOrEqual(t, c.percent(desktop), int64(95), p.name)
		require.GreaterOrEqual(t, c.percent(phone), int64(90), p.name)
	}
}

// The same seeds make the same numbers, whatever else runs.
func TestRunsAreTheSame(t *testing.T) {
	g := siege{oneAddress, 500, 60 * second, 5 * vector, 1}
	first, again := g.fared(), g.fared()
	require.Equal(t, first, again)
	require.NotZero(t, first.came[desktop]*first.came[phone])
}
