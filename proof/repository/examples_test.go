// SPDX-License-Identifier: Apache-2.0

package repository_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The reference of each package that others import shows how it is used, by code that compiles.
func TestPackagesHaveExamples(t *testing.T) {
	atRoot(t)
	for line := range strings.Lines(output(t, "go", "run", "./.ci/names.go", ".")) {
		pkg, counts, _ := strings.Cut(strings.TrimSpace(line), " ")
		if pkg == "all" || counts == "0 0" {
			continue
		}
		tests, err := filepath.Glob(pkg + "/*_test.go")
		require.NoError(t, err)
		found := false
		for _, file := range tests {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			found = found || strings.Contains(string(text), "\nfunc Example")
		}
		require.True(t, found, "%s has no Example: its first is what a caller does first", pkg)
	}
}
