// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTicks(t *testing.T) {
	used, total, ok := ticks("cpu  10 1 5 100 20 2 3 4 7 7\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
	require.True(t, ok)
	require.Equal(t, []uint64{25, 145}, []uint64{used, total}, "neither idle nor waiting for a disk; stolen is used")
	for _, bad := range []string{"", "cpu 1 2 3", "cpu 1 2 3 4 5 6 7 x", "intr 1 2 3 4 5 6 7 8 9"} {
		_, _, ok := ticks(bad)
		require.False(t, ok, bad)
	}
}
