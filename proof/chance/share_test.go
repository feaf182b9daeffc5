// SPDX-License-Identifier: Apache-2.0

package chance_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/chance"
)

// TestShare: what whole numbers of any size say, computed elsewhere.
func TestShare(t *testing.T) {
	for _, test := range []struct{ quota, instances, cost, want int64 }{
		{1, 10, 1, 1}, {3, 10, 1, 3}, {5, 10, 1, 4}, {10, 10, 1, 5}, {20, 10, 1, 7}, {50, 10, 1, 12}, {100, 10, 1, 19}, {1000, 10, 1, 121},
		{3, 100, 1, 2}, {20, 100, 1, 3}, {100, 100, 1, 6}, {1000, 100, 1, 20},
		{5, 2, 1, 5}, {20, 2, 1, 15}, {100, 2, 1, 60}, {100, 50, 1, 8},
		{100, 0, 1, 100}, {100, 1, 1, 100},
		{100, 10, 16, 79}, {100, 10, 10, 79}, {100, 10, 64, 100}, {100, 10, 100, 100}, {1000, 10, 4, 155}, {1000, 10, 10, 239}, {1000, 10, 100, 639},
	} {
		require.Equal(t, test.want, chance.Share(test.quota, test.instances, test.cost), "%+v", test)
	}
}

// TestShares: of 1, of 1 and 2, of 1, 2 and 3 to 4.
func TestShares(t *testing.T) {
	for _, test := range []struct{ quota, instances, cost, want int64 }{
		{1000, 10, 1, 121}, {1000, 10, 2, 121 + 133}, {1000, 10, 3, 121 + 133 + 155}, {1000, 10, 4, 121 + 133 + 155}, {100, 10, 16, 100}, {100, 1, 1, 100},
	} {
		require.Equal(t, test.want, chance.Shares(test.quota, test.instances, test.cost), "%+v", test)
	}
}
