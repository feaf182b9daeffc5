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
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
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

// What work is worth in an hour, as docs/bounds.md has it, follows from what the simulation has of a minute, and
// from how long a pass lives.
func TestWorthOfWorkInAnHour(t *testing.T) {
	policy := kit.Must(limiter.Compile("api", []storeless.Limit{{Quota: 100, Window: time.Minute}}))(t)
	minutes := int(policy.PassLife(time.Hour) / time.Minute)
	rows := tableOf(t, "proof/lab/README.md", "| work | N = 1 | N = 3 | N = 10 |")
	bounds := kit.Must(os.ReadFile("docs/bounds.md"))(t)
	proof := kit.Must(os.ReadFile("docs/proof.md"))(t)
	for _, row := range rows {
		admitted, _, _ := strings.Cut(row[3], " of ")
		n, err := strconv.Atoi(strings.ReplaceAll(admitted, ",", ""))
		switch row[0] {
		case "0 W":
			require.NoError(t, err)
			require.Equal(t, 60_000, n*minutes)
			require.Contains(t, string(bounds), "60,000")
		case "1,000 W":
			require.NoError(t, err)
			require.Contains(t, string(bounds), fmt.Sprintf("%.1f million", float64(n*minutes)/1e6))
			require.Contains(t, string(proof), admitted)
		}
	}
}

// The figures of bought requests that docs/bounds.md tells are in the tables beside the tools.
func TestTellingRowsAreTrue(t *testing.T) {
	text := kit.Must(os.ReadFile("docs/bounds.md"))(t)
	words := strings.Join(strings.Fields(string(text)), " ")
	bought := tableOf(t, "proof/lab/price/README.md", "| a program computes for |")
	require.Contains(t, words, fmt.Sprintf("gets in %s times a day for nothing, %s times for a second of a core", bought[0][3], bought[1][3]))
	require.Contains(t, words, fmt.Sprintf("and %s times for an hour of it", bought[3][3]))
}
