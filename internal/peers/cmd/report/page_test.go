// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// marksOf returns the lines around a section.
func marksOf(t *testing.T, name string) (begin, end string) {
	t.Helper()
	for _, s := range sections {
		if s.name == name {
			return s.marks()
		}
	}
	require.Fail(t, "no section is called "+name)
	return "", ""
}

func TestUpdateWantsMarks(t *testing.T) {
	r := parsed(t, goodCounters)
	begin, _ := marksOf(t, "counters")
	for _, c := range []struct{ text, report string }{
		{"# A\n\n" + begin, "without the other"},
		{"# A\n", "has no marks"},
	} {
		page := filepath.Join(t.TempDir(), "page.md")
		require.NoError(t, os.WriteFile(page, []byte(c.text), 0o600))
		require.ErrorContains(t, update(page, r, "Here"), c.report)
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		require.Equal(t, c.text, string(text))
	}
	require.Error(t, update(filepath.Join(t.TempDir(), "none"), r, "Here"))
}

// A page keeps what was not measured.
func TestUpdateWritesWhatWasMeasured(t *testing.T) {
	begin, end := marksOf(t, "counters")
	beginOther, endOther := marksOf(t, "requests")
	page := filepath.Join(t.TempDir(), "page.md")
	write := func() {
		require.NoError(t, os.WriteFile(page, []byte("# A\n"+begin+"old counters\n"+end+"between\n"+beginOther+"old requests\n"+endOther+"after\n"), 0o600))
	}
	for _, c := range []struct{ measured, counters, requests string }{
		{goodCounters, "| `file` |", "old requests"},
		{goodRequests, "old counters", "| `tallystick-post` |"},
		{goodRequests + goodCounters, "| `file` |", "| `tallystick-post` |"},
	} {
		write()
		require.NoError(t, update(page, parsed(t, c.measured), "Here"))
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		require.Regexp(t, `(?s)^# A\n`+begin+`.*`+c.counters+`.*`+end+"between\n"+beginOther+`.*`+c.requests+`.*`+endOther+"after\n$", string(text))
	}
}
