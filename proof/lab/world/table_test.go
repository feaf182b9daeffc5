// SPDX-License-Identifier: Apache-2.0

package world

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGrowth(t *testing.T) {
	for _, c := range []struct {
		name string
		at   func(i int) float64
		want float64
	}{
		{"flat", func(int) float64 { return 7 }, 0},
		{"warms up, and is flat", func(i int) float64 { return float64(min(i, 30)) }, 0},
		{"grows by 2 each time", func(i int) float64 { return float64(2 * i) }, 98},
		{"shrinks", func(i int) float64 { return float64(-i) }, -49},
		{"grows at the end", func(i int) float64 { return float64(max(0, i-50)) }, 49},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Series
			for i := range 100 {
				s = append(s, c.at(i))
			}
			require.InDelta(t, c.want, s.Growth(), 1e-6)
		})
	}
	require.Zero(t, Series{1, 2, 3, 4}.Growth(), "too few to say")
	require.Zero(t, Series(nil).Quarter(0.5))
	require.InDelta(t, 2.5, Series{1, 1, 2, 3, 9, 9, 9, 9}.Quarter(0.25), 1e-6)
}
