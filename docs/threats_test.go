// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// threat is a number of docs/threats.md.
var threat = regexp.MustCompile(`\bT([1-9][0-9]?)\b`)

// Each threat of the page is shown by a subtest that is named after it, and whatever cites a
// number has its row.
func TestThreatsHaveTheirTests(t *testing.T) {
	const page = "docs/threats.md"
	var numbers []string
	for _, row := range tableOf(t, page, "| | the attacker |") {
		number := row[0]
		numbers = append(numbers, number)
		require.Equal(t, fmt.Sprintf("T%d", len(numbers)), number)
		if row[3] != "documentation" {
			subtest := regexp.MustCompile(`^(T\d+ )*` + number + `( |$)`)
			require.True(t, slices.ContainsFunc(shownBy(t, row[3]), subtest.MatchString), "no subtest in %s is named after %s", row[3], number)
		}
	}
	for _, row := range tableOf(t, page, "| the attacker |") {
		require.NotEmpty(t, shownBy(t, row[2]), row[0])
	}
	require.NoError(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && (d.Name() == "node_modules" || d.Name() == ".git") {
				return filepath.SkipDir
			}
			return err
		}
		if !slices.Contains([]string{".go", ".json", ".py"}, filepath.Ext(name)) {
			return nil
		}
		text, err := os.ReadFile(name)
		for _, cited := range threat.FindAllString(string(text), -1) {
			require.Contains(t, numbers, cited, "%s cites a threat that %s has no row for", name, page)
		}
		return err
	}))
}

// shownBy returns the strings in the tests that a cell links to, which exist.
func shownBy(t *testing.T, cell string) (all []string) {
	t.Helper()
	for _, test := range regexp.MustCompile(`\[(Test\w+)\]\(\.\./([^)]+)\)`).FindAllStringSubmatch(cell, -1) {
		ast.Inspect(requireTest(t, test[2]+" "+test[1], cell), func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				all = append(all, strings.Trim(literal.Value, `"`))
			}
			return true
		})
	}
	return all
}
