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
	"time"
)

// Settings come from the command line.
type settings struct {
	rows     *regexp.Regexp
	groups   int
	part     int // of what a slice has
	progress io.Writer
}

// wants reports whether a row is measured: those that others are compared with are always.
func (s *settings) wants(row string) bool {
	base := row[:strings.IndexAny(row+" ", "- ")]
	return s.rows == nil || s.rows.MatchString(row) || slices.Contains([]string{reference, lowest, none, redisRate}, base)
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
// up, and adds to all. What a busy machine does to one row it then does to all, and their ratios hold where their times do
// not. A group of rounds gives one figure of each unit for each row; between groups is the
// spread. Of times on a processor the figure is the 10th percentile, and else the median.
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

// A load is some callers, each with one call at a time: one after the other, or one every so often.
type load struct {
	callers int
	every   time.Duration
	long    time.Duration
	ask     func(caller, call int) error
	used    func() map[string]float64 // the nanoseconds of processors that other processes have spent on it so far, by unit
}

// mostNoted limits the calls for which a caller notes how long they took.
const mostNoted = 1 << 16

// slice has the callers ask, after a sixth of the time that does not count, and adds what a call
// took: on the wall, of the processors of this process, and of others. Each caller has at least one call that counts.
func (l *load) slice(add func(unit string, figure float64)) {
	runtime.GC() // of what came before
	type caller struct {
		took []float64
		n    float64
		err  error
		_    [64]byte // the next one's are on another line of the cache
	}
	usage := func() map[string]float64 {
		used := l.used()
		used["client"] = float64(processorTime())
		return used
	}
	callers, start := make([]caller, l.callers), time.Now()
	begin, end := start.Add(l.long/6), start.Add(l.long/6+l.long)
	var group sync.WaitGroup
	for i := range callers {
		c := &callers[i]
		c.took = make([]float64, 0, mostNoted)
		group.Go(func() {
			next := start.Add(l.every * time.Duration(i) / time.Duration(l.callers))
			for call, last := 0, start; c.n == 0 || next.Before(end); call++ {
				if l.every > 0 {
					time.Sleep(time.Until(next))
					last = time.Now()
				}
				if c.err = l.ask(i, call); c.err != nil {
					return
				}
				now := time.Now()
				if now.After(begin) {
					if c.n++; len(c.took) < mostNoted {
						c.took = append(c.took, float64(now.Sub(last)))
					}
				}
				if last = now; l.every > 0 {
					next = next.Add(l.every)
				} else {
					next = now
				}
			}
		})
	}
	time.Sleep(time.Until(begin))
	before := usage()
	group.Wait()
	wall, after := time.Since(begin), usage()
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

// figures returns those of a row, group by group: of a unit as they are, or divided by another row's (ns/floor), or less
// those (all-none), or how many times as much above none as another has (all%redis_rate), or another row's (ns@floor).
// All of a group were measured within moments of each other, and what the machine does from group to group touches all.
func (s samples) figures(unit, row string) (all []float64) {
	at := strings.IndexAny(unit, "/-%@")
	if at < 0 {
		return s[row][unit]
	}
	unit, other, op := unit[:at], s.like(row, unit[at+1:]), unit[at]
	x, y, zero := s[row][unit], s[other][unit], s[s.like(row, none)][unit]
	if op == '@' {
		return y
	}
	if len(x) != len(y) || op == '%' && len(x) != len(zero) {
		return nil
	}
	for g := range x {
		switch figure := x[g]; op {
		case '/':
			all = append(all, figure/y[g])
		case '-':
			all = append(all, figure-y[g])
		case '%':
			all = append(all, (figure-zero[g])/(y[g]-zero[g]))
		}
	}
	return all
}

// like returns the row of another that does what a row of ours does: it ends in the same, or else in the same number, or in
// the kind of the request.
func (s samples) like(row, other string) string {
	if same := other + strings.TrimPrefix(row, ourName); s[same] != nil {
		return same
	}
	if number := strings.LastIndexByte(row, ' '); number >= 0 {
		return other + row[number:]
	}
	return other + requestOf(row).beside
}

// quantile returns what a part of all is below, between two of them if need be; of none NaN.
func quantile(all []float64, part float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(all))
	low, rest := math.Modf(part * float64(len(sorted)-1))
	at, next := sorted[int(low)], sorted[min(int(low)+1, len(sorted)-1)]
	return at + rest*(next-at)
}

// median writes the median by a format, after a factor; – is none. What spread writes has the quartiles too.
func median(all []float64, format string, factor float64) string {
	if len(all) == 0 {
		return "–"
	}
	return fmt.Sprintf(format, quantile(all, 0.5)*factor)
}

func spread(all []float64, format string, factor float64) string {
	if len(all) == 0 {
		return "–"
	}
	return median(all, format, factor) + fmt.Sprintf(" ("+format+"–"+format+")", quantile(all, 0.25)*factor, quantile(all, 0.75)*factor)
}
