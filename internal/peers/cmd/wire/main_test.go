// SPDX-License-Identifier: Apache-2.0

package main

import (
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
	require.Equal(t, len(all), rows) // the head, and all but the first
	require.Regexp(t, "\\| `Tallystick-Token` \\| 0 \\+ 2[0-9]{2} \\| -?[0-9]+ ±[0-9]+ \\| 0 \\+ 1[0-9]{2} \\|", b.String())
	require.Contains(t, b.String(), "| a value of 408 in the request | 428 + 0 |")
}
