// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/lab/house"
)

// The most tallies for some work is docs/bounds.md's formula.
func TestLevelOf(t *testing.T) {
	require.Zero(t, levelOf(2, 8, 0, 0))
	for _, work := range []int64{1, 16, 100, 1000} {
		want := 2 * 8 * math.Log2(1+15./8*float64(work)/(2*8))
		require.EqualValues(t, math.Floor(want), levelOf(2, 8, work*leastWork, 0))
	}
	require.EqualValues(t, 2*leak, levelOf(2, 8, 0, 3600), "what leaks in an hour")
	s := &scene{House: &house.Cluster{Instances: make([]*house.Process, 2)}}
	s.House.Anew.Store(1)
	require.EqualValues(t, math.Floor(3*8*math.Log2(1+15./8)), levelOf(s.n(), 8, 24*leastWork, 0), "one that has started sells as much")
}

func TestWorth(t *testing.T) {
	s := &scene{Oracle: NewOracle("worth", route{Quota: 100, Instances: 10}), House: &house.Cluster{Instances: make([]*house.Process, 10)}}
	require.EqualValues(t, 10*100, nL(s))
	s.House.Anew.Store(2)
	require.EqualValues(t, 12*100, nL(s), "one that has started has never met the tally")
}

func TestTable(t *testing.T) {
	held := &result{row: row{name: "held", formula: "L"}, admitted: 5, bound: 5}
	over := &result{row: row{name: "over", formula: "L"}, admitted: 6, bound: 5, figures: []any{12, "12    3 of 4   5ms", 5 * time.Millisecond}}
	unjust := &result{row: row{name: "unjust", formula: "L"}, bound: 5, unjust: 2, first: "over-limit"}
	require.True(t, held.holds())
	require.False(t, over.holds())
	require.False(t, unjust.holds())
	var b strings.Builder
	require.NoError(t, writeTable(&b, short, []*result{held, over, unjust}, []house.Fault{{What: "a fault", Why: "why"}}))
	for _, says := range []string{
		"row over: EXCEEDED: admitted 6, at most 5 are promised: L\n", "12    3 of 4   5ms",
		"row unjust: 2 honest requests refused that had room, or served wrongly, the first: over-limit\n",
		"\nFAILED: a fault. why\n",
	} {
		require.Contains(t, b.String(), says)
	}
	require.NotContains(t, b.String(), "row held:")
	require.Equal(t, 2, strings.Count(b.String(), "NOT HELD"))
}

// Where some complain of others, the fewer explain it; and nothing counts that the lab has done.
func TestApart(t *testing.T) {
	at := time.Unix(1000, 0)
	late := func(self, member string, after int) house.Line {
		code := "peers-late"
		if member == "" {
			code = "peers-alone"
		}
		return house.Line{Code: code, Self: self, Member: member, Time: at.Add(time.Duration(after))}
	}
	for _, c := range []struct {
		name string
		late []house.Line
		want int64
	}{
		{"no complaints", nil, 0},
		{"two of one", []house.Line{late("a", "c", 1), late("b", "c", 1)}, 1},
		{"one of two", []house.Line{late("a", "b", 1), late("a", "c", 1)}, 1},
		{"two of two", []house.Line{late("a", "b", 1), late("b", "a", 1)}, 2},
		{"before, of one that is no more", []house.Line{late("a", "ended", -1)}, 0},
		{"before, and perhaps still", []house.Line{late("a", "b", -1)}, 1},
		{"long before", []house.Line{late("a", "b", -int(time.Hour))}, 0},
		{"of what was killed", []house.Line{late("a", "killed", 3), late("killed", "a", 3)}, 0},
		{"of what is killed later", []house.Line{late("a", "killed", 1)}, 1},
		{"alone", []house.Line{late("a", "", 1), late("b", "a", 1)}, 2},
	} {
		s := &scene{silent: map[string]time.Time{"killed": at.Add(2)}, there: map[string]bool{"a": true, "b": true}}
		require.Equal(t, c.want, s.apart(c.late, at), c.name)
	}
}

func TestSlowest(t *testing.T) {
	before, after := map[int]int64{0: 5}, map[int]int64{0: 100, 3: 2, 40: 1, 250: 1}
	require.Equal(t, []time.Duration{3 * time.Millisecond, 250 * time.Millisecond, 250 * time.Millisecond}, slowest(before, after, 4))
	require.Equal(t, []time.Duration{0, 250 * time.Millisecond, 250 * time.Millisecond}, slowest(before, after, 95))
	require.Empty(t, slowest(nil, nil, 0))
}
