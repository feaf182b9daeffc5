// SPDX-License-Identifier: Apache-2.0

package clienttest_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/printed"
)

// rows returns the rows of the table of docs/clients.md with this head, as "name: text".
func rows(t *testing.T, head string) (all []string) {
	t.Helper()
	_, tables, err := printed.Read("../../../docs/clients.md")
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

// The page says of each verdict and fault what the source says of its constant.
func TestPageHasEveryCode(t *testing.T) {
	source, err := os.ReadFile("report.go")
	require.NoError(t, err)
	text := regexp.MustCompile(`\n\t// `).ReplaceAllString(string(source), " // ")
	want := map[string][]string{}
	for _, m := range regexp.MustCompile(`// (\w+): ([^\n]*)\n\t(\w+)\s+(Verdict|Code) = "([a-z-]+)"`).FindAllStringSubmatch(text, -1) {
		require.Equal(t, m[1], m[3])
		want[m[4]] = append(want[m[4]], m[5]+": "+strings.ReplaceAll(m[2], " // ", " "))
	}
	require.Len(t, want["Verdict"], 4)
	require.Len(t, want["Code"], strings.Count(text, "Code = "))
	require.Equal(t, want["Verdict"], rows(t, "| verdict | what it says |"))
	require.Equal(t, want["Code"], rows(t, "| code | what the client did |"))
}
