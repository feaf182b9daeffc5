// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	table := New("Fruit", "Per day.", "kind", "n")
	table.Row("apples", "3")
	table.Row("none")
	require.Equal(t, "## Fruit\n\nPer day.\n\n| kind | n |\n|---|--:|\n| apples | 3 |\n| none |  |\n", table.String())
	require.Equal(t, "## X\n\n| a |\n|---|\n", New("X", "", "a").String())
	require.Equal(t, "| a |\n|---|\n", New("", "", "a").String())
}
