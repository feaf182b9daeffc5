// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/peers/counters"
	"github.com/tallystick/tallystick/internal/peers/markdown"
)

// The units of what only counters have.
const (
	half       = "p50-sec/op"
	slowest    = "p99-sec/op"
	serverCPU  = "server-cpu-sec/op"
	heapEach   = "heap-B/key"
	diskEach   = "disk-B/key"
	serverEach = "server-B/key"
	share      = "share"
)

// callers are how many ask at once.
var callers = []int{1, 16, 128}

// measureCounters measures those that were asked for, for which there is a server.
func measureCounters(ctx context.Context, o options, redis bool, out, progress io.Writer) error {
	p := counters.Plan{Keys: o.keys, Callers: callers, Rounds: o.count, For: o.countersSpan(), Dir: o.dir}
	wanted, err := regexp.Compile(o.rows)
	if err != nil {
		return err
	}
	for _, c := range counters.All() {
		if wanted.MatchString(c.Name) && (redis || !c.Redis) {
			p.Counters = append(p.Counters, c)
		}
	}
	if len(p.Counters) == 0 {
		return fmt.Errorf("no counter is called %s", o.rows)
	}
	return counters.Measure(ctx, p, out, progress)
}

// countersSpan is for how long all counters are measured.
func (o options) countersSpan() time.Duration {
	long := o.span
	if long == 0 {
		long = 7 * time.Minute
	}
	if o.quick {
		long = min(long, 20*time.Second)
	}
	return long
}

// counterTable is all counters beside each other, and what there is to know to judge it.
func counterTable(r *results, head string) string {
	if !r.hasCounters() {
		return ""
	}
	text := []string{
		head + "; medians of " + whole(float64(r.rounds())) + " rounds. " + r.quiet(),
		r.disk(),
		"Three figures in a cell are for 1, 16 and 128 callers.",
		"± is the widest confidence interval (95 %) of the three medians of calls.",
		"Processor time is that of all threads, garbage collection included, for each call; " +
			"the loop that asks has " + micros(r.median("Asking", 1, cpu)) + " µs of the client's.",
	}
	t := markdown.New("", strings.Join(text, "\n"), "counter", "keys", "calls/s, thousands", "±",
		"p50, µs", "p99, µs", "client CPU, µs", "server CPU, µs", "bytes a key")
	for _, name := range r.values("Counter", "counter") {
		name = strings.ReplaceAll(name, ":", "/")
		for i, keys := range r.keys() {
			size := ""
			if i == len(r.keys())-1 {
				size = r.sizes(name)
			}
			t.Row("`"+name+"`", thousands(float64(keys)), r.triple(name, keys, wall, kiloPerSecond), r.spread(name, keys),
				r.triple(name, keys, half, micros), r.triple(name, keys, slowest, micros),
				r.triple(name, keys, cpu, micros), r.triple(name, keys, serverCPU, micros), size)
		}
	}
	return t.String() + "\n" + strings.Join(r.comparisons(), "\n") + "\n"
}

// rounds returns how many there were.
func (r *results) rounds() (most int) {
	for _, units := range r.samples {
		most = max(most, len(units[half]))
	}
	return most
}

// keys returns how many keys were asked, in ascending order.
func (r *results) keys() (all []int) {
	for _, name := range r.values("Counter", "counter") {
		for _, k := range r.values("Counter/counter="+name, "keys") {
			if n, err := strconv.Atoi(k); err == nil && !slices.Contains(all, n) {
				all = append(all, n)
			}
		}
	}
	slices.Sort(all)
	return all
}

// counter returns the median of a counter under a load.
func (r *results) counter(name string, keys, callers int, unit string) float64 {
	return r.median(counters.Benchmark(name, keys, callers), 1, unit)
}

// triple writes a figure for each number of callers, or – where there is none at all.
func (r *results) triple(name string, keys int, unit string, format func(float64) string) string {
	var cells []string
	measured := false
	for _, n := range callers {
		x := r.counter(name, keys, n, unit)
		measured = measured || !math.IsNaN(x)
		cells = append(cells, format(x))
	}
	if !measured {
		return "–"
	}
	return strings.Join(cells, " / ")
}

// spread returns the widest of the three.
func (r *results) spread(name string, keys int) string {
	widest := 0.0
	for _, n := range callers {
		s, _ := r.summary(counters.Benchmark(name, keys, n), 1, wall)
		widest = max(widest, s.Hi/s.Center-1, 1-s.Lo/s.Center) // infinite or NaN: too few rounds
	}
	if math.IsNaN(widest) || math.IsInf(widest, 0) {
		return "∞"
	}
	return fmt.Sprintf("%.0f %%", 100*widest)
}

func (r *results) sizes(name string) string {
	var all []string
	for _, place := range []struct{ unit, name string }{{heapEach, "heap"}, {diskEach, "disk"}, {serverEach, "server"}} {
		if x := r.median(counters.Key(name), 1, place.unit); x >= 5 { // less is what is there once
			all = append(all, thousands(x)+" "+place.name)
		}
	}
	if all == nil {
		return "–"
	}
	return strings.Join(all, ", ")
}

// busyFrom is from which share of the processors on a machine is called busy.
const busyFrom = 0.05

// quiet says what others did on the machine meanwhile.
func (r *results) quiet() string {
	x := r.median("Others", 1, share)
	worst := 0.0
	for _, v := range r.samples[target{"Others", 1}][share] {
		worst = max(worst, v)
	}
	switch {
	case math.IsNaN(x):
		return "What others did on the machine meanwhile cannot be told."
	case x < busyFrom:
		return fmt.Sprintf("The machine was quiet: in the pauses others used %.0f %% of its processors, once %.0f %%.", 100*x, 100*worst)
	}
	return fmt.Sprintf("**The machine was busy: others used %.0f %% of its processors in the pauses, once %.0f %%. Compare rows with each other, and trust none.**", 100*x, 100*worst)
}

// disk says what a write costs there, which no durable counter can do without.
func (r *results) disk() string {
	x, tail := r.median("Append", 1, wall), r.median("Append", 1, slowest)
	text := fmt.Sprintf("On the disk an append of 128 bytes and its fdatasync took %s µs (p99 %s µs).", micros(x), micros(tail))
	if x < 5e-6 {
		text += " **That is no disk: name a directory that is on one with -dir.**"
	}
	return text
}

func kiloPerSecond(secondsEach float64) string { return short(1e-3 / secondsEach) }

func micros(seconds float64) string { return short(1e6 * seconds) }

// short writes two digits, or all before the point.
func short(x float64) string {
	switch {
	case math.IsNaN(x):
		return "?"
	case x < 0.995:
		return fmt.Sprintf("%.2f", x)
	case x < 9.95:
		return fmt.Sprintf("%.1f", x)
	}
	return thousands(x)
}

// thousands writes a whole number with a comma before each thousand.
func thousands(x float64) string {
	s := fmt.Sprintf("%.0f", x)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
