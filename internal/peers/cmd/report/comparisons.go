// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"
	"strings"

	"github.com/tallystick/tallystick/internal/peers"
	"github.com/tallystick/tallystick/internal/peers/counters"
)

// A comparison is of a counter of ours with what stands in its place without it.
type comparison struct {
	ours, theirs, why string
	what              []quotient
}

// A quotient is of a unit; a better one is above 1 for calls, and below for costs.
type quotient struct {
	unit, text string
	calls      bool // a second: the inverse of the time for each
}

var (
	callsPerSecond = quotient{wall, "the calls", true}
	serverTime     = quotient{serverCPU, "the server's processor time", false}
	clientTime     = quotient{cpu, "the client's processor time", false}
)

var comparisons = []comparison{
	{"file", "bbolt", "", []quotient{callsPerSecond}},
	{"file", "sqlite/grouped", "", []quotient{callsPerSecond}},
	{"sql/postgres", "pgx", "", []quotient{callsPerSecond, clientTime}},
	{"remote", "redis", "the time of remote is that of both its sides", []quotient{callsPerSecond, clientTime}},
	{"redis", redisRate, "", []quotient{callsPerSecond, serverTime, clientTime}},
	{"redis/ids", redisRate, "each call with an ID, as the middleware makes them", []quotient{callsPerSecond, serverTime, clientTime}},
}

const redisRate = "redis_rate"

// of returns our figure divided by theirs: the median of the rounds, and the least and the
// most of them. Both were measured within moments in each round, and what the machine does
// from round to round touches both.
func (q quotient) of(r *results, c comparison, keys, callers int) (median, least, most float64) {
	ours := r.samples[target{counters.Benchmark(c.ours, keys, callers), 1}][q.unit]
	theirs := r.samples[target{counters.Benchmark(c.theirs, keys, callers), 1}][q.unit]
	if len(ours) == 0 || len(ours) != len(theirs) {
		return math.NaN(), math.NaN(), math.NaN()
	}
	all := make([]float64, len(ours))
	for i := range all {
		all[i] = ours[i] / theirs[i]
		if q.calls {
			all[i] = 1 / all[i]
		}
	}
	slices.Sort(all)
	n := len(all)
	return (all[n/2] + all[(n-1)/2]) / 2, all[0], all[n-1]
}

// comparisons returns a line for each comparison of what was measured. Those with variants
// have the least and the most of all rounds: where 1 is between them, nothing was shown.
func (r *results) comparisons() (lines []string) {
	all := slices.Clone(comparisons)
	for _, name := range r.values("Counter", "counter") {
		if ours, _, found := strings.Cut(name, variantMark); found {
			all = append(all, comparison{ours, name, "in brackets the least and the most of the rounds", []quotient{callsPerSecond, clientTime}})
		}
	}
	for _, c := range all {
		var parts []string
		for _, q := range c.what {
			var cells []string
			for _, k := range r.keys() {
				if three := q.triple(r, c, k); three != "" {
					cells = append(cells, three)
				}
			}
			if cells != nil {
				parts = append(parts, strings.Join(cells, " and ")+" times "+q.text)
			}
		}
		if parts == nil {
			continue
		}
		line := "- `" + c.ours + "` beside `" + c.theirs + "`"
		if c.why != "" {
			line += " (" + c.why + ")"
		}
		lines = append(lines, line+", on the hot key and on all: "+strings.Join(parts, "; ")+".")
	}
	return lines
}

// triple writes a quotient for each number of callers, or nothing if one is missing.
func (q quotient) triple(r *results, c comparison, keys int) string {
	var three []string
	for _, n := range callers {
		x, least, most := q.of(r, c, keys, n)
		if math.IsNaN(x) {
			return ""
		}
		cell := ratio(x)
		if strings.Contains(c.theirs, variantMark) {
			cell += " (" + ratio(least) + "–" + ratio(most) + ")"
		}
		three = append(three, cell)
	}
	return strings.Join(three, " / ")
}

// redisBudget is for a lone caller, on the hot key and on many; many share trips.
func redisBudget(r *results) finding {
	f := finding{spent: []float64{math.NaN()}, measured: unmeasured}
	var worst extreme
	for _, k := range r.keys() {
		x, _, _ := serverTime.of(r, comparison{ours: "redis", theirs: redisRate}, k, 1)
		worst.note(x, "")
	}
	if worst.noted {
		f = finding{"at most " + ratio(worst.most()) + " × for a lone caller", []float64{worst.most()}}
	}
	return f
}

// hasCounters, hasLimiters and hasRequests say which parts of a report there are.
func (r *results) hasCounters() bool { return len(r.values("Counter", "counter")) > 0 }

func (r *results) hasLimiters() bool { return len(r.values("Allowed", "limiter")) > 0 }

func (r *results) hasRequests() bool {
	return r.groups(peers.Known)+r.groups(peers.RoundTrip)+r.groups(peers.Identities) > 0
}
