// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"testing/cryptotest"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// The tables of the pages are those that this code makes. The quick rows are made anew in
// every run, all of them where time does not matter: "make long" does that apart from its runs
// with the race detector, which looks at how things are done and not at how often. One row of
// each table is enough for it.
//
// The secrets of the instances come from a seed as well.
func TestPrintedTables(t *testing.T) {
	for _, table := range Tables(Seed) {
		t.Run(table.Page+" "+table.Name, func(t *testing.T) {
			made := 0
			require.NoError(t, table.Compare("../../..", func(i int) bool {
				if kit.Race && made > 0 && !table.Words || !table.Rows[i].Quick && (kit.Race || !kit.Long()) {
					return false
				}
				made++
				cryptotest.SetGlobalRandom(t, uint64(Seed))
				return true
			}))
		})
	}
}
