// SPDX-License-Identifier: Apache-2.0

package tallystick_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What docs/proof.md says of a bound, it says of a row of the table of bounds, in that order.
func TestProofsAreOfBounds(t *testing.T) {
	bounds := first(tableOf(t, "docs/bounds.md", "| client | requests admitted"))
	var backed []string
	for _, row := range tableOf(t, "docs/proof.md", "| client | backed by |") {
		backed = append(backed, plain(row[0]))
		require.NotEmpty(t, row[1])
	}
	require.Equal(t, bounds[:len(backed)], backed)
}
