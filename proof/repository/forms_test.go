// SPDX-License-Identifier: Apache-2.0

package repository_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Which form of a test is wanted is for the kit to say, in one place: a test that asks for -short runs its whole form by
// plain "go test". The module of the browser has no other form.
func TestFormsAreAsked(t *testing.T) {
	atRoot(t)
	asked := "testing." + "Short()"
	require.NoError(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || name != "." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go") || filepath.ToSlash(name) == "proof/browser/chromium_test.go":
			return nil
		}
		src, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NotContains(t, string(src), asked, "%s: use kit.Whole or kit.OnlyWhole", name)
		return nil
	}))
}
