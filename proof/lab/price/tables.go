// SPDX-License-Identifier: Apache-2.0

package price

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/tallystick/tallystick/proof/pages"
)

// Run makes tables, as its arguments say.
func Run(_ context.Context, args []string, stdout, stderr io.Writer) (held bool, err error) {
	return pages.Run(flag.NewFlagSet("price", flag.ContinueOnError), args, stdout, stderr, Tables)
}

// Tables are all that the page prints.
func Tables() []pages.Made {
	return []pages.Made{worthTable(), newcomersTable(), shutTable(), networksTable(), carriersTable(), crowdsTable(), burstTable(), yieldsTable()}
}

func table(name string, head ...string) pages.Made {
	return pages.Made{Name: name, Page: "proof/lab/price/README.md", By: "make bounds", Head: head}
}

// purses are the budgets of attackers that buy to use: a core that runs Go.
var purses = []int64{10 * core, 600 * core, 36_000 * core}

// raided returns, for each time and each purse, what buying is worth to an attacker that is alone in a place, and spends as
// much on each of n instances: the price rises faster than what it pays for, so that no other division buys more.
func raided(p place, n int64, each func(from, until int64) int64) (cells []any) {
	for _, lasts := range []int64{hour, day} {
		for _, purse := range purses {
			cells = append(cells, n*raids(p, purse/n, lasts, each))
		}
	}
	return cells
}

// worthTable: what buying is worth at one address.
func worthTable() pages.Made {
	t := table("worth", "policy", "a tally admits", "an hour for 10 s", "10 min", "10 h", "a day for 10 s", "10 min", "10 h")
	t.Add(true, func() []any { return append([]any{"tallies", 1}, raided(oneAddress, 1, aTally)...) })
	for i, u := range uses() {
		t.Add(i == 0, func() []any {
			return append([]any{u.name, u.admitted(0, day)}, raided(oneAddress, 1, u.admitted)...)
		})
	}
	return t
}

// networksTable: what a fleet sells to an address, and what a whole network is worth, in tallies and in requests of the
// first policy.
func networksTable() pages.Made {
	t := table("networks", "who buys of how many instances", "tallies at once for 1,000 W", "in an hour for 10 s", "10 min", "10 h", "in a day for 10 s", "10 min", "10 h", "requests in a day for 10 h")
	add := func(p place, n int64) {
		t.Add(n > 1, func() []any {
			atOnce := attacker{purse: 1000 * work / n, stock: true}
			atOnce.look(open(usual, p), 0)
			cells := append([]any{fmt.Sprintf("%s, %d", p.name, n), n * atOnce.bought}, raided(p, n, aTally)...)
			return append(cells, n*raids(p, purses[2]/n, day, uses()[0].admitted))
		})
	}
	for _, n := range []int64{1, 3, 10} {
		add(oneAddress, n)
	}
	add(whole56, 1)
	add(whole48, 1)
	return t
}

// A size is how many newcomers come in a day, and how often that is tried: as many days
// of few newcomers as make the share sure to some points.
type size struct {
	daily int64
	runs  int
}

// inBySize returns what share of newcomers gets in, for each size, if an attacker in their place spends seconds of a core
// each hour.
func inBySize(p place, patience, spends int64, sizes ...size) (cells []any) {
	for _, size := range sizes {
		g := siege{p, size.daily, patience * second, spends * vector, size.runs}
		cells = append(cells, g.fared())
	}
	return cells
}

// newcomersTable: what share of the newcomers behind one address gets in.
func newcomersTable() pages.Made {
	t := table("newcomers", "attacker, patience", "20 a day", "100 a day", "500 a day", "2,000 a day")
	for _, patience := range []int64{60, 10} {
		for _, spends := range []int64{0, 5, 36, 360} {
			t.Add(spends == 0, func() []any {
				cells := inBySize(oneAddress, patience, spends, size{20, 20}, size{100, 4}, size{500, 2}, size{2000, 1})
				return append([]any{fmt.Sprintf("%s, %d s", budget(spends, ""), patience)}, cells...)
			})
		}
	}
	return t
}

// budget is an attacker that spends seconds of a core each hour, by its name.
func budget(seconds int64, who string) string {
	if seconds == 0 {
		return "none"
	}
	return fmt.Sprintf("%s%d s an hour", who, seconds)
}

// shutTable: what it costs to shut an address to newcomers.
func shutTable() pages.Made {
	t := table("shut", "victims", "who wait 10 s", "who wait 60 s")
	for kind, victims := range []string{"desktops", "phones"} {
		t.Add(false, func() []any {
			cells := []any{victims}
			for _, patience := range []int64{10, 60} {
				g := siege{oneAddress, 20, patience * second, 0, 10}
				cells = append(cells, shutFor(g.shut(kind)))
			}
			return cells
		})
	}
	for _, every := range []struct {
		victims string
		price   int64
	}{{"everybody, `EveryRequest`", work}, {"everybody, `NonceOnly`", 0}} { // TestShuttingEveryRequest plays it
		t.Add(true, func() []any {
			cell := shutFor(int64(hour/minute) * 5 * every.price)
			return []any{every.victims + ", 5 a minute", cell, cell}
		})
	}
	return t
}

// shutFor is what an hour costs, in seconds of a core and in W.
func shutFor(hourly int64) string {
	return fmt.Sprintf("%.1f s, %s W", float64(hourly)/float64(vector), pages.Figure(hourly/work))
}

// carriersTable: what share of a carrier's subscribers gets in.
func carriersTable() pages.Made {
	t := table("carriers", "newcomers from", "attacker", "500 a day", "2,000 a day", "6,000 a day")
	for _, p := range []place{subscribers64, busy56, subscribers56} {
		for _, spends := range []int64{0, 360} {
			t.Add(spends == 0, func() []any {
				return append([]any{p.name, budget(spends, "one subscriber, ")}, inBySize(p, 60, spends, size{500, 1}, size{2000, 1}, size{6000, 1})...)
			})
		}
	}
	return t
}

// crowdsTable: what crowds meet, at instances apart and at those that hear each other.
func crowdsTable() pages.Made {
	fleets := []servers{{1, byAddress, usual, false}, {3, byChance, usual, false}, {3, byChance, usual, true}, {10, byChance, usual, false}, {10, byChance, usual, true}}
	t := table("crowds", "behind one address", "who", "one instance, or any by address", "3", "3 peers", "10", "10 peers")
	for _, c := range crowds {
		for _, phones := range []bool{true, false} {
			t.Add(c.people <= 40, func() []any {
				cells := []any{c.name, map[bool]string{true: "phones", false: "half phones"}[phones]}
				for _, f := range fleets {
					cells = append(cells, c.meets(f.balance, phones, f.opened))
				}
				return cells
			})
		}
	}
	return t
}

// burstTable: what the work of a moment is worth at instances apart, and at those that hear each other.
func burstTable() pages.Made {
	t := table("burst", "a program computes on a core for each of ten", "one alone: tallies", "requests", "ten apart: tallies", "requests", "ten peers: tallies", "requests")
	for _, seconds := range []int64{1, 60, 3600} {
		t.Add(seconds == 1, func() []any {
			cells := []any{fmt.Sprintf("%s s", pages.Figure(seconds))}
			for _, f := range []servers{{1, nil, usual, false}, {10, nil, usual, false}, {10, nil, usual, true}} {
				tallies, requests := f.burst(uses()[2], seconds*native)
				cells = append(cells, tallies, requests)
			}
			return cells
		})
	}
	return t
}

// yieldsTable: what a program gets for its work, for owners of a site.
func yieldsTable() pages.Made {
	t := table("yields", "a program computes for", "requests in a minute", "in an hour", "in a day", "visits, by Anubis", "forms, by Cap", "forms, by ALTCHA")
	add := func(name string, purse int64) {
		t.Add(purse == 0, func() []any {
			u, cells := uses()[0], []any{name}
			for _, lasts := range []int64{minute, hour, day} {
				free := spent(u.all, 0, lasts)
				cells = append(cells, free+raids(oneAddress, purse, lasts, u.admitted))
			}
			return append(cells, rounded(purse, anubis), rounded(purse, capjs), rounded(purse, altcha))
		})
	}
	add("nothing, or there is no challenge", 0)
	for _, of := range []struct {
		name string
		rate int64
	}{{"a core", native}, {"a GPU", gpu}} {
		for _, seconds := range []int64{1, 60, 3600} {
			add(fmt.Sprintf("%s s of %s", pages.Figure(seconds), of.name), seconds*of.rate)
		}
	}
	return t
}
