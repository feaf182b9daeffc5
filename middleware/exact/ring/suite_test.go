// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/proof/kit"
)

// A ring is a counter as any other: of one member; of three, whichever is asked; and for a process that its list
// does not name, all of whose calls are for others.
func TestSuite(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int
		asks int // by turns, from this one on
	}{{"one", 1, 0}, {"three", 3, 0}, {"none of three", 3, 3}} {
		t.Run(c.name, func(t *testing.T) {
			if c.n == c.asks && kit.Race && !kit.Long() {
				t.Skip("the others race more")
			}
			t.Parallel()
			w := newWorld(t)
			fleet := w.fleet(c.n)
			if c.asks == c.n {
				fleet = append(fleet, w.start(addresses(fleet)...))
			}
			next := c.asks
			suite := exacttest.Suite{Clock: w.clock, Open: func() (exact.Counter, error) {
				if next++; next >= len(fleet) {
					next = c.asks
				}
				return struct{ engine.Parted }{fleet[next]}, nil // and no Close
			}}
			if c.asks == c.n {
				suite.LoseAnswer = func(exact.Counter) { w.lose.Store(1) }
			}
			require.NoError(t, suite.Test())
		})
	}
}
