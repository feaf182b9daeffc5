// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	page = "README.md"
	end  = "<!-- end of what is generated -->\n"
)

// cut returns what the page prints after a line, and what stands around it.
func cut(t *testing.T, begin string) (head, table, tail string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(text), begin)
	require.True(t, found, "%s has no %s", page, begin)
	table, tail, found = strings.Cut(rest, end)
	require.True(t, found, "%s has no %s", page, end)
	return head, table, tail
}

func tableOf(t *testing.T, begin string) string {
	t.Helper()
	_, table, _ := cut(t, begin)
	return table
}

func rewrite(t *testing.T, begin, table string) {
	t.Helper()
	head, _, tail := cut(t, begin)
	require.NoError(t, os.WriteFile(page, []byte(head+begin+table+end+tail), 0o644))
}

// testdata/bounds.json says which worlds check which row of docs/bounds.md, and that page says "model-checked" of
// these rows alone.
func TestWorldsOfBounds(t *testing.T) {
	var checked map[string][]string
	list, err := os.ReadFile("testdata/bounds.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(list, &checked))
	table, err := os.ReadFile("../../docs/bounds.md")
	require.NoError(t, err)
	var known, named []string
	for _, w := range worlds() {
		known = append(known, w.who)
	}
	for row, who := range checked {
		require.Regexp(t, `(?m)^\| `+regexp.QuoteMeta(row)+` \| .*\bmodel-checked\b`, string(table))
		named = append(named, who...)
	}
	require.Len(t, regexp.MustCompile(`(?m)^\|.*\bmodel-checked\b`).FindAll(table, -1), len(checked))
	slices.Sort(known)
	slices.Sort(named)
	require.Equal(t, slices.Compact(known), named, "each world checks one row")
}
