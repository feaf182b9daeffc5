// SPDX-License-Identifier: Apache-2.0

package repository_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// The whole has ceilings, so that a feature that needs room takes something away first. Where a
// ceiling is above its goal, it is what the last change reached: lower it with yours.
var ceilings = []struct {
	what          string
	ceiling, goal int
	measure       func(*testing.T) int
	cure          string
}{
	{
		"lines of proof/ without tests", 12_717, 10_500, linesOfTheProof,
		"a bound or a threat is a row of what exists; a new type in the proof needs a reason in the commit",
	},
	{
		"exported names and methods of the packages that others import", 320, 320, exportedNames,
		"each name is learned by every user: unexport one that nothing outside needs, or make it a default",
	},
	{
		"files in the listing of middleware/", 100, 100, func(t *testing.T) int { return len(listing(t, "middleware/*")) },
		"a file is a theme, a test file stands beside its code file, and a test of the whole system belongs to proof/",
	},
	{
		"constructions that plain English avoids", 2, 0, bannedConstructions,
		"one fact per sentence, with a noun as its subject; .ci/banned.go lists the constructions",
	},
}

func TestCeilings(t *testing.T) {
	atRoot(t)
	kit.Outside(t)
	for _, c := range ceilings {
		n := c.measure(t)
		t.Logf("%s: %d (ceiling %d, goal %d)", c.what, n, c.ceiling, c.goal)
		require.LessOrEqual(t, n, c.ceiling, "%s: %s", c.what, c.cure)
		require.True(t, c.ceiling == c.goal || n > c.ceiling*98/100,
			"%s: %d is well below the ceiling of %d: lower it, so that it stays so", c.what, n, c.ceiling)
	}
}

func listing(t *testing.T, pattern string) (files []string) {
	t.Helper()
	matches := kit.Must(filepath.Glob(pattern))(t)
	for _, name := range matches {
		if info, err := os.Stat(name); err == nil && !info.IsDir() {
			files = append(files, name)
		}
	}
	return files
}

func bannedConstructions(t *testing.T) int {
	t.Helper()
	lines := strings.Fields(output(t, "go", "run", "./.ci/banned.go", "."))
	n := kit.Must(strconv.Atoi(lines[len(lines)-1]))(t)
	return n
}

func linesOfTheProof(t *testing.T) (lines int) {
	t.Helper()
	require.NoError(t, filepath.WalkDir("proof", func(name string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "node_modules":
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			text, err := os.ReadFile(name)
			lines += strings.Count(string(text), "\n")
			return err
		}
		return nil
	}))
	return lines
}

// exportedNames counts as "make size" does. The engine of counters and the suites for authors of
// counters have other readers, and are left out.
func exportedNames(t *testing.T) (names int) {
	t.Helper()
	for line := range strings.Lines(output(t, "go", "run", "./.ci/names.go", ".")) {
		fields := strings.Fields(line)
		require.Len(t, fields, 3, line)
		switch pkg := fields[0]; {
		case pkg == "all", strings.HasPrefix(pkg, "middleware/exact/engine"), filepath.Base(pkg) == "exacttest", filepath.Base(pkg) == "castest":
			continue
		}
		for _, n := range fields[1:] {
			count := kit.Must(strconv.Atoi(n))(t)
			names += count
		}
	}
	return names
}
