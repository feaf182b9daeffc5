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
)

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
	now, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "before\n<!-- made by: make it; table: a -->\n| x | y |\n|---|--:|\n| 1 | 2,000 |\n| 3.5 | 4 |\n<!-- end of what is made -->\nafter\n", string(now))
	for _, broken := range []string{"<!-- made by: make it; table: a -->\nold\n", "<!-- made by: make it; table: b -->\n<!-- end of what is made -->\n"} {
		require.NoError(t, os.WriteFile(file, []byte(broken), 0o600))
		require.ErrorContains(t, Print(&out, []Made{a}, nil, dir), "page.md: the page has no line")
		now, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, broken, string(now))
	}
}
