// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/pages"
)

// rowsOf returns the first cells of what each table has.
func rowsOf() map[string][]string {
	all := map[string][]string{"requests": names(requests()), "served": names(trips()), "cores": slices.Clone(meeters[:5]), "limiters": slices.Clone(meeters)}
	for _, e := range engines {
		all["counters"] = append(all["counters"], e.name, e.name)
	}
	all["fleet"], all["fleet in short"] = inFleets(fleetSizes), inFleets(shortSizes)
	for _, rows := range all {
		for i := range rows {
			rows[i] = "`" + rows[i] + "`"
		}
	}
	for _, s := range shapes()[1 : len(shapes())-4] {
		all["wire"] = append(all["wire"], s.name)
	}
	for _, b := range budgets {
		all["budgets"] = append(all["budgets"], b.what)
	}
	return all
}

// Each table has its place on its page, and stands there; and no page has a row that is not measured.
func TestPagesNameRowsThatExist(t *testing.T) {
	known, have := map[string]bool{}, map[string]bool{}
	for _, rows := range rowsOf() {
		for _, row := range rows {
			known[row] = true
		}
	}
	for _, made := range tables {
		if made.page == "" {
			continue
		}
		page, err := os.ReadFile(made.page)
		require.NoError(t, err)
		without, err := made.put(page, "")
		require.NoError(t, err)
		require.Greater(t, strings.Count(string(page), "\n|---"), strings.Count(string(without), "\n|---"), "%s: nothing stands in its place", made.name)
	}
	name := regexp.MustCompile("^`[^`]+`$")
	for _, page := range []string{"README.md", "../../README.md"} {
		_, found, err := pages.Read(page)
		require.NoError(t, err)
		for _, table := range found {
			if !strings.HasPrefix(table.HeldBy, "proof/bench/") {
				continue
			}
			require.NotEmpty(t, table.Rows)
			for _, row := range table.Rows {
				require.Regexp(t, `[0-9]`, strings.Join(row[1:], ""), "%s: %s", page, row[0])
				have[row[0]] = true
				if name.MatchString(row[0]) {
					require.True(t, known[row[0]], "%s: no row is called %s", page, row[0])
				}
			}
		}
	}
	for table, rows := range rowsOf() {
		for _, row := range rows {
			require.True(t, table == "budgets" || have[row], "no page has the row %s", row)
		}
	}
}
