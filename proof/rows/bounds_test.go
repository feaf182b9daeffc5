// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/pages"
)

// What a row says of a model and of a proof is so: docs/proof.md has the proof, and a world
// that its own test explores, in which some way leads to the bound and none beyond.
// That the row's test exists, a test of the root holds.
func TestMarksAreBacked(t *testing.T) {
	text, err := os.ReadFile("../../docs/proof.md")
	require.NoError(t, err)
	_, tables, err := pages.Read("../model/README.md")
	require.NoError(t, err)
	table := func(head string) pages.Table {
		i := slices.IndexFunc(tables, func(t pages.Table) bool { return strings.HasPrefix(t.Head, head) })
		require.GreaterOrEqual(t, i, 0, head)
		return tables[i]
	}

	worlds := table("| clients | limit | N |")
	head := strings.Split(strings.Trim(worlds.Head, "| "), " | ")
	admitted, bound := slices.Index(head, "admitted"), slices.Index(head, "bound")
	require.True(t, admitted > 0 && bound > 0, head)

	for _, b := range Bounds() {
		if b.Also.Proof != "" {
			require.Contains(t, string(text), "**"+b.Also.Proof+"**", b.Client)
		}
		if b.Also.World == "" {
			continue
		}
		met := 0
		for _, cells := range worlds.Rows {
			if strings.HasPrefix(cells[0], b.Also.World) && cells[admitted] == cells[bound] {
				met++
			}
		}
		require.Positive(t, met, "no world of the model with %s meets its bound: %s", b.Also.World, b.Client)
	}
}
