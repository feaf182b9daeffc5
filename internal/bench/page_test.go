// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/printed"
)

// Each table has its place on its page, and no page has a row that is not measured.
func TestPagesNameRowsThatExist(t *testing.T) {
	known := map[string]bool{}
	for _, q := range append(requests(), trips()...) {
		known[q.name] = true
	}
	for _, s := range shapes() {
		known[s.name] = true
	}
	for _, name := range crowded {
		known[name] = true
	}
	for _, e := range engines {
		known[e.name] = true
	}
	for _, f := range fleets {
		for _, size := range fleetSizes {
			known[inFleet(f.name, size)] = true
		}
	}
	for _, made := range tables {
		if made.page == "" {
			continue
		}
		page, err := os.ReadFile(made.page)
		require.NoError(t, err)
		_, err = made.put(page, "")
		require.NoError(t, err)
	}
	name := regexp.MustCompile("^`([^`]+)`$")
	for _, page := range []string{"README.md", "../../README.md"} {
		_, found, err := printed.Read(page)
		require.NoError(t, err)
		for _, table := range found {
			if !strings.HasPrefix(table.HeldBy, "internal/bench/") {
				continue
			}
			require.NotEmpty(t, table.Rows)
			for _, row := range table.Rows {
				if found := name.FindStringSubmatch(row[0]); found != nil {
					require.True(t, known[found[1]] || known[row[0]], "%s: no row is called %s", page, row[0])
				}
			}
		}
	}
}
