// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMutants breaks every package that has a list of mutants, in each way that stands there; each time some test of the
// package must fail, or of those that show what a whole site gives.
func TestMutants(t *testing.T) {
	others := map[string][]string{"middleware": {"../proof/bounds", "../proof/threats"}}
	var packages []string
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || len(d.Name()) > 2 && d.Name()[0] == '.'):
			return filepath.SkipDir
		case d.IsDir() && strings.HasSuffix(path, "/testdata/mutants"):
			packages = append(packages, strings.TrimSuffix(path, "/testdata/mutants"))
		}
		return nil
	}))
	require.Greater(t, len(packages), 30)
	for _, dir := range packages { // -run takes a slash for a subtest
		pkg := strings.TrimPrefix(dir, "../../")
		t.Run(strings.ReplaceAll(pkg, "/", "."), func(t *testing.T) { Run(t, dir, Load(t, dir+"/testdata/mutants/*.json"), others[pkg]...) })
	}
}
