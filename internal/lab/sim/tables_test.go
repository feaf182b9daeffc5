// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/cryptotest"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
)

// The tables of the pages are those that this code makes. The quick rows are made anew in
// every run, all of them where time does not matter: "make long" does that apart from its runs
// with the race detector, which looks at how things are done and not at how often. One row of
// each table is enough for it.
//
// The secrets of the instances come from a seed as well: by others a process takes the tally of another
// for its own with a chance of 2⁻²⁴ each (see unlessByChance), and one run in some hundred prints another figure.
func TestPrintedTables(t *testing.T) {
	for _, table := range Tables(Options{Seed: Seed}) {
		t.Run(table.Page+" "+table.Name, func(t *testing.T) {
			page, err := os.ReadFile(filepath.Join("..", "..", "..", table.Page))
			require.NoError(t, err)
			text, _, _, err := table.On(page)
			require.NoError(t, err)
			rows, found := strings.CutPrefix(text, table.Top())
			require.True(t, found, "the head of the table is old: %s", text)
			lines := strings.SplitAfter(strings.TrimSuffix(rows, "\n"), "\n")
			require.Len(t, lines, len(table.Rows))
			made := 0
			for i, row := range table.Rows {
				if testkit.Race && made > 0 && !table.Words || !row.Quick && (testkit.Race || !testkit.Long()) {
					continue
				}
				made++
				cryptotest.SetGlobalRandom(t, Seed)
				require.Equal(t, strings.TrimSuffix(Line(row.Make()), "\n"), strings.TrimSuffix(lines[i], "\n"), "make bounds")
			}
		})
	}
}

// A page without the line for a table, or without the end of it, is not written to.
func TestPut(t *testing.T) {
	a, b := Table{Name: "a"}, Table{Name: "b"}
	page := "before\n" + a.begin() + "old\n" + end + "after\n"
	changed, err := a.Put([]byte(page), "new\n")
	require.NoError(t, err)
	require.Equal(t, "before\n"+a.begin()+"new\n"+end+"after\n", string(changed))

	_, err = b.Put([]byte(page), "new\n")
	require.ErrorContains(t, err, "no line")
	_, err = a.Put([]byte(a.begin()+"old\n"), "new\n")
	require.ErrorContains(t, err, "no end")
}
