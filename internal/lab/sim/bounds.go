// SPDX-License-Identifier: Apache-2.0

package sim

import "fmt"

// Page is where the tables of this package stand, from the root of the repository.
const Page = "internal/lab/README.md"

// sizes are the numbers of instances of the attackers' tables.
var sizes = []int{1, 3, 10, 100}

// admittedTable: what each attacker gets, beside the bound.
func admittedTable(o Options) Table {
	t := Table{Name: "admitted", Page: Page, Head: []string{"client"}}
	for _, n := range sizes {
		t.Head = append(t.Head, fmt.Sprintf("N = %d", n))
	}
	t.Head = append(t.Head, "N = 10, C = 10")
	for _, a := range attacks(o) {
		t.Rows = append(t.Rows, Row{Quick: true, Make: func() []string {
			cells := []string{a.client}
			for _, n := range sizes {
				cells = append(cells, a.played(o, n, 0).String())
			}
			return append(cells, a.played(o, 10, 10).String())
		}})
	}
	return t
}

// thousandTable: the same on a thousand instances.
func thousandTable(o Options) Table {
	t := Table{Name: "thousand", Page: Page, Alone: true, Head: []string{"client", "N = 1,000"}}
	for _, a := range attacks(o) {
		t.Rows = append(t.Rows, Row{Make: func() []string {
			return []string{a.client, a.played(o, 1000, 0).String()}
		}})
	}
	return t
}

type result struct{ admitted, bound int64 }

func (r result) String() string { return figure(r.admitted) + " of " + figure(r.bound) }

// played lets an attacker loose on n instances. If some start within the window, all do, once.
func (a *attack) played(o Options, n, starts int) result {
	return unlessByChance(func() result { return a.once(o, n, starts) }, func(r result) bool { return r.admitted > r.bound })
}

func (a *attack) once(o Options, n, starts int) result {
	at := a.site
	if n >= 1000 {
		at.clients = 2048 // all of them together in a gigabyte
	}
	f := newFleet(o, a.client, n, at)
	from := a.from
	if from == nil {
		from = []string{v4(0)}
	}
	client := f.attacker(from...)
	a.play(f, client)
	if starts > 0 {
		f.restart()
		a.play(f, client)
	}
	return result{client.Gained().Admitted, a.bound(int64(n), int64(starts))}
}
