// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
)

// The tables of the page are those that this code makes. The quick rows are made anew in
// every run, all of them where time does not matter.
func TestPrintedTables(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", page))
	require.NoError(t, err)
	for _, table := range tables() {
		t.Run(table.name, func(t *testing.T) {
			t.Parallel()
			text, _, _, err := printed(page, table.name)
			require.NoError(t, err)
			rows, found := strings.CutPrefix(text, table.top())
			require.True(t, found, "the head of the table is old: %s", text)
			lines := strings.SplitAfter(strings.TrimSuffix(rows, "\n"), "\n")
			require.Len(t, lines, len(table.rows))
			for i, row := range table.rows {
				if testkit.Brief() && i > 0 {
					break // the first row: what of prices has changed is in it
				}
				if row.quick || testkit.Long() {
					require.Equal(t, strings.TrimSuffix(line(row.make()), "\n"), strings.TrimSuffix(lines[i], "\n"), "go run ./internal/price -update")
				}
			}
		})
	}
}

// A page without the line for a table, or without the end of it, is not written to.
func TestPut(t *testing.T) {
	page := "before\n" + begin("a") + "old\n" + end + "after\n"
	changed, err := put([]byte(page), "a", "new\n")
	require.NoError(t, err)
	require.Equal(t, "before\n"+begin("a")+"new\n"+end+"after\n", string(changed))

	_, err = put([]byte(page), "b", "new\n")
	require.ErrorContains(t, err, "no line")
	_, err = put([]byte(begin("a")+"old\n"), "a", "new\n")
	require.ErrorContains(t, err, "no end")
}
