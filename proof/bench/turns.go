// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Settings come from the command line.
type settings struct {
	rows     *regexp.Regexp
	groups   int
	part     int // a slice has one part in this many; more than one only tells whether the program works
	progress io.Writer
}

// wants reports whether to measure a row. Rows that others are compared with are always measured.
func (s *settings) wants(row string) bool {
	base := row[:strings.IndexAny(row+" ", "- ")]
	return s.rows == nil || s.rows.MatchString(row) || slices.Contains([]string{reference, lowest, none, redisRate}, base)
}

// Samples are the figures of a part, by row and unit: one for each group of turns.
type samples map[string]map[string][]float64

// add notes a figure, and drops NaN and infinities.
func (s samples) add(row, unit string, figure float64) {
	if math.IsNaN(figure) || math.IsInf(figure, 0) {
		return
	}
	if s[row] == nil {
		s[row] = make(map[string][]float64)
	}
	s[row][unit] = append(s[row][unit], figure)
}

// A row takes turns with others. A slice measures it once, and adds figures by their unit.
type row struct {
	name  string
	slice func(add func(unit string, figure float64))
}

const (
	leastRounds = 3                      // of a group, even when its time is up
	rest        = 200 * time.Millisecond // in which the program idles, to see what other programs use
)

// play measures rows in short slices until their time is up, and adds the figures to all. Each round draws a new order of the
// rows. So a busy machine disturbs all rows alike, and their ratios hold where their times do not. A group of rounds gives one
// figure of each unit for each row, and the spread is between groups. The figure of a processor's time is the 10th percentile;
// all others are medians.
func (s *settings) play(ctx context.Context, what string, all samples, rows []row, long time.Duration) {
	began := time.Now()
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
}

// A load is a number of callers. Each makes one call at a time: at once after the last, or one in each interval.
type load struct {
	callers  int
	every    time.Duration
	together int // callers that begin at once
	long     time.Duration
	ask      func(caller, call int) error
	used     func() map[string]float64 // by unit: the processors' nanoseconds that other processes have spent on the load so far
}

// mostNoted limits the calls whose duration a caller notes.
const mostNoted = 1 << 16

// slice runs the callers and adds the cost of a call: on the wall, on the processors by this process, and by others. The first
// sixth of the time does not count. A slice lasts until a call has counted; calls that end later do not count, because a
// caller that the scheduler has put aside for the others would make the slice long, and its call the longest.
func (l *load) slice(add func(unit string, figure float64)) {
	runtime.GC() // the garbage of earlier slices
	type caller struct {
		took []float64
		n    float64
		err  error
		_    [64]byte // keeps the next caller's fields on another cache line
	}
	var counting, ended, answered atomic.Bool
	callers := make([]caller, l.callers)
	var group sync.WaitGroup
	for i := range callers {
		c := &callers[i]
		c.took = make([]float64, 0, mostNoted)
		group.Go(func() {
			last := time.Now()
			next := last.Add(l.every * time.Duration(i-i%max(1, l.together)) / time.Duration(l.callers))
			for call := 0; !ended.Load(); call++ {
				if l.every > 0 {
					time.Sleep(time.Until(next))
					next, last = next.Add(l.every), time.Now()
				}
				if c.err = l.ask(i, call); c.err != nil {
					answered.Store(true)
					return
				}
				now := time.Now()
				if counting.Load() && !ended.Load() {
					if c.n++; c.n == 1 {
						answered.Store(true)
					}
					if len(c.took) < mostNoted {
						c.took = append(c.took, float64(now.Sub(last)))
					}
				}
				last = now
			}
		})
	}
	usage := func() map[string]float64 {
		used := l.used()
		used["client"] = float64(processorTime())
		return used
	}
	time.Sleep(l.long / 6)
	before, began := usage(), time.Now()
	counting.Store(true)
	for time.Sleep(l.long); !answered.Load(); time.Sleep(l.long) {
	}
	ended.Store(true)
	wall, after := time.Since(began), usage()
	group.Wait()
	var took []float64
	n := 0.0
	for _, c := range callers {
		check(c.err)
		took, n = append(took, c.took...), n+c.n
	}
	add("rate", 1e9*n/float64(wall))
	add("p50", quantile(took, 0.5))
	add("p99", quantile(took, 0.99))
	for unit := range after {
		add(unit, (after[unit]-before[unit])/n)
	}
}

// quantile interpolates the quantile of all figures; it is NaN for no figures.
func quantile(all []float64, part float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(all))
	low, rest := math.Modf(part * float64(len(sorted)-1))
	at, next := sorted[int(low)], sorted[min(int(low)+1, len(sorted)-1)]
	return at + rest*(next-at)
}
