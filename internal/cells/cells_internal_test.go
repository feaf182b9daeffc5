// SPDX-License-Identifier: Apache-2.0

package cells

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A claim counts in its window and in the next, then no more, whatever comes between; and
// a quarter is one of the cells and of all claims.
func TestClaims(t *testing.T) {
	const mine, other = 7 << (64 - claimBits), 8 << (64 - claimBits)
	for _, window := range []int64{0, 1, 1<<windowBits - 1, 1 << windowBits, 28_000_000, math.MaxInt32} {
		var c Claims
		require.False(t, c.Busy(window, mine, 16))
		for range 4 {
			c.Add(window, mine, 1)
		}
		require.True(t, c.Busy(window, mine, 16))
		require.False(t, c.Busy(window, mine, 17), "of the cells")
		require.False(t, c.Busy(window, other, 16))
		require.True(t, c.Busy(window+1, mine, 16))
		require.False(t, c.Busy(window+2, mine, 16))
		require.False(t, c.Busy(window+1000, mine, 16))
		for range 12 {
			c.Add(window+1, other, 1)
		}
		require.True(t, c.Busy(window+1, mine, 16))
		c.Add(window+1, other, 1)
		require.False(t, c.Busy(window+1, mine, 16), "of all that was claimed")
		c.Add(window+2, mine, 1)
		require.EqualValues(t, 1, claimed(&c.by[7], window+2))
		require.EqualValues(t, 14, claimed(&c.total, window+2))
	}
	var c Claims
	c.by[7].Store(5<<(2*claimedBits) | mostClaimed)
	c.Add(5, mine, 1)
	require.EqualValues(t, mostClaimed, claimed(&c.by[7], 5), "a counter that is full stays full")
}

// Whatever stripes a request names, and in whatever order, it locks each once
// and in ascending order: two requests never wait for each other. Were it
// otherwise, the parallel tests would hang now and then; this one fails.
func TestLocksAscend(t *testing.T) {
	const stripes = 4
	for n := range 1 << (2 * len(Locks{}.stripes)) { // all lists of four stripes
		var l Locks
		var want []int
		for i := range l.stripes {
			stripe := n >> (2 * i) % stripes
			l.Add(stripe)
			want = append(want, stripe)
			slices.Sort(want)
			want = slices.Compact(want)
			require.Equal(t, want, l.stripes[:l.n])
		}
	}
}
