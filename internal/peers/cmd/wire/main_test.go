// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/peers/wire"
)

func TestWrite(t *testing.T) {
	var b strings.Builder
	require.NoError(t, write(&b, wire.Plan{Sittings: 1, Rounds: 2, Slice: 3}))
	rows := 0
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "| ") {
			rows++
			require.Equal(t, 6, strings.Count(line, "|"), line)
		}
	}
	all, err := shapes()
	require.NoError(t, err)
	require.Equal(t, len(all)-2*len(pads)+2, rows) // the head, all but the first, and two of padding
	require.Regexp(t, "\\| `Tallystick-Token` \\| 0 \\+ 2[0-9]{2} \\| -?[0-9]+ ±[0-9]+ \\| 0 \\+ 1[0-9]{2} \\|", b.String())
	require.Regexp(t, `\| the same in the request \| 50 \| -?[0-9]+ ±[0-9]+ \|  \| `, b.String())
}

func TestSlope(t *testing.T) {
	var costs []wire.Cost
	for _, n := range pads {
		costs = append(costs, wire.Cost{Above: 100 + 2*float64(n), Spread: 10}, wire.Cost{Above: 7, Spread: 1000})
	}
	each, spread := slope(costs)
	require.InDelta(t, 2, each, 1e-9)
	require.InDelta(t, 10/math.Sqrt(100_000), spread, 1e-9) // the squares of 200, 100, 0, 100 and 200
	each, _ = slope(costs[1:])
	require.Zero(t, math.Round(each*1e9))
}
