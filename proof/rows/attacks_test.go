// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/pages"
	"github.com/tallystick/tallystick/proof/players"
	"github.com/tallystick/tallystick/proof/truth"
)

// What stands in the page as a bound is one: no attacker gets more.
func TestNoBoundIsExceeded(t *testing.T) {
	seeds := []Seed{100, 101, 102} // other seeds than the tables'
	if kit.Brief() {
		seeds = seeds[:1]
	}
	for _, seed := range seeds {
		for _, a := range Attacks() {
			sizes := []int64{1, 2, 7}
			if kit.Brief() && kit.Race {
				sizes = sizes[1:2]
			}
			for _, n := range sizes {
				for _, c := range []int64{0, n} {
					admitted, bound := a.Played(seed, truth.Instances{N: n, C: c})
					require.LessOrEqual(t, admitted, bound, "%s: N = %d, C = %d", a.Client, n, c)
					require.Positive(t, admitted)
				}
			}
		}
	}
}

// A row of the table of bounds is simulated if there is an attacker for it, or it is what the table of yields shows.
func TestSimulatedRowsArePlayed(t *testing.T) {
	played := map[int]bool{8: true}
	require.Equal(t, "the same, and works", Bounds()[8].Client)
	for _, a := range Attacks() {
		played[a.Bound] = true
	}
	for i, b := range Bounds() {
		require.Equal(t, played[i], b.Also.Simulated, b.Client)
	}
}

// A request that stands for many is worth as many.
func TestBulkIsWorthAsMuch(t *testing.T) {
	for _, used := range []int{0, 1, 37, 99, 100} {
		site := PerMinute(Quota)
		site.Cost = fleet.CostOf
		attacker := func() *players.Attacker {
			return &players.Attacker{Fleet: fleet.New(1, site), From: Places[0].Free}
		}
		one, many := attacker(), attacker()
		for range used {
			require.True(t, one.Ask(fleet.Request{}).Admitted() && many.Ask(fleet.Request{}).Admitted())
		}
		require.EqualValues(t, Quota-used, one.Drain(fleet.Request{}))
		require.EqualValues(t, Quota-used, many.Drain(fleet.Request{Cost: Quota}))
	}
}

// What a row says of a model and of a proof is so: docs/proof.md has the proof, and a world
// that its own test explores, in which some way leads to the bound and none beyond.
// That the row's test exists, a test of the root holds.
func TestMarksAreBacked(t *testing.T) {
	text := kit.Must(os.ReadFile("../../docs/proof.md"))(t)
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
