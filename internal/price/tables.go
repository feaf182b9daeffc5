// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// A table is one of the README: its head, and a way to make each row.
type table struct {
	name string
	head []string
	rows []row
}

// A row is quick if every run of the tests makes it.
type row struct {
	quick bool
	make  func() []string
}

// line is a row as the page prints it.
func line(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

// top is the first two lines of a table. Columns of numbers stand to the right.
func (t *table) top() string {
	marks := make([]string, len(t.head))
	for i := range marks {
		marks[i] = "--:"
	}
	marks[0] = "---"
	return line(t.head) + "|" + strings.Join(marks, "|") + "|\n"
}

// tables are all that the page prints.
func tables() []table {
	return []table{worthTable(), newcomersTable(), shutTable(), networksTable(), carriersTable(), blocksTable()}
}

// purses are the budgets of attackers that buy to use: a core that runs Go.
var purses = []int64{10 * core, 600 * core, 36_000 * core}

// figure writes a number with a comma at each thousand.
func figure(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", figure(n/1000), n%1000)
}

func slide(quota int64, window time.Duration) storeless.Limit {
	return storeless.Limit{Quota: quota, Window: window}
}

// uses are the policies whose tallies are valued.
func uses() []*use {
	const aDay = 24 * time.Hour
	return []*use{
		newUse("5/min + 50/day", slide(5, time.Minute), slide(50, aDay)),
		newUse("50/day", slide(50, aDay)),
		newUse("3 in 10 min", slide(3, 10*time.Minute)),
		newUse("5/min", slide(5, time.Minute)),
	}
}

// worthTable: what buying is worth at one address.
func worthTable() table {
	t := table{name: "worth", head: []string{"policy", "a tally admits", "an hour for 10 s", "10 min", "10 h", "a day for 10 s", "10 min", "10 h"}}
	plans := func(lasts, purse int64) [][]lot { return (&raid{oneAddress, purse, lasts}).plans() }
	t.rows = append(t.rows, row{quick: true, make: func() []string {
		cells := []string{"tallies", "1"}
		for _, lasts := range []int64{hour, day} {
			for _, purse := range purses {
				cells = append(cells, figure(most(plans(lasts, purse))))
			}
		}
		return cells
	}})
	for i, u := range uses() {
		t.rows = append(t.rows, row{quick: i == 0, make: func() []string {
			cells := []string{u.name, figure(u.admitted(0, day))}
			for _, lasts := range []int64{hour, day} {
				for _, purse := range purses {
					requests, _ := u.best(plans(lasts, purse), lasts)
					cells = append(cells, figure(requests))
				}
			}
			return cells
		}})
	}
	return t
}

// sizes are how many newcomers come in a day, and how often that is tried: as many days
// of few newcomers as make the share sure to some points.
var sizes = []struct {
	daily int64
	runs  int
}{{20, 20}, {100, 4}, {500, 2}, {2000, 1}}

// let is how a crowd fared, as the page prints it.
func (c crowd) let() string {
	return fmt.Sprintf("%d/%d", c.desktops.percent(), c.phones.percent())
}

// newcomersTable: what share of the newcomers behind one address gets in.
func newcomersTable() table {
	t := table{name: "newcomers", head: []string{"attacker, patience"}}
	for _, size := range sizes {
		t.head = append(t.head, figure(size.daily)+" a day")
	}
	for _, patience := range []int64{60, 10} {
		for _, spends := range []int64{0, 5, 36, 360} {
			name := "none"
			if spends > 0 {
				name = fmt.Sprintf("%d s an hour", spends)
			}
			t.rows = append(t.rows, row{quick: spends == 0, make: func() []string {
				cells := []string{fmt.Sprintf("%s, %d s", name, patience)}
				for _, size := range sizes {
					g := siege{oneAddress, size.daily, patience * second, spends * vector, size.runs}
					c, _ := g.fared()
					cells = append(cells, c.let())
				}
				return cells
			}})
		}
	}
	return t
}

// shutTable: what it costs to shut an address to newcomers.
func shutTable() table {
	t := table{name: "shut", head: []string{"victims", "who wait 10 s", "who wait 60 s"}}
	for _, victims := range []struct {
		name string
		rate int64
	}{{"desktops", desktop}, {"phones", phone}} {
		t.rows = append(t.rows, row{make: func() []string {
			cells := []string{victims.name}
			for _, patience := range []int64{10, 60} {
				g := siege{oneAddress, 20, patience * second, 0, 10}
				cells = append(cells, fmt.Sprintf("%.1f s", float64(g.shut(victims.rate))/float64(vector)))
			}
			return cells
		}})
	}
	return t
}

// networksTable: what a whole network is worth, in tallies and in requests of the first policy.
func networksTable() table {
	t := table{name: "networks", head: []string{"network", "tallies in an hour for 10 s", "10 min", "10 h", "in a day for 10 s", "10 min", "10 h", "requests in a day for 10 h"}}
	for _, p := range []place{oneAddress, whole56, whole48} {
		t.rows = append(t.rows, row{make: func() []string {
			cells := []string{p.name}
			var plans [][]lot
			for _, lasts := range []int64{hour, day} {
				for _, purse := range purses {
					plans = (&raid{p, purse, lasts}).plans()
					cells = append(cells, figure(most(plans)))
				}
			}
			requests, _ := uses()[0].best(plans, day)
			return append(cells, figure(requests))
		}})
	}
	return t
}

// carriersTable: what share of a carrier's subscribers gets in.
func carriersTable() table {
	t := table{name: "carriers", head: []string{"newcomers from", "attacker", "500 a day", "2,000 a day", "6,000 a day"}}
	for _, p := range []place{subscribers64, busy56, subscribers56} {
		for _, spends := range []int64{0, 360} {
			name := "none"
			if spends > 0 {
				name = fmt.Sprintf("one subscriber, %d s an hour", spends)
			}
			t.rows = append(t.rows, row{quick: spends == 0, make: func() []string {
				cells := []string{p.name, name}
				for _, daily := range []int64{500, 2000, 6000} {
					g := siege{p, daily, 60 * second, spends * vector, 1}
					c, _ := g.fared()
					cells = append(cells, c.let())
				}
				return cells
			}})
		}
	}
	return t
}

// blocksTable: what the blocks of an address are worth to its newcomers, and to an attacker.
func blocksTable() table {
	t := table{name: "blocks", head: []string{"newcomers", "attacker", "100 a day", "500 a day", "its tallies a day"}}
	add := func(p place, name, attacker string, hourly int64) {
		t.rows = append(t.rows, row{quick: hourly == 0, make: func() []string {
			cells, most := []string{name, attacker}, int64(0)
			for _, size := range []struct {
				daily int64
				runs  int
			}{{100, 4}, {500, 1}} {
				g := siege{p, size.daily, 60 * second, hourly * vector, size.runs}
				c, tallies := g.fared()
				cells, most = append(cells, c.let()), max(most, tallies)
			}
			return append(cells, figure(most))
		}})
	}
	add(oneAddress, "without `PortBlocks`", "none", 0)
	add(oneAddress, "without `PortBlocks`", "360 s an hour", 360)
	add(blocksOf(portBlocks, 1), "in 16 blocks", "none", 0)
	for _, n := range []int64{1, 2, 4, portBlocks} {
		add(blocksOf(portBlocks, n), "in 16 blocks", fmt.Sprintf("360 s an hour, in %d of them", n), 360)
	}
	add(blocksOf(4, 1), "in 4 blocks", "none", 0)
	add(blocksOf(1, 1), "in 1 block", "none", 0)
	return t
}
