// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		text   string
		blocks []Block
		tables []Table
		err    string
	}{
		"blocks and tables": {
			text:   "# A\n\n```go\na\n\n  b\n```\n\n| x | y |\n|---|--:|\n| 1 | `2` |\n| 3 | |\n\n<!-- run by TestA -->\n```sh\nc\n```\n",
			blocks: []Block{{Line: 3, Language: "go", Text: "a\n\n  b\n"}, {Line: 15, Language: "sh", RunBy: "TestA", Text: "c\n"}},
			tables: []Table{{Head: "| x | y |", Rows: [][]string{{"1", "`2`"}, {"3", ""}}}},
		},
		"a table in a block is none":        {text: "```text\n| x |\n|---|\n```\n", blocks: []Block{{Line: 1, Language: "text", Text: "| x |\n|---|\n"}}},
		"a comment is for the next line":    {text: "<!-- run by TestA -->\n\n```sh\n```\n", blocks: []Block{{Line: 3, Language: "sh"}}},
		"a block in a list":                 {text: "1. x\n   ```go\n   y\n   ```\n", blocks: []Block{{Line: 2, Language: "go", Text: "   y\n"}}},
		"indented code":                     {text: "x\n\n    y\n", err: ":3: indented"},
		"code that is indented by a tab":    {text: "\ty\n", err: ":1: indented"},
		"a fence that nothing closes":       {text: "```go\nx\n", err: "not closed"},
		"a fence that closes another's end": {text: "```\n```\n```\n", err: "not closed"},
	} {
		t.Run(name, func(t *testing.T) {
			page := filepath.Join(t.TempDir(), "page.md")
			require.NoError(t, os.WriteFile(page, []byte(test.text), 0o600))
			blocks, tables, err := Read(page)
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			for i := range test.blocks {
				test.blocks[i].Page = page
			}
			require.Equal(t, test.blocks, blocks)
			require.Equal(t, test.tables, tables)
		})
	}
	_, _, err := Read(filepath.Join(t.TempDir(), "none.md"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestConstants(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{
		"a.go":      "package p\nconst (\n\tA T = iota\n\tB\n\tC, D = \"c\", 1\n)\nvar V = 1\n",
		"a_test.go": "package p\nconst N = 1\n",
		"b.go":      "package p\nconst E T = \"e\"\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	all, err := Constants(dir)
	require.NoError(t, err)
	require.Equal(t, []Constant{{"A", "T", "", 1}, {"B", "T", "", 1}, {"C", "", "c", 1}, {"D", "", "", 1}, {"E", "T", "e", 2}}, all)
}
