// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/pages"
)

// played are the clients of the tables of docs/bounds.md, and the rows of the lab that play them.
var played = map[string][]string{
	"echoes the newest token, one request after another, any number of instances": {"echo", "planted"},
	"the same, B requests at once":                                  {"parallel"},
	"sends no token, or an old one; no proof of work is configured": {"drop", "roll-back", "fork", "cold-starts"},
	"the same, where work buys more (`WhenExhausted`)":              {"farm", "cached"},
	"the same, where work comes first (`Newcomers`)":                {"farm-newcomers"},
	"the same, where each request needs a proof (`EveryRequest`)":   {"proofs"},
	"waits instead of working, where the waiting room is open":      {"waits"},
	"on an exact route":                           {"exact", "exact-outage"},
	"holds many IPv4 addresses, or many IPv6 /48": {"spoofed-through", "spoofed-around"}, // what it would take to have them for nothing
	"new while the memory is full":                {"washed-out"},
	"sends no token, or an old one":               {"peers-quiet", "peers-deploys", "peers-kills", "peers-dns", "peers-dns-last", "peers-list", "peers-stopped", "peers-cut"},
}

const worlds = "the worlds of internal/gossip and middleware/peers play it"

// unplayed are the others, and why.
var unplayed = map[string]string{
	"holds a whole IPv6 /56, or a whole /48": "the simulation plays it",
	"the same, and works":                    "the price of networks is internal/sale's",
	"on an exact route whose counter is the memory of one process, which dies D times": "the counter of the lab is a Redis",
	"at once, with `Concurrency` (`MaxHold` H, the oldest request has the age A)":      "slots are one process's own, and the tests of middleware hold them",
	"the same on an exact route":                                                        "slots of all instances are the counter's",
	"has its costs settled afterwards":                                                  "no attacker does that, the program does",
	"with `FixedWindow`, while clocks differ by the permitted skew":                     "the model plays it: honest clients of the lab would be refused around a boundary",
	"is refused by a policy inside of this one":                                         "the traces of middleware play it",
	"fails, where a limit counts failures alone":                                        "as sends no token, with another charge",
	"sends no token where `InsecureNoMemory` is set":                                    "nothing is promised",
	"works, where that comes first only while an instance is busy (`WhenBusy`)":         "a load is one in time, and the clocks of the lab stand",
	"the same, and proves no work, with `WhenBusy` and `BusyPerSecond` R, in t seconds": "the same",
	"sends CORS preflights (`OPTIONS`, no credentials, no body)":                        "nothing is promised",
	"echoes the newest token, one request after another":                                "honest clients of all rows do",
	"the same, of a bucket":                                                             worlds,
	"shows proofs, where each request needs one (`EveryRequest`)":                       worlds,
	"the same, by the calendar":                                                         "no outage of the lab lasts a day",
	"shows a bought tally":                                                              worlds,
	"buys tallies":                                                                      worlds,
	"pushes its records out of the full table of peers":                                 worlds,
}

// Every client of the page is played, or it is said why not; and every row plays one of them.
func TestRowsAreThoseOfThePage(t *testing.T) {
	_, tables, err := pages.Read("../../docs/bounds.md")
	require.NoError(t, err)
	clients := map[string]bool{} // some are in both
	for _, head := range []string{"| client | requests admitted |", "| client | serverless | with peers |"} {
		i := slices.IndexFunc(tables, func(t pages.Table) bool { return strings.HasPrefix(t.Head, head) })
		require.GreaterOrEqual(t, i, 0)
		for _, cells := range tables[i].Rows {
			clients[cells[0]] = true
		}
	}
	left, reasons := map[string]bool{}, maps.Clone(unplayed)
	for _, r := range rows() {
		if r.honest != meanwhile { // its clients are not attackers
			left[r.name] = true
		}
	}
	for client := range clients {
		if unplayed[client] != "" {
			delete(reasons, client)
			continue
		}
		require.NotEmpty(t, played[client], "no row of the lab plays: %s", client)
		for _, name := range played[client] {
			require.True(t, left[name], "row %s plays two, or is none", name)
			delete(left, name)
		}
	}
	require.Empty(t, left, "rows that play no client of the page")
	require.Empty(t, reasons, "clients that the page no longer has")
}

// The table of the long runs has each row, at both sizes, and no row that did not hold.
func TestPeersTable(t *testing.T) {
	_, tables, err := pages.Read("README.md")
	require.NoError(t, err)
	i := slices.IndexFunc(tables, func(t pages.Table) bool { return strings.HasPrefix(t.Head, "| instances, row |") })
	require.GreaterOrEqual(t, i, 0)
	left := tables[i].Rows
	for _, n := range []int{3, 10} {
		for _, r := range rows() {
			if r.route.Parts == 0 {
				continue
			}
			require.NotEmpty(t, left, r.name)
			cells := left[0]
			left = left[1:]
			require.True(t, strings.HasPrefix(cells[0], fmt.Sprintf("%d, `%s`: ", n, r.name)), cells[0])
			want := map[string]int{"peers-deploys": long.rounds, "peers-kills": long.rounds, "peers-quiet": 1, "peers-list": 1}[r.name]
			require.Equal(t, fmt.Sprint(cmp.Or(want, len(long.troubles))), cells[1])
			var admitted, bound int
			_, err := fmt.Sscanf(cells[2], "%d of %d", &admitted, &bound)
			require.NoError(t, err)
			require.LessOrEqual(t, admitted, bound, cells[0])
			require.GreaterOrEqual(t, bound, int(long.quota)+2*(n-1), cells[0])
			require.Equal(t, "0", cells[4], "%s: refused under the limit", cells[0])
		}
	}
	require.Empty(t, left)
}
