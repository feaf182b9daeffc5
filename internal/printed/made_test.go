// SPDX-License-Identifier: Apache-2.0

package printed

import (
	"bytes"
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

// made is a table of two rows, and its page with an older one.
func made() (t Made, page string) {
	t = Made{Name: "a", Page: "page.md", By: "make it", Head: []string{"x", "y"}}
	t.Add(true, func() []string { return []string{"1", "2"} })
	t.Add(false, func() []string { return []string{"3", "4"} })
	return t, "before\n<!-- made by: make it; table: a -->\n| x | y |\n|---|--:|\n| 1 | 2 |\n| 3 | 5 |\n<!-- end of what is made -->\nafter\n"
}

// The rows that are wanted are made anew, and each must be what the page has; so must the head.
func TestCompare(t *testing.T) {
	a, page := made()
	require.NoError(t, a.Compare([]byte(page), func(i int) bool { return a.Rows[i].Quick }))
	require.ErrorContains(t, a.Compare([]byte(page), func(int) bool { return true }), "| 3 | 5 |\nnow it is\n| 3 | 4 |")
	a.Words = true
	require.ErrorContains(t, a.Compare([]byte(page), func(int) bool { return false }), "make it")
	a.Words, a.Rows = false, a.Rows[:1]
	require.ErrorContains(t, a.Compare([]byte(page), func(int) bool { return false }), "make it")
}

// What is made is printed, and written between its two lines; a page without them is not written to.
func TestPrint(t *testing.T) {
	a, page := made()
	dir, out := t.TempDir(), bytes.Buffer{}
	file := filepath.Join(dir, a.Page)
	require.NoError(t, os.WriteFile(file, []byte(page), 0o600))
	require.ErrorContains(t, Print(&out, []Made{a}, []string{"b"}, ""), "no table is called b")
	require.NoError(t, Print(&out, []Made{a, {Name: "b"}}, []string{"a"}, ""))
	require.Contains(t, out.String(), "\n"+a.Text())
	require.NoError(t, Print(&out, []Made{a}, nil, dir))
	now, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "before\n<!-- made by: make it; table: a -->\n| x | y |\n|---|--:|\n| 1 | 2 |\n| 3 | 4 |\n<!-- end of what is made -->\nafter\n", string(now))

	require.NoError(t, os.WriteFile(file, []byte("<!-- made by: make it; table: a -->\nold\n"), 0o600))
	require.ErrorContains(t, Print(&out, []Made{a}, nil, dir), "no end")
	a.Name = "b"
	require.ErrorContains(t, Print(&out, []Made{a}, nil, dir), "page.md: the page has no line")
}
