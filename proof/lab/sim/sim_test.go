// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/pages"
	"github.com/tallystick/tallystick/proof/rows"
)

// seeds differ from the tables' seed: what holds for all must hold for these.
func seeds() []rows.Seed {
	if kit.Brief() {
		return []rows.Seed{100}
	}
	return []rows.Seed{100, 101, 102}
}

// fit is how many tallies n instances sell at once for a number of W, from a crowd of each on: the first 7/8 of a crowd
// cost W each, the next what the first one has made of the price, up to twice as much, and so on.
func fit(n int64, budget float64) float64 {
	const crowd = rows.Crowd
	const first, doubled = crowd*7/8 + 1, 1.5 * crowd * (1 + 1./(3*crowd)) // W: a crowd while the price goes from 1 to 2
	return float64(n) * (first + crowd*math.Log2(1+(budget/float64(n)-first)/doubled))
}

// An attacker that buys as well as it can gets no more than the formula of the page, and what
// the fit says.
func TestYieldOfWork(t *testing.T) {
	for _, n := range []int64{1, 3, 10} {
		for _, budget := range []int64{1, 8, 100, 400} {
			for _, p := range rows.Places {
				h := harvested(seeds()[0], n, p, budget*rows.W)
				tallies, _ := most(n, p, budget*rows.W)
				name := fmt.Sprint("N = ", n, ", ", budget, " W", p.Name)
				require.LessOrEqual(t, h.Spent, budget*rows.W, name)
				require.LessOrEqual(t, h.Bought, tallies, name)
				require.LessOrEqual(t, h.Admitted, n*(p.Quotas+h.Bought)*rows.Quota, name)
				if p.Crowds == 1 && budget >= n*rows.Crowd {
					require.InDelta(t, fit(n, float64(budget)), h.Bought, 0.03*float64(h.Bought)+1, name)
				}
			}
			if kit.Brief() && kit.Race {
				return
			}
		}
	}
}

// No honest client that has a tally under its limit is refused, whatever its balancer does.
func TestNobodyIsRefusedEarly(t *testing.T) {
	for _, o := range seeds() {
		for _, s := range scenes() {
			if s.clients > 20 && kit.Brief() {
				continue
			}
			f := s.played(o).fared()
			require.Zero(t, f.Early, s.name)
			if s.clients <= 200 {
				require.Equal(t, f.Requests, f.Admitted, s.name)
				require.LessOrEqual(t, f.Proofs, int64(s.clients), s.name)
			}
			require.EqualValues(t, s.clients*s.each, f.Requests, s.name)
		}
	}
}

// What a neighbour does with its work changes nothing for those that have paid.
func TestNeighboursDoNotNotice(t *testing.T) {
	for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers} {
		alone, _ := grieved(seeds()[0], mode, 0)
		f, newcomer := grieved(seeds()[0], mode, 20)
		require.Equal(t, f.Requests, f.Admitted)
		require.Zero(t, f.Early)
		require.Equal(t, alone.Proofs, f.Proofs)
		require.Greater(t, newcomer, int64(rows.W), "and a newcomer pays more than the first")
	}
}

// A sixteenth of a million clients before a sixteenth of the memory fare as the table says of all, and so does README.
func TestDaysOfAFullMemory(t *testing.T) {
	_, tables, err := pages.Read("../README.md")
	require.NoError(t, err)
	i := slices.IndexFunc(tables, func(t pages.Table) bool { return strings.HasPrefix(t.Head, "| limit, beside 5 a minute |") })
	require.GreaterOrEqual(t, i, 0)
	var parts []any
	for n, d := range days() {
		row := tables[i].Rows[n]
		refused := number(t, row[3]) / number(t, row[1])
		parts = append(parts, fmt.Sprintf("%.2g %%", 100*refused))

		d.room, d.clients, d.requests = d.room/16, d.clients/16, d.requests/16
		r := d.play(seeds()[0].Random(d.name))
		require.InDelta(t, d.requests, r.requests, 0.02*float64(d.requests), d.name)
		require.Greater(t, r.began, uint64(d.clients/2), "%s: the memory is full", d.name)
		early := r.requests - r.admitted
		require.InDelta(t, refused, float64(early)/float64(r.requests), 0.005, d.name)
		if refused == 0 {
			require.Zero(t, early, d.name)
		}
		require.Equal(t, r, d.play(seeds()[0].Random(d.name)), "the same seed, the same day")
	}
	require.Equal(t, "0 %", parts[0])
	readme := kit.Must(os.ReadFile("../../../README.md"))(t)
	require.Contains(t, strings.Join(strings.Fields(string(readme)), " "),
		fmt.Sprintf("At 5 a minute and 50 a day none is wrongly refused. At 10 a day %s are wrongly refused; with twice the default `MaxClients` %s.", parts[1:]...))
}

// number reads one of a table.
func number(t *testing.T, cell string) float64 {
	return kit.Must(strconv.ParseFloat(strings.ReplaceAll(cell, ",", ""), 64))(t)
}

// busy is a day's traffic: its mean is 1.
func TestBusy(t *testing.T) {
	sum := 0.0
	for at := time.Duration(0); at < 24*time.Hour; at += time.Minute {
		sum += busy(at)
		require.GreaterOrEqual(t, busy(at), busy(4*time.Hour))
		require.InDelta(t, busy(at), busy(at+24*time.Hour), 1e-9)
	}
	require.InDelta(t, 24*60, sum, 0.001)
}

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
