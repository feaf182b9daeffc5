// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/pages"
)

// A block that says from which file it comes stands in that file, line for line, at any
// depth of tabs. The file is compiled and tested by its own module. "// ..." stands for what is left out.
func TestBlocksStandInTheirFiles(t *testing.T) {
	found := 0
	for _, page := range everyPage(t) {
		blocks, _ := read(t, page)
		for _, b := range blocks {
			if b.From == "" {
				continue
			}
			found++
			source, err := os.ReadFile(b.From)
			require.NoError(t, err, "%s:%d", b.Page, b.Line)
			require.True(t, standsIn(string(source), b), "%s:%d: %s has no such lines", b.Page, b.Line, b.From)
		}
	}
	require.NotZero(t, found)
}

// standsIn reports whether the parts of a block follow each other in a file.
func standsIn(source string, b pages.Block) bool {
	for part := range strings.SplitSeq(b.Text, "// ...\n") {
		rest, ok := after(source, strings.Trim(part, "\n")+"\n")
		if !ok {
			return false
		}
		source = rest
	}
	return true
}

// after returns what of a file follows some lines, which may stand deeper there.
func after(source, lines string) (rest string, ok bool) {
	for depth := range 4 {
		tabs := strings.Repeat("\t", depth)
		var deeper strings.Builder
		for line := range strings.Lines(lines) {
			if strings.TrimSpace(line) != "" {
				deeper.WriteString(tabs)
			}
			deeper.WriteString(line)
		}
		if i := strings.Index("\n"+source, "\n"+deeper.String()); i >= 0 {
			return source[i+deeper.Len():], true
		}
	}
	return "", false
}

// Each directory of the module of recipes is in the table of docs/recipes.md, and nothing else. What is
// imported has a file to copy; what is a program has its main.
func TestRecipesAreNamed(t *testing.T) {
	directories, err := filepath.Glob("middleware/recipes/*/*.go")
	require.NoError(t, err)
	var there []string
	for _, file := range directories {
		there = append(there, path.Base(path.Dir(filepath.ToSlash(file))))
	}
	slices.Sort(there)
	there = slices.Compact(there)
	var named []string
	for _, row := range tableOf(t, "docs/recipes.md", "| for |") {
		for _, l := range link.FindAllStringSubmatch(row[2], -1) {
			named = append(named, path.Base(l[1]))
		}
	}
	require.ElementsMatch(t, there, named)
}
