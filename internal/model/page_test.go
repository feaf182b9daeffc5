// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	page = "../../docs/proof.md"
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
