// SPDX-License-Identifier: Apache-2.0

package price

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/tallystick/tallystick/internal/printed"
)

// Run makes tables, as its arguments say.
func Run(_ context.Context, args []string, stdout, stderr io.Writer) (held bool, err error) {
	return printed.Run(flag.NewFlagSet("price", flag.ContinueOnError), args, stdout, stderr, Tables)
}

// Tables are all that the page prints.
func Tables() []printed.Made {
	return []printed.Made{worthTable(), newcomersTable(), shutTable(), networksTable(), carriersTable(), blocksTable()}
}

func table(name string, head ...string) printed.Made {
	return printed.Made{Name: name, Page: "internal/lab/price/README.md", By: "make bounds", Head: head}
}

// purses are the budgets of attackers that buy to use: a core that runs Go.
var purses = []int64{10 * core, 600 * core, 36_000 * core}

// raids returns a cell for each time and each purse of an attacker that is alone in a place.
func raids(p place, cell func(plans [][]lot, lasts int64) int64) (cells []string) {
	for _, lasts := range []int64{hour, day} {
		for _, purse := range purses {
			cells = append(cells, printed.Figure(cell((&raid{p, purse, lasts}).plans(), lasts)))
		}
	}
	return cells
}

// worthTable: what buying is worth at one address.
func worthTable() printed.Made {
	t := table("worth", "policy", "a tally admits", "an hour for 10 s", "10 min", "10 h", "a day for 10 s", "10 min", "10 h")
	t.Add(true, func() []string {
		return append([]string{"tallies", "1"}, raids(oneAddress, func(plans [][]lot, _ int64) int64 { return most(plans) })...)
	})
	for i, u := range uses() {
		t.Add(i == 0, func() []string {
			return append([]string{u.name, printed.Figure(u.admitted(0, day))}, raids(oneAddress, func(plans [][]lot, lasts int64) int64 {
				requests, _ := u.best(plans, lasts)
				return requests
			})...)
		})
	}
	return t
}

// networksTable: what a whole network is worth, in tallies and in requests of the first policy.
func networksTable() printed.Made {
	t := table("networks", "network", "tallies in an hour for 10 s", "10 min", "10 h", "in a day for 10 s", "10 min", "10 h", "requests in a day for 10 h")
	for _, p := range []place{oneAddress, whole56, whole48} {
		t.Add(false, func() []string {
			requests := int64(0)
			cells := append([]string{p.name}, raids(p, func(plans [][]lot, lasts int64) int64 {
				requests, _ = uses()[0].best(plans, lasts)
				return most(plans)
			})...)
			return append(cells, printed.Figure(requests)) // of the last raid
		})
	}
	return t
}

// A size is how many newcomers come in a day, and how often that is tried: as many days
// of few newcomers as make the share sure to some points.
type size struct {
	daily int64
	runs  int
}

// budget is an attacker that spends so many seconds of a core an hour, by its name.
func budget(seconds int64, who string) string {
	if seconds == 0 {
		return "none"
	}
	return fmt.Sprintf("%s%d s an hour", who, seconds)
}

// newcomersTable: what share of the newcomers behind one address gets in.
func newcomersTable() printed.Made {
	t, sizes := table("newcomers", "attacker, patience"), []size{{20, 20}, {100, 4}, {500, 2}, {2000, 1}}
	for _, size := range sizes {
		t.Head = append(t.Head, printed.Figure(size.daily)+" a day")
	}
	for _, patience := range []int64{60, 10} {
		for _, spends := range []int64{0, 5, 36, 360} {
			t.Add(spends == 0, func() []string {
				cells := []string{fmt.Sprintf("%s, %d s", budget(spends, ""), patience)}
				for _, size := range sizes {
					g := siege{oneAddress, size.daily, patience * second, spends * vector, size.runs}
					c, _ := g.fared()
					cells = append(cells, c.String())
				}
				return cells
			})
		}
	}
	return t
}

// shutTable: what it costs to shut an address to newcomers.
func shutTable() printed.Made {
	t := table("shut", "victims", "who wait 10 s", "who wait 60 s")
	for kind, victims := range []string{"desktops", "phones"} {
		t.Add(false, func() []string {
			cells := []string{victims}
			for _, patience := range []int64{10, 60} {
				g := siege{oneAddress, 20, patience * second, 0, 10}
				cells = append(cells, fmt.Sprintf("%.1f s", float64(g.shut(kind))/float64(vector)))
			}
			return cells
		})
	}
	return t
}

// carriersTable: what share of a carrier's subscribers gets in.
func carriersTable() printed.Made {
	t := table("carriers", "newcomers from", "attacker", "500 a day", "2,000 a day", "6,000 a day")
	for _, p := range []place{subscribers64, busy56, subscribers56} {
		for _, spends := range []int64{0, 360} {
			t.Add(spends == 0, func() []string {
				cells := []string{p.name, budget(spends, "one subscriber, ")}
				for _, daily := range []int64{500, 2000, 6000} {
					g := siege{p, daily, 60 * second, spends * vector, 1}
					c, _ := g.fared()
					cells = append(cells, c.String())
				}
				return cells
			})
		}
	}
	return t
}

// blocksTable: what the blocks of an address are worth to its newcomers, and to an attacker.
func blocksTable() printed.Made {
	t := table("blocks", "newcomers", "attacker", "100 a day", "500 a day", "its tallies a day")
	add := func(p place, name, attacker string, hourly int64) {
		t.Add(hourly == 0, func() []string {
			cells, most := []string{name, attacker}, int64(0)
			for _, size := range []size{{100, 4}, {500, 1}} {
				g := siege{p, size.daily, 60 * second, hourly * vector, size.runs}
				c, tallies := g.fared()
				cells, most = append(cells, c.String()), max(most, tallies)
			}
			return append(cells, printed.Figure(most))
		})
	}
	add(oneAddress, "without `PortBlocks`", "none", 0)
	add(oneAddress, "without `PortBlocks`", budget(360, ""), 360)
	add(blocksOf(portBlocks, 1), "in 16 blocks", "none", 0)
	for _, n := range []int64{1, 2, 4, portBlocks} {
		add(blocksOf(portBlocks, n), "in 16 blocks", fmt.Sprintf("%s, in %d of them", budget(360, ""), n), 360)
	}
	add(blocksOf(4, 1), "in 4 blocks", "none", 0)
	add(blocksOf(1, 1), "in 1 block", "none", 0)
	return t
}
