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

// Every Go file of every module says by which licence it may be copied, because files are
// copied without their LICENSE. REUSE.toml says it of the others, which browsers load.
func TestFilesNameTheirLicence(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("LICENSE")
	require.NoError(t, err)
	require.Contains(t, string(text), "Apache License\n                           Version 2.0")
	among, err := os.ReadFile("LICENSES/Apache-2.0.txt") // where "reuse lint" looks for it
	require.NoError(t, err)
	require.Equal(t, string(text), string(among))
	n := 0
	require.NoError(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || name != "." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		n++
		src, err := os.ReadFile(name)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(src), "// SPDX-License-Identifier: Apache-2.0\n\n"), name)
		return nil
	}))
	require.Greater(t, n, 500)
}
