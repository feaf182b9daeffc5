// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/lab/court"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/proof/pages"
)

// played are the clients of the tables of docs/bounds.md, and the rows of the lab that play them.
var played = map[string][]string{
	"echoes the newest token, one request after another, any number of instances": {"echo"},
	"the same, B requests at once":                                                {"parallel"},
	"sends no token, or an old one; no proof of work is configured":               {"drop", "roll-back", "fork", "aborted", "methods", "oversized", "cold-starts", "clock-back", "clock-and-back", "boundary"},
	"the same, where work buys more (`WhenExhausted`)":                            {"farm", "planted", "forged", "challenges", "cached"},
	"the same, where work comes first (`Newcomers`)":                              {"farm-newcomers", "farm-restarts", "imports", "stolen", "stolen-bound", "expired", "swapped"},
	"the same, where each request needs a proof (`EveryRequest`)":                 {"proofs"},
	"waits instead of working, where the waiting room is open":                    {"waits"},
	"holds a whole IPv6 /56, or a whole /48":                                      {"network-56", "network-48"},
	"at once, with `Concurrency` (`MaxHold` H, the oldest request has the age A)": {"at-once"},
	"on an exact route":                           {"exact", "exact-outage"},
	"holds many IPv4 addresses, or many IPv6 /48": {"addresses", "spoofed-through", "spoofed-around"}, // the last two are what it would take to have them for nothing
	"new while the memory is full":                {"washed-out"},
	"sends no token, or an old one":               {"peers-quiet", "peers-deploys", "peers-kills", "peers-list", "peers-stopped", "peers-cut"},
}

const worlds = "the worlds of internal/gossip and middleware/peers play it"

// unplayed are the others, and why.
var unplayed = map[string]string{
	"the same, and works": "the price of networks is internal/sale's",
	"on an exact route whose counter is the memory of one process, which dies D times": "the counter of the lab is a Redis",
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
		left[r.name] = true
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
	require.Empty(t, left, "rows that play nobody of the page")
	require.Empty(t, reasons, "clients that the page no longer has")
}

func TestWrongAnswers(t *testing.T) {
	require.Equal(t, "AA~1.2.3.4.5.6.7.0", wrong("AA~1.2.3.4.5.6.7.8"))
	require.Equal(t, "AA~1.2.3.4.5.6.7.1", wrong("AA~1.2.3.4.5.6.7.0"))
}

// The most tallies for some work is docs/bounds.md's formula.
func TestLevelOf(t *testing.T) {
	require.Zero(t, levelOf(2, 8, 0, 0))
	for _, work := range []int64{1, 16, 100, 1000} {
		want := 2 * 8 * math.Log2(1+15./8*float64(work)/(2*8))
		require.EqualValues(t, math.Floor(want), levelOf(2, 8, work*leastWork, 0))
	}
	require.EqualValues(t, 2*leak, levelOf(2, 8, 0, 3600), "what leaks in an hour")
	s := &scene{Stage: &court.Stage{House: &house.Cluster{Instances: make([]*house.Process, 2)}}}
	s.starts.Store(1)
	require.EqualValues(t, math.Floor(3*8*math.Log2(1+15./8)), levelOf(s.n(), 8, 24*leastWork, 0), "one that has started sells as much")
}

func TestWorth(t *testing.T) {
	s := &scene{route: route{Quota: 100, Instances: 10}, Stage: &court.Stage{House: &house.Cluster{Instances: make([]*house.Process, 10)}}}
	require.EqualValues(t, 10*100, s.worth())
	s.starts.Store(2)
	require.EqualValues(t, 12*100, s.worth(), "one that has started has never met the tally")
}

func TestTable(t *testing.T) {
	held := &result{row: row{name: "held", formula: "L"}, admitted: 5, bound: 5}
	over := &result{row: row{name: "over", formula: "L"}, admitted: 6, bound: 5, spent: 12 * leastWork, bought: 3, most: 4}
	unjust := &result{row: row{name: "unjust", formula: "L"}, bound: 5, unjust: 2, first: "over-limit"}
	require.True(t, held.holds())
	require.False(t, over.holds())
	require.False(t, unjust.holds())
	var b strings.Builder
	require.NoError(t, writeTable(&b, short, []*result{held, over, unjust}))
	for _, says := range []string{
		"row over: EXCEEDED: admitted 6, at most 5 are promised: L\n", "3 of 4",
		"row unjust: 2 honest requests refused that had room, the first: over-limit\n",
	} {
		require.Contains(t, b.String(), says)
	}
	require.NotContains(t, b.String(), "row held:")
	require.Equal(t, 2, strings.Count(b.String(), "NOT HELD"))
}
