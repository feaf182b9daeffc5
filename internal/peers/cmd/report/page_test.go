// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/peers"
	"github.com/tallystick/tallystick/internal/printed"
	"github.com/tallystick/tallystick/internal/testkit"
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

// A shape is what a table of requests must have: its rows, by their first cells, and what is in
// the others.
type shape struct {
	page, head string
	rows       []string
	cells      []string // patterns; the last one is for all that follow
}

const (
	aRatio = `^[0-9.]+ \([0-9.]+–[0-9.]+\)$`
	anInt  = `^[0-9]+$`
)

// shapes returns those of the pages, with so many clients where there are many. Differences, and
// what is divided by them, are like the given pattern: of short slices they may be anything.
func shapes(t *testing.T, performance, readme string, many float64, difference string) []shape {
	t.Helper()
	var requests, served, shared []string
	for _, c := range peers.Contestants() {
		requests = append(requests, "`"+c.Name+"`")
	}
	trips, err := peers.Trips()
	require.NoError(t, err)
	for _, trip := range trips[1:] { // but none
		served = append(served, "`"+trip.Name+"`")
	}
	for range 2 {
		shared = append(shared, "`tallystick-post`", "`httprate`", "`throttled`", "`bare`")
	}
	return []shape{
		{performance, "| limiter | a request |", requests, []string{`[a-z]`, anInt, aRatio, aRatio, anInt, aRatio, anInt}},
		{performance, "| limiter | p10, µs |", served, []string{`^[0-9.]+$`, difference, difference, difference, `^[0-9.]+$`, difference}},
		{performance, "| limiter | clients |", shared, []string{`^(1|` + thousands(many) + `)$`, `^[0-9]+$`, anInt, anInt, aRatio}},
		{readme, "| a request |", []string{"POST, allowed, one instance", "the same, a client that alternates between two", "GET, allowed", "refused",
			"in a server of net/http, above none", thousands(many) + " clients, 2 processors, on the wall"}, []string{`^-?[0-9]+ ns$`, `^-?[0-9]+ ns$`, `^-?[0-9]+ ns$`, difference}},
	}
}

// lacking returns what a page lacks of a shape.
func (s shape) lacking(t *testing.T) (all []string) {
	t.Helper()
	_, tables, err := printed.Read(s.page)
	require.NoError(t, err)
	for _, table := range tables {
		if !strings.HasPrefix(table.Head, s.head) {
			continue
		}
		var rows []string
		for _, row := range table.Rows {
			if row[0] == "`"+peers.None+"`" {
				continue
			}
			rows = append(rows, row[0])
			for i, cell := range row[1:] {
				if !regexp.MustCompile(s.cells[min(i, len(s.cells)-1)]).MatchString(cell) {
					all = append(all, row[0]+": "+cell)
				}
			}
		}
		if !slices.Equal(s.rows, rows) {
			all = append(all, "rows: "+strings.Join(rows, ", "))
		}
		return all
	}
	return []string{"the table"}
}

// The pages have a row with all figures for each kind of request that is measured.
func TestPagesHaveEveryRequest(t *testing.T) {
	for _, s := range shapes(t, "../../README.md", "../../../../README.md", 1_000_000, aRatio) {
		require.Empty(t, s.lacking(t), "%s; run: go run ./cmd/report -only requests -update README.md,../../README.md", s.head)
	}
}

// The whole of it, with little of everything.
func TestEveryRequestIsMeasured(t *testing.T) {
	if runtime.NumCPU() < 2 {
		testkit.Unable(t, "one processor is not several")
	}
	dir := t.TempDir()
	page, raw := filepath.Join(dir, "page.md"), filepath.Join(dir, "raw")
	var text string
	for _, name := range []string{"requests", "served", "cores", "summary"} {
		begin, end := marksOf(t, name)
		text += begin + "old\n" + end
	}
	require.NoError(t, os.WriteFile(page, []byte(text), 0o600))
	o := options{only: "requests", quick: true, count: 1, span: time.Nanosecond, part: 10, raw: raw, update: page}
	require.NoError(t, run(t.Context(), o, io.Discard, io.Discard))
	for _, s := range shapes(t, page, page, 10_000, `\(.*\)$`) {
		if s.head == "| limiter | clients |" && runtime.NumCPU() > 2 {
			continue // it has rows for all of them, too
		}
		require.Empty(t, s.lacking(t), s.head)
	}

	// That check can fail: a row that was not measured is missed.
	lines, err := os.ReadFile(raw)
	require.NoError(t, err)
	without := regexp.MustCompile(`(?m)^BenchmarkRequest/player=tallystick-hop\t.*\n`).ReplaceAll(lines, nil)
	require.Less(t, len(without), len(lines))
	require.NoError(t, os.WriteFile(raw, without, 0o600))
	require.NoError(t, run(t.Context(), options{from: raw, update: page}, io.Discard, io.Discard))
	require.Len(t, shapes(t, page, page, 10_000, `\(.*\)$`)[0].lacking(t), 1)
}
