// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/lab/judge"
)

// fleetFindings are what a fleet has seen: plain numbers, which judgeFleet judges.
type fleetFindings struct {
	interrupted                                bool
	length                                     time.Duration
	kinds                                      map[string][4]int64 // sent, admitted, refused, lost
	raids                                      map[string]raided
	unjust, lost, broken, deaths, races        judge.Found
	files                                      int64
	restarts, rotations, reloads, refusedFiles int64
	heap, goroutines                           judge.Series
}

// raided is by how much a hostile client has exceeded its bound, and the window in which it came nearest to it, or above.
type raided struct {
	excess int64
	most   string
}

// By how much the last quarter of a run may be above the first one: connections, and what is under way, come and go.
// In a run of less than steadyLength they have not all come yet in the first.
const (
	heapMargin       = 4 << 20
	goroutinesMargin = 40
	steadyLength     = time.Minute
	shortMargins     = 4
)

// judgeFleet makes the table of what was found.
func judgeFleet(f fleetFindings) (rows []judge.Row) {
	least := func(what string, n int64) { rows = append(rows, judge.AtLeast(what, n, 1, f.interrupted)) }
	total := int64(0)
	for _, name := range slices.Sorted(maps.Keys(f.kinds)) {
		k := f.kinds[name]
		total += k[0]
		rows = append(rows, judge.Say(name+": sent; admitted, refused, lost", "", fmt.Sprintf("%d; %d, %d, %d", k[0], k[1], k[2], k[3])))
	}
	rows = append(rows, judge.Say("requests, each second", "", fmt.Sprintf("%d, %.0f", total, float64(total)/max(1, f.length.Seconds()))))
	least("restarts", f.restarts)
	least("rotations of the secret", f.rotations)
	least("policy files read anew", f.reloads)
	least("policy files that were broken, and refused", f.refusedFiles)
	rows = append(rows,
		judge.None("deaths", f.deaths),
		judge.None("races", f.races),
		judge.None("temporary files left", judge.Found{N: f.files}),
		judge.None("honest: refused with room", f.unjust),
		judge.None("honest: no answer, though no process was away", f.lost),
		judge.None("an answer that was cut, a panic, a file taken that is broken", f.broken),
	)
	for _, name := range slices.Sorted(maps.Keys(f.raids)) {
		r := f.raids[name]
		rows = append(rows, judge.Row{What: "hostile, admitted in a window: " + name, After: r.most, Allowed: "(N+C)·L", OK: r.excess == 0})
	}
	flat := func(what, unit string, s judge.Series, per, margin float64) {
		first, last := s.Quarter(0), s.Quarter(0.75)
		if f.length < steadyLength {
			margin *= shortMargins
		}
		rows = append(rows, judge.Row{
			What: what + ", by quarters", Before: fmt.Sprintf("%.1f%s, %.1f, %.1f", first/per, unit, s.Quarter(0.25)/per, s.Quarter(0.5)/per),
			After: fmt.Sprintf("%.1f%s", last/per, unit), Allowed: fmt.Sprintf("%+.1f%s", margin/per, unit), OK: len(s) > 0 && last <= first+margin,
		})
	}
	flat("heap of the first process", " MiB", f.heap, 1<<20, heapMargin)
	flat("its goroutines", "", f.goroutines, 1, goroutinesMargin)
	return rows
}
