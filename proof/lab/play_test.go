// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/lab/court"
	"github.com/tallystick/tallystick/proof/lab/house"
)

func TestWrongAnswers(t *testing.T) {
	require.Equal(t, "AA~1.2.3.4.5.6.7.0", wrong("AA~1.2.3.4.5.6.7.8"))
	require.Equal(t, "AA~1.2.3.4.5.6.7.1", wrong("AA~1.2.3.4.5.6.7.0"))
}

// The most tallies for some work is docs/bounds.md's formula.
func TestLevelOf(t *testing.T) {
	require.Zero(t, levelOf(2, 8, 0, 0))
	for _, work := range []int64{1, 16, 100, 1000} {
		want := 2 * 8 * math.Log2(1+15./8*float64(work)/(2*8))
		require.EqualValues(t, math.Floor(want), levelOf(2, 8, work*leastWork, 0))
	}
	require.EqualValues(t, 2*leak, levelOf(2, 8, 0, 3600), "what leaks in an hour")
	s := &scene{Stage: &court.Stage{House: &house.Cluster{Instances: make([]*house.Process, 2)}}}
	s.starts.Store(1)
	require.EqualValues(t, math.Floor(3*8*math.Log2(1+15./8)), levelOf(s.n(), 8, 24*leastWork, 0), "one that has started sells as much")
}

func TestWorth(t *testing.T) {
	s := &scene{route: route{Quota: 100, Instances: 10}, Stage: &court.Stage{House: &house.Cluster{Instances: make([]*house.Process, 10)}}}
	require.EqualValues(t, 10*100, s.worth())
	s.starts.Store(2)
	require.EqualValues(t, 12*100, s.worth(), "one that has started has never met the tally")
}

func TestTable(t *testing.T) {
	held := &result{row: row{name: "held", formula: "L"}, admitted: 5, bound: 5}
	over := &result{row: row{name: "over", formula: "L"}, admitted: 6, bound: 5, spent: 12 * leastWork, bought: 3, most: 4}
	unjust := &result{row: row{name: "unjust", formula: "L"}, bound: 5, unjust: 2, first: "over-limit"}
	require.True(t, held.holds())
	require.False(t, over.holds())
	require.False(t, unjust.holds())
	var b strings.Builder
	require.NoError(t, writeTable(&b, short, []*result{held, over, unjust}))
	for _, says := range []string{
		"row over: EXCEEDED: admitted 6, at most 5 are promised: L\n", "3 of 4",
		"row unjust: 2 honest requests refused that had room, the first: over-limit\n",
	} {
		require.Contains(t, b.String(), says)
	}
	require.NotContains(t, b.String(), "row held:")
	require.Equal(t, 2, strings.Count(b.String(), "NOT HELD"))
}
