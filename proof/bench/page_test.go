// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/pages"
)

// rowsOf returns the first cells of each table.
func rowsOf() map[string][]string {
	all := map[string][]string{}
	for _, t := range tables {
		for _, row := range t.rows() {
			text, _ := label(row)
			all[t.name] = append(all[t.name], text)
		}
	}
	for _, b := range budgets {
		all["budgets"] = append(all["budgets"], b.what)
	}
	return all
}

// Each table stands in its place on its page, and a page has only rows that are measured.
func TestPagesNameRowsThatExist(t *testing.T) {
	known, have := map[string]bool{}, map[string]bool{}
	for _, rows := range rowsOf() {
		for _, row := range rows {
			known[row] = true
		}
	}
	for _, made := range tables {
		empty := made.made("", nil)
		page, from, to, err := empty.On(root)
		require.NoError(t, err)
		require.Contains(t, string(page[from:to]), "\n|---", "%s: nothing stands in its place", made.name)
	}
	for _, page := range []string{"README.md", "../../README.md"} {
		_, found, err := pages.Read(page)
		require.NoError(t, err)
		for _, table := range found {
			if !strings.HasPrefix(table.HeldBy, "proof/bench/") {
				continue
			}
			require.NotEmpty(t, table.Rows)
			for _, row := range table.Rows {
				require.Regexp(t, `[0-9]`, strings.Join(row[1:], ""), row[0])
				have[row[0]] = true
				require.True(t, known[row[0]], "no row is called %s", row[0])
			}
		}
	}
	for table, rows := range rowsOf() {
		for _, row := range rows {
			require.True(t, table == "budgets" || have[row], "no page has the row %s", row)
		}
	}
}

// The figures in the text of the first page of the repository come from the tables.
func TestFiguresOfTheFirstPage(t *testing.T) {
	page := kit.Must(os.ReadFile("../../README.md"))(t)
	_, costs, _ := strings.Cut(string(page), "\n## What it costs\n")
	costs, _, _ = strings.Cut(costs, "\n## ")
	_, found, err := pages.Read("README.md")
	require.NoError(t, err)
	cell := func(head, row string, i int) string {
		for _, table := range found {
			for _, cells := range table.Rows {
				if strings.HasPrefix(table.Head, head) && cells[0] == row {
					first, _, _ := strings.Cut(cells[i], " (")
					return first
				}
			}
		}
		require.Fail(t, "no such row", "%s %s", head, row)
		return ""
	}
	const short = "| a request | Tallystick |"
	for _, says := range []string{
		"POST takes " + cell(short, "POST, allowed, one instance", 7) + " times",
		"a refusal " + cell(short, "refused", 7) + " times",
	} {
		require.Contains(t, costs, says, "README.md: figures that the table does not have")
	}
}
