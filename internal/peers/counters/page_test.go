package counters_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/printed"
)

// The counters of docs/performance.md are those that are measured, in their order, but for
// two that say nothing to a reader: another number of limits, another client's PING.
func TestPageNamesEveryCounter(t *testing.T) {
	_, tables, err := printed.Read("../../../docs/performance.md")
	require.NoError(t, err)
	var names []string
	for _, e := range engines {
		names = append(names, e.name)
	}
	for _, e := range served {
		if e.name != "ours/three-limits" && e.name != "ping/go-redis" {
			names = append(names, e.name)
		}
	}
	var printed []string
	for _, row := range tables[1].Rows {
		printed = append(printed, strings.Split(row[0], "`")[1])
		for _, cell := range row[1:] {
			require.Regexp(t, `^[0-9.,]+ / [0-9.,]+ / [0-9.,]+$`, cell, "1, 16 and 128 callers")
		}
	}
	require.Equal(t, names, printed)
}
