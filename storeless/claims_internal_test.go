// SPDX-License-Identifier: Apache-2.0

package storeless

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// A claim counts in its window and in the next, then no more, whatever comes between; and
// a quarter is one of the cells and of all claims.
func TestClaims(t *testing.T) {
	const mine, other = 7 << (64 - claimBits), 8 << (64 - claimBits)
	for _, window := range []int64{0, 1, 1<<windowBits - 1, 1 << windowBits, 28_000_000, math.MaxInt32} {
		var c claims
		require.False(t, c.busy(window, mine, 16))
		for range 4 {
			c.add(window, mine, 1)
		}
		require.True(t, c.busy(window, mine, 16))
		require.False(t, c.busy(window, mine, 17), "of the cells")
		require.False(t, c.busy(window, other, 16))
		require.True(t, c.busy(window+1, mine, 16))
		require.False(t, c.busy(window+2, mine, 16))
		require.False(t, c.busy(window+1000, mine, 16))
		for range 12 {
			c.add(window+1, other, 1)
		}
		require.True(t, c.busy(window+1, mine, 16))
		c.add(window+1, other, 1)
		require.False(t, c.busy(window+1, mine, 16), "of all that was claimed")
		c.add(window+2, mine, 1)
		require.EqualValues(t, 1, claimed(&c.by[7], window+2))
		require.EqualValues(t, 14, claimed(&c.total, window+2))
	}
	var c claims
	c.by[7].Store(5<<(2*claimedBits) | mostClaimed)
	c.add(5, mine, 1)
	require.EqualValues(t, mostClaimed, claimed(&c.by[7], 5), "a counter that is full stays full")
}
