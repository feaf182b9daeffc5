// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Settings come from the command line.
type settings struct {
	only     string
	rows     *regexp.Regexp
	span     time.Duration
	groups   int
	update   bool
	part     int // of what a slice has
	progress io.Writer
}

// wants reports whether a row is measured: those that others are compared with are always.
func (s *settings) wants(row string) bool {
	base, _, _ := strings.Cut(row, "-")
	return s.rows == nil || s.rows.MatchString(row) || slices.Contains([]string{reference, lowest, none, redisRate}, base)
}

// A row takes turns with others. A slice measures it once, and adds figures by their unit.
type row struct {
	name  string
	slice func(add func(unit string, figure float64))
}

const (
	leastRounds = 3                      // of a group, whatever the time
	rest        = 200 * time.Millisecond // for which nothing is done, to see what others do
)

// play measures rows in short slices, in an order that is drawn anew for each round, until their time is
// up. What a busy machine does to one row it then does to all, and their ratios hold where their times do
// not. A group of rounds gives one figure of each unit for each row; between groups is the
// spread. Of times on a processor the figure is the 10th percentile, and else the median.
func (s *settings) play(ctx context.Context, what string, rows []row, long time.Duration) samples {
	all, began := make(samples), time.Now()
	for g := range s.groups {
		each := (long - time.Since(began)) / time.Duration(s.groups-g)
		fmt.Fprintf(s.progress, "%s: group %d of %d, %s\n", what, g+1, s.groups, each.Round(time.Millisecond))
		others, start, group := watch(), time.Now(), make(samples)
		time.Sleep(min(rest, max(each/10, 10*time.Millisecond)))
		all.add("", "others", others())
		for round := 0; round < leastRounds || time.Since(start) < each; round++ {
			for _, i := range rand.Perm(len(rows)) {
				check(ctx.Err())
				if err := failing(func() {
					rows[i].slice(func(unit string, figure float64) { group.add(rows[i].name, unit, figure) })
				}); err != nil {
					check(fmt.Errorf("%s: %s: %w", what, rows[i].name, err))
				}
			}
		}
		for name, units := range group {
			for unit, figures := range units {
				part := 0.5
				if unit == "ns" {
					part = 0.1
				}
				all.add(name, unit, quantile(figures, part))
			}
		}
	}
	return all
}
