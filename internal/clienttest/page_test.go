// SPDX-License-Identifier: Apache-2.0

package clienttest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/pages"
)

// rows returns the rows of the table of docs/clients.md with this head, as "name: text".
func rows(t *testing.T, head string) (all []string) {
	t.Helper()
	_, tables, err := pages.Read("../../docs/clients.md")
	require.NoError(t, err)
	for _, table := range tables {
		if table.Head == head {
			for _, row := range table.Rows {
				all = append(all, strings.Trim(row[0], "`")+": "+strings.ReplaceAll(row[1], "`", ""))
			}
		}
	}
	return all
}

func TestPageHasEveryCase(t *testing.T) {
	var want []string
	for _, c := range newServer(t).Cases(home) {
		want = append(want, c.Name+": "+c.About)
	}
	require.Equal(t, want, rows(t, "| case | what happens |"))
}

// The page has a row for each verdict and each fault of the package, in their order.
func TestPageHasEveryCode(t *testing.T) {
	all, err := pages.Constants(".")
	require.NoError(t, err)
	want := map[string][]string{}
	for _, c := range all {
		want[c.Type] = append(want[c.Type], c.Value)
	}
	for typ, head := range map[string]string{"verdict": "| verdict | what it says |", "code": "| code | what the client did |"} {
		var named []string
		for _, row := range rows(t, head) {
			name, _, _ := strings.Cut(row, ": ")
			named = append(named, name)
		}
		require.NotEmpty(t, want[typ])
		require.Equal(t, want[typ], named)
	}
}
