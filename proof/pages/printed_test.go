// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
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
	all := kit.Must(Constants(dir))(t)
	first, second := all[0].Group, all[len(all)-1].Group
	require.NotEqual(t, first, second)
	require.Equal(t, []Constant{{"A", "T", "", first}, {"B", "T", "", first}, {"C", "", "c", first}, {"D", "", "", first}, {"E", "T", "e", second}}, all)
}

func TestFigure(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1_020_034: "1,020,034"} {
		require.Equal(t, want, Figure(n))
	}
}

// made is a table of two rows, and a folder with its page, which has an older one.
func made(t *testing.T) (table Made, dir, file string) {
	table = Made{Name: "a", Page: "page.md", By: "make it", Head: []string{"x", "y"}}
	table.Add(true, func() []any { return []any{"1", 2000} })
	table.Add(false, func() []any { return []any{3.5, int64(4)} })
	dir = t.TempDir()
	file = filepath.Join(dir, table.Page)
	require.NoError(t, os.WriteFile(file, []byte("before\n<!-- made by: make it; table: a -->\n| x | y |\n|---|--:|\n| 1 | 2,000 |\n| 3.5 | 5 |\n<!-- end of what is made -->\nafter\n"), 0o600))
	return table, dir, file
}

// The rows that are wanted are made anew, and each must be what the page has; so must the head.
func TestCompare(t *testing.T) {
	a, dir, _ := made(t)
	all, none := func(int) bool { return true }, func(int) bool { return false }
	require.NoError(t, a.Compare(dir, func(i int) bool { return a.Rows[i].Quick }))
	require.ErrorContains(t, a.Compare(dir, all), "| 3.5 | 5 |\nnow it is\n| 3.5 | 4 |")
	a.Words = true
	require.ErrorContains(t, a.Compare(dir, none), "make it")
	a.Words, a.Rows = false, a.Rows[:1]
	require.ErrorContains(t, a.Compare(dir, none), "make it")
	require.ErrorIs(t, a.Compare(t.TempDir(), none), os.ErrNotExist)
}

// What is made is printed, and written between its two lines; a page without them is not written to.
func TestPrint(t *testing.T) {
	a, dir, file := made(t)
	var out bytes.Buffer
	require.ErrorContains(t, Print(&out, []Made{a}, []string{"b"}, ""), "no table is called b")
	require.NoError(t, Print(&out, []Made{a, {Name: "b"}}, []string{"a"}, ""))
	require.Contains(t, out.String(), "\n"+a.Text())
	verb := func(args ...string) error {
		held, err := Run(flag.NewFlagSet("verb", flag.ContinueOnError), args, &out, io.Discard, func() []Made { return []Made{a} })
		require.Equal(t, err == nil, held)
		return err
	}
	require.ErrorContains(t, verb("-only", "a,b"), "no table is called b")
	require.Error(t, verb("-none"))
	require.NoError(t, verb("-only", "a", "-update", dir))
	now := kit.Must(os.ReadFile(file))(t)
	require.Equal(t, "before\n<!-- made by: make it; table: a -->\n| x | y |\n|---|--:|\n| 1 | 2,000 |\n| 3.5 | 4 |\n<!-- end of what is made -->\nafter\n", string(now))
	a.Lead = "said before it"
	require.NoError(t, verb("-update", dir))
	now = kit.Must(os.ReadFile(file))(t)
	require.Equal(t, "before\n<!-- made by: make it; table: a -->\n\nsaid before it\n\n| x | y |\n|---|--:|\n| 1 | 2,000 |\n| 3.5 | 4 |\n\n<!-- end of what is made -->\nafter\n", string(now))
	for _, broken := range []string{"<!-- made by: make it; table: a -->\nold\n", "<!-- made by: make it; table: b -->\n<!-- end of what is made -->\n"} {
		require.NoError(t, os.WriteFile(file, []byte(broken), 0o600))
		require.ErrorContains(t, Print(&out, []Made{a}, nil, dir), "page.md: the page has no line")
		now := kit.Must(os.ReadFile(file))(t)
		require.Equal(t, broken, string(now))
	}
}
