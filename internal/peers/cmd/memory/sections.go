// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/peers/markdown"
	"github.com/tallystick/tallystick/internal/peers/memory"
)

// A plan says how much is measured.
type plan struct {
	loads      []load
	probes     int
	busy       []load // where new tallies are mistaken for others
	looks      int
	sizes      []int // of the memories that are flooded
	victims    int
	strangers  int
	goroutines []int
	quota      int
	live       []int // tallies of which decisions are made
	each       time.Duration
	times      int
}

// A load is a memory made for a number of tallies, and how many it is given.
type load struct{ tallies, live int }

func thorough() plan {
	const std, large, huge = limiter.DefaultClients, 1 << 20, 1 << 24
	return plan{
		loads: []load{
			{std, 1000}, {std, 10_000}, {std, std / 2}, {std, std}, {std, 100_000}, {std, 200_000}, {std, 1_000_000}, {std, 10_000_000},
			{large, 100_000}, {large, large}, {large, 2_000_000}, {large, 10_000_000},
			{huge, 10_000_000}, {huge, huge},
		},
		probes:     1_000_000,
		busy:       []load{{std, std}, {std, 1_000_000}, {huge, 10_000_000}},
		looks:      1_000_000_000,
		sizes:      []int{std, large},
		victims:    1000,
		strangers:  1_000_000,
		goroutines: []int{1, 2, 8, 64},
		quota:      100_000,
		live:       []int{1, 1000, 65_536, 1_000_000},
		each:       300 * time.Millisecond,
		times:      7,
	}
}

func hasty() plan {
	return plan{
		loads:      []load{{1000, 1000}, {1000, 2000}, {1000, 10_000}},
		probes:     10_000,
		busy:       []load{{1000, 3000}},
		looks:      1_000_000,
		sizes:      []int{1000},
		victims:    100, // so few that all find room
		strangers:  100_000,
		goroutines: []int{1, 2, 8},
		quota:      1000,
		live:       []int{1, 1000},
		each:       10 * time.Millisecond,
		times:      3,
	}
}

func room(p plan) string {
	b := markdown.New("Room for new tallies",
		"A memory made for so many tallies holds so many live ones: how many of the new ones that come next begin with a count that is not theirs, because more tallies have come to their set than it has cells. σ is by how much trials of this size stray from the formula.",
		"made for", "live", "new", "begin late", "measured", "formula", "± σ")
	for _, l := range p.loads {
		r := memory.MeasureRoom(l.tallies, l.live, p.probes)
		b.Row(count(r.Tallies), count(r.Live), count(r.Probes), count(r.Refused),
			probability(r.Measured()), probability(r.Predicted()), probability(r.Sigma()))
	}
	return b.String()
}

func mistaken(p plan) string {
	b := markdown.New("New tallies taken for others",
		"How many of the new tallies that are looked up find a count that is not theirs, by the chance of an equal tag.",
		"made for", "live", "looks", "hits", "hits by the formula")
	for _, l := range p.busy {
		m := memory.MeasureMistaken(l.tallies, l.live, p.looks)
		b.Row(count(m.Tallies), count(m.Live), count(m.Looks), count(m.Hits), fmt.Sprintf("%.2g", m.Expected))
	}
	return b.String()
}

func flood(p plan) string {
	b := markdown.New("Strangers against victims",
		"Counts of the victims, half of them at their quota, after each of the strangers asked once, in parallel.",
		"made for", "victims", "strangers", "lowered", "raised", "admitted again")
	for _, n := range p.sizes {
		f := memory.MeasureFlood(n, p.victims, p.strangers)
		b.Row(count(f.Tallies), count(f.Victims), count(f.Strangers), count(f.Lowered), count(f.Raised), count(f.Freed))
	}
	return b.String()
}

func parallel(p plan) string {
	b := markdown.New("One tally in parallel",
		"Requests of one tally that showed stale counts, from many goroutines at once.",
		"goroutines", "requests", "quota", "admitted")
	for _, n := range p.goroutines {
		r := memory.MeasureParallel(n, p.quota)
		b.Row(count(r.Goroutines), count(r.Requests), count(r.Quota), count(r.Admitted))
	}
	return b.String()
}

func scaling(p plan) string {
	b := markdown.New("Decisions on several processors",
		"Time on the wall per decision (storeless.Memory.Take), median and spread; more than one processor pays where it falls.",
		"tallies", "processors", "ns", "against one")
	for _, n := range p.live {
		one := 0.0
		for _, s := range memory.MeasureScaling(n, p.each, p.times) {
			if s.Processors == 1 {
				one = s.Nanos.Center
			}
			b.Row(count(s.Live), count(s.Processors),
				fmt.Sprintf("%.0f %s", s.Nanos.Center, s.Nanos.PctRangeString()), fmt.Sprintf("%.2f", s.Nanos.Center/one))
		}
	}
	return b.String()
}

// count writes n with a space between thousands.
func count(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

func probability(p float64) string {
	switch {
	case p == 0:
		return "0"
	case p < 1e-30:
		return "< 1e-30"
	}
	return fmt.Sprintf("%.3g", p)
}
