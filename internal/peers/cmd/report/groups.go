// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
)

// The units of what takes turns.
const (
	tenth     = "p10-cpu-sec/op"
	tenthWall = "p10-sec/op"
	halfWall  = "p50-sec/op"
)

// A triple is the median, the least and the most of the groups of a run.
type triple struct{ median, least, most float64 }

// over combines figures group by group: all of them were measured within moments of each
// other, and what the machine does from group to group touches all.
func (r *results) over(unit string, combine func(x []float64) float64, of ...target) triple {
	var all []float64
	for g := range r.samples[of[0]][unit] {
		x := make([]float64, len(of))
		for i, id := range of {
			samples := r.samples[id][unit]
			if len(samples) != len(r.samples[of[0]][unit]) {
				return tripleOf(nil)
			}
			x[i] = samples[g]
		}
		all = append(all, combine(x))
	}
	return tripleOf(all)
}

// plain is one figure as it is.
func (r *results) plain(unit string, of target) triple {
	return r.over(unit, func(x []float64) float64 { return x[0] }, of)
}

// times is the first divided by the second.
func (r *results) times(unit string, a, b target) triple {
	return r.over(unit, func(x []float64) float64 { return x[0] / x[1] }, a, b)
}

func tripleOf(all []float64) triple {
	if len(all) == 0 {
		return triple{math.NaN(), math.NaN(), math.NaN()}
	}
	all = slices.Sorted(slices.Values(all))
	n := len(all)
	return triple{(all[n/2] + all[(n-1)/2]) / 2, all[0], all[n-1]}
}

// String writes a ratio, with its range in brackets.
func (t triple) String() string {
	if math.IsNaN(t.median) {
		return "–"
	}
	return fmt.Sprintf("%s (%s–%s)", ratio(t.median), ratio(t.least), ratio(t.most))
}

// nanos and micros write the median of seconds.
func (t triple) nanos() string { return dash(t.median*1e9, "%.0f") }

// micros also writes the range.
func (t triple) micros() string {
	if math.IsNaN(t.median) {
		return "–"
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", t.median*1e6, t.least*1e6, t.most*1e6)
}

// dash writes a number, or – where there is none.
func dash(x float64, format string) string {
	if math.IsNaN(x) {
		return "–"
	}
	return fmt.Sprintf(format, x)
}

// meanwhile says what others did on the machine while a kind was measured.
func (r *results) meanwhile(kind string) string {
	t := r.plain(share, target{"Meanwhile/of=" + kind, 1})
	switch {
	case math.IsNaN(t.median):
		return "What others did on the machine meanwhile cannot be told."
	case t.most < busyFrom:
		return fmt.Sprintf("The machine was quiet: others used at most %.0f %% of its processors.", 100*t.most)
	}
	return fmt.Sprintf("**The machine was busy: others used %.0f %% of its processors, in one group %.0f %%.** Compare rows with each other; trust no time on the wall.",
		100*t.median, 100*t.most)
}

// groups says how many there are of a kind.
func (r *results) groups(kind string) int {
	most := 0
	for _, id := range r.order {
		if player, found := cutPlayer(id.name, kind); found && player != "" {
			most = max(most, len(r.samples[id][cpu]))
		}
	}
	return most
}
