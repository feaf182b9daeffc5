// SPDX-License-Identifier: Apache-2.0

package price

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

func TestMain(m *testing.M) {
	kit.CollectLess()
	os.Exit(m.Run())
}

// The tables of the page are those that this code makes. The quick rows are made anew in
// every run, all of them where time does not matter. The first row has what of prices has changed.
func TestPrintedTables(t *testing.T) {
	for _, table := range Tables() {
		t.Run(table.Name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, table.Compare("../../..", func(i int) bool {
				return (i == 0 || !kit.Brief()) && (table.Rows[i].Quick || kit.Long())
			}))
		})
	}
}
