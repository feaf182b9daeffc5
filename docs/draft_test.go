// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The draft of the RateLimit fields is named in one place, so that the next one is one line.
// Apart from that, the choice of fields names those that it spells, and the changelog what was.
func TestOneFileNamesTheDraft(t *testing.T) {
	numbered := regexp.MustCompile(`(?i)(?:draft-ietf-httpapi-)?ratelimit-headers-[0-9]+|\bdraft[- ][0-9]+`)
	exempt := []string{"CHANGELOG.md", "middleware/fields.go", "middleware/fields_test.go", "docs/draft_test.go"}
	var named []string
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules"):
			return fs.SkipDir
		case entry.IsDir() || slices.Contains(exempt, path):
			return nil
		case slices.Contains([]string{".go", ".md", ".js", ".mjs", ".html", ".json", ".yml"}, filepath.Ext(path)) && !strings.Contains(path, "testdata/fuzz"):
			text, err := os.ReadFile(path)
			for _, found := range numbered.FindAllString(string(text), -1) {
				named = append(named, path+": "+found)
			}
			return err
		}
		return nil
	}))
	require.Equal(t, []string{"middleware/doc.go: draft-ietf-httpapi-ratelimit-headers-11"}, named)
}
