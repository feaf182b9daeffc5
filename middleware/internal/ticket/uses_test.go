// SPDX-License-Identifier: Apache-2.0

package ticket

import (
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// Tickets are drawn over the whole of the spread, and none is like another.
func TestDraw(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1)
	serials, halves := map[uint64]bool{}, [2]int{}
	for range 1000 {
		drawn := Draw(opensAt.Opens, time.Minute)
		late := drawn.Opens.Sub(opensAt.Opens)
		require.GreaterOrEqual(t, late, time.Duration(0))
		require.LessOrEqual(t, late, time.Minute)
		halves[late/(30*time.Second+1)]++
		serials[drawn.Serial] = true
	}
	require.Len(t, serials, 1000)
	require.InDelta(t, halves[0], halves[1], 150)
	require.Equal(t, opensAt.Opens, Draw(opensAt.Opens, 0).Opens, "no spread")
}

// A ticket lets in its share, and the first request whatever that costs.
func TestUses(t *testing.T) {
	now, ends := opensAt.Opens, opensAt.Opens.Add(10*time.Minute)
	for name, test := range map[string]struct {
		share int64
		costs []int64
		want  []bool
	}{
		"one":                        {1, []int64{1, 1, 0}, []bool{true, false, true}},
		"a share of none is one":     {0, []int64{1, 1}, []bool{true, false}},
		"several":                    {3, []int64{1, 1, 1, 1}, []bool{true, true, true, false}},
		"a dear one after cheap":     {4, []int64{1, 4, 3, 1}, []bool{true, false, true, false}},
		"the first may be dear":      {2, []int64{9, 1}, []bool{true, false}},
		"what costs nothing is free": {1, []int64{0, 0, 1, 1}, []bool{true, true, true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			u := new(Uses)
			for i, cost := range test.costs {
				require.Equal(t, test.want[i], u.Left(now, opensAt, cost, test.share), i)
				require.Equal(t, test.want[i], u.Take(now, opensAt, cost, test.share, ends), i)
			}
		})
	}
	t.Run("given back", func(t *testing.T) {
		u := new(Uses)
		require.True(t, u.Take(now, opensAt, 2, 4, ends))
		require.True(t, u.Take(now, opensAt, 2, 4, ends))
		u.GiveBack(now, opensAt, 2)
		require.False(t, u.Left(now, opensAt, 3, 4))
		require.True(t, u.Left(now, opensAt, 2, 4))
		u.GiveBack(now, Ticket{Serial: 9}, 2) // of which nothing is known
	})
	t.Run("forgotten when the ticket ends", func(t *testing.T) {
		u := new(Uses)
		require.True(t, u.Take(now, opensAt, 1, 1, ends))
		require.False(t, u.Left(ends, opensAt, 1, 1))
		require.True(t, u.Left(ends.Add(time.Second), opensAt, 1, 1))
	})
	t.Run("a full set forgets what ends first", func(t *testing.T) {
		u := new(Uses)
		at := func(i uint64) Ticket { return Ticket{Serial: i * useSets} }
		for i := range uint64(useSetSize + 1) {
			require.True(t, u.Take(now, at(i), 1, 1, ends.Add(time.Duration(i)*time.Second)))
		}
		require.True(t, u.Left(now, at(0), 1, 1))
		for i := range uint64(useSetSize) {
			require.False(t, u.Left(now, at(i+1), 1, 1), i)
		}
	})
	t.Run("of many at once one", func(t *testing.T) {
		u := new(Uses)
		var passed atomic.Int64
		kit.Together(16, func(int) {
			if u.Take(now, opensAt, 1, 1, ends) {
				passed.Add(1)
			}
		})
		require.EqualValues(t, 1, passed.Load())
	})
}
