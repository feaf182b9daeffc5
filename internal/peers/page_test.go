// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/printed"
)

// The table of README.md has a row for every other limiter that is measured, by the
// names of the benchmarks, and in each cell a figure, in those of time beside httprate's.
func TestPageNamesEveryLimiter(t *testing.T) {
	_, tables, err := printed.Read("README.md")
	require.NoError(t, err)
	var names []string
	for _, l := range Limiters() {
		if !l.Ours && !l.Unlimited && l.Name != "httprate" {
			names = append(names, l.Name)
		}
	}
	var rows []string
	at := slices.IndexFunc(tables, func(t printed.Table) bool { return strings.HasPrefix(t.Head, "| limiter | allowed, 1 client |") })
	require.GreaterOrEqual(t, at, 0)
	for _, row := range tables[at].Rows {
		require.Len(t, row, strings.Count(tables[at].Head, "|")-1)
		rows = append(rows, strings.Split(row[0], "`")[1])
		for _, cell := range row[1 : len(row)-1] {
			require.Regexp(t, `^[0-9.]+$`, cell)
		}
		require.Regexp(t, `^([0-9]+ B|in Redis)$`, row[len(row)-1])
	}
	require.Equal(t, names, rows)
}
