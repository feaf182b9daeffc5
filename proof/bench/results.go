// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
)

// Results hold the figures of a run, by part.
type results struct {
	head  string // the machine, and when
	parts map[string]samples
}

// Samples are the figures of a part: by row and unit, one for each group of turns.
type samples map[string]map[string][]float64

// add notes a figure; one that is no number is none.
func (s samples) add(row, unit string, figure float64) {
	if math.IsNaN(figure) || math.IsInf(figure, 0) {
		return
	}
	if s[row] == nil {
		s[row] = make(map[string][]float64)
	}
	s[row][unit] = append(s[row][unit], figure)
}

// join adds all of other.
func (s samples) join(other samples) {
	for row, units := range other {
		for unit, figures := range units {
			for _, f := range figures {
				s.add(row, unit, f)
			}
		}
	}
}

// A spread is a median and the quartiles beside it.
type spread struct{ mid, low, high float64 }

// over combines figures of rows group by group: all of a group were measured within moments of
// each other, and what the machine does from group to group touches all.
func (s samples) over(unit string, combine func(x []float64) float64, rows ...string) spread {
	var all []float64
	for g := range s[rows[0]][unit] {
		x := make([]float64, len(rows))
		for i, row := range rows {
			if len(s[row][unit]) != len(s[rows[0]][unit]) {
				return spreadOf(nil)
			}
			x[i] = s[row][unit][g]
		}
		all = append(all, combine(x))
	}
	return spreadOf(all)
}

// plain is one figure as it is.
func (s samples) plain(unit, row string) spread { return spreadOf(s[row][unit]) }

func spreadOf(all []float64) spread {
	return spread{quantile(all, 0.5), quantile(all, 0.25), quantile(all, 0.75)}
}

// quantile returns what a part of all is below, between two of them if need be; of none NaN.
func quantile(all []float64, part float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(all))
	at := part * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

// write writes the median by a format, after a factor; – is none.
func (x spread) write(format string, factor float64) string {
	if math.IsNaN(x.mid) {
		return "–"
	}
	return fmt.Sprintf(format, x.mid*factor)
}

// wide writes the quartiles too.
func (x spread) wide(format string, factor float64) string {
	if math.IsNaN(x.mid) {
		return "–"
	}
	return fmt.Sprintf(format+" ("+format+"–"+format+")", x.mid*factor, x.low*factor, x.high*factor)
}

// String writes a ratio.
func (x spread) String() string { return x.wide("%.2f", 1) }
