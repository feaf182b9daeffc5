// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/chance"
	"github.com/tallystick/tallystick/proof/kit"
)

// No attacker gets more than one part from each instance, and from each that starts anew.
func TestCeilingsHold(t *testing.T) {
	for _, o := range seeds() {
		for _, a := range ceilingAttacks() {
			for _, n := range []int{2, 7} {
				for _, starts := range []int{0, n} {
					got := a.played(o, n, starts)
					require.LessOrEqual(t, got.admitted, got.bound, "%s: N = %d, C = %d", a.client, n, starts)
					require.Positive(t, got.admitted)
				}
				if kit.Brief() && kit.Race {
					break
				}
			}
		}
	}
}

// What a ceiling refuses of honest clients is what arithmetic says, where it can say: nothing where
// requests are spread evenly and N divides L, and all but a part where each client has one instance.
func TestCeilingsAreUnfair(t *testing.T) {
	all := balancers()
	evenly, sticky := all[0], all[3]
	for _, n := range []int{2, 5, 10} {
		refused, _ := evenly.refusedUnder(seeds()[0], n, 20, 20)
		require.Zero(t, refused)
		refused, requests := sticky.refusedUnder(seeds()[0], n, 20, 20)
		require.Equal(t, requests-requests/int64(n), refused)
	}
}

// Where requests are spread, honest clients that use all of their limit are refused one request in 2,000 at the most,
// and what does not spread costs what arithmetic says: of a fleet of which one instance runs, all but a share.
func TestSpreadsAreFair(t *testing.T) {
	for _, o := range seeds() {
		for _, l := range []int64{5, 20, 100} {
			for _, n := range []int64{3, 10} {
				s := spreading{l, n, 1, int(n)}
				refused, _ := s.played(o)
				most := float64(s.windows()) * float64(l) / 2000
				require.LessOrEqual(t, float64(refused), most+5*math.Sqrt(most), "%d on %d", l, n)
				if kit.Brief() && l > 5 {
					continue
				}
				s.running = 1
				refused, windows := s.played(o)
				q := chance.Spread(l, n, 1)
				require.EqualValues(t, int64(s.windows())*(l-q), refused, "%d on %d", l, n)
				require.Equal(t, q < l, windows > 0)
			}
		}
	}
}
