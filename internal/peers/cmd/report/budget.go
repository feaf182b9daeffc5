// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/tallystick/tallystick/internal/peers"
	"github.com/tallystick/tallystick/internal/peers/markdown"
)

// A budget is a line of the design's section on budgets. Whether it is met is
// computed from what was measured and stands nowhere else.
type budget struct {
	what, limit string
	check       func(*results) finding
}

// A finding is what was measured of a budget: figures, each of which must be at
// most 1 in terms of the limit, and how they read.
type finding struct {
	measured string
	spent    []float64 // NaN: not measured
}

func (f finding) verdict() string {
	if len(f.spent) == 0 {
		return "not measured here"
	}
	verdict := "met"
	for _, x := range f.spent {
		switch {
		case math.IsNaN(x):
			return unmeasured
		case x > 1:
			verdict = "**not met**"
		}
	}
	return verdict
}

var budgets = []budget{
	{"verify + re-sign alone (`token`)", "at most 1.4 × raw, 1 allocation", func(r *results) finding {
		const name = "Token/part=verify+sign"
		f := r.timesRaw(1.4, name)
		n := r.median(name, 1, allocs)
		return finding{f.measured + ", " + whole(n) + " allocation", append(f.spent, n)}
	}},
	{"one allowed request, GET, one core", "at most 2.5 × raw", func(r *results) finding {
		return r.timesRaw(2.5, r.requests("Allowed", peers.Ours)...)
	}},
	{"the same, POST", "at most 2.5 × raw", func(r *results) finding {
		return r.timesRaw(2.5, r.requests("Allowed", peers.Ours+"-post")...)
	}},
	{"the same, GET, a million clients, two cores", "at most 0.6 × httprate on the wall", func(r *results) finding {
		const million = 1_000_000
		x := r.median(request("Allowed", peers.Ours, million), 2, wall) / r.median(request("Allowed", reference, million), 2, wall)
		return finding{ratio(x) + " ×", []float64{x / 0.6}}
	}},
	{"one refused request, no challenge", "at most 2 × raw", func(r *results) finding {
		return r.timesRaw(2, r.requests("Refused", peers.Ours)...)
	}},
	{"a forged or oversized token, over the same request without one", "at most one MAC of 512 bytes for each token looked at", forgedTime},
	{"the same, memory", "no allocation that grows with its size", forgedSpace},
	{"heap per client", "0 bytes", heapPerClient},
	{"against a limiter over Redis on the same machine", "at least 50 times cheaper on the wall, 25 times in processor time", againstRedis},
	{"challenge: issue / verify / refuse a forgery", "3 µs / 2 µs / 1 µs", func(*results) finding { return finding{} }},
	{"`exact/file`", "at least 2.5 times the calls of bbolt under the same group commit", fileBudget},
	{"`exact/redis`", "at most redis_rate's processor time of the server", redisBudget},
}

func budgetTable(r *results) string {
	t := markdown.New("Budgets", "Where a line has several figures they are for 1 client and then for more, and all of them must be within the budget.",
		"what", "budget", "measured", "verdict")
	for _, b := range budgets {
		f := b.check(r)
		t.Row(b.what, b.limit, f.measured, f.verdict())
	}
	return t.String()
}

// timesRaw compares runs on one core with raw.
func (r *results) timesRaw(limit float64, names ...string) finding {
	f := finding{spent: []float64{math.NaN()}, measured: unmeasured}
	unit := r.seconds(1)
	var texts []string
	for i, name := range names {
		if i == 0 {
			f.spent = nil
		}
		x := r.median(name, 1, unit) / r.median(rawTwoHMACs, 1, unit)
		f.spent = append(f.spent, x/limit)
		texts = append(texts, ratio(x))
	}
	if texts != nil {
		f.measured = strings.Join(texts, " / ") + " × raw"
	}
	return f
}

// requests returns the benchmarks of a limiter, from few clients to many.
func (r *results) requests(workload, limiter string) (names []string) {
	for _, n := range r.clients(workload+"/limiter="+limiter+"/", 1) {
		names = append(names, request(workload, limiter, n))
	}
	return names
}

// forgedTime looks for the dearest forgery by what it costs more than nothing,
// for each token to look at. Cookies that show none are another matter.
func forgedTime(r *results) finding {
	unit := r.seconds(1)
	nothing, mac := r.median("Forged/shows=nothing", 1, unit), r.median("MAC512", 1, unit)
	var worst extreme
	for _, v := range r.values("Forged", "shows") {
		if n := r.median("Forged/shows="+v, 1, tokens); n > 0 {
			worst.note((r.median("Forged/shows="+v, 1, unit)-nothing)/mac/n, v)
		}
	}
	return finding{fmt.Sprintf("%s MACs at worst (%s)", ratio(worst.most()), worst.name), []float64{worst.most()}}
}

// forgedSpace compares bytes per request. Averages of whole runs may differ by
// a few.
func forgedSpace(r *results) finding {
	const slack = 64
	nothing := r.median("Forged/shows=nothing", 1, space)
	var worst extreme
	for _, v := range r.values("Forged", "shows") {
		if v != "nothing" {
			worst.note(r.median("Forged/shows="+v, 1, space)-nothing, v)
		}
	}
	return finding{fmt.Sprintf("%+.0f B at worst (%s)", worst.most(), worst.name), []float64{worst.most() / slack}}
}

// heapPerClient wants less than half a byte for each client, of whichever way to
// use the middleware: what is there once is divided by the clients, too.
func heapPerClient(r *results) finding {
	const half = 0.5
	var worst extreme
	most := 0
	for _, l := range r.values("Heap", "limiter") {
		if l != peers.Ours && !strings.HasPrefix(l, peers.Ours+"-") {
			continue
		}
		for _, n := range r.clients("Heap/limiter="+l+"/", r.heapCores()) {
			worst.note(math.Abs(r.median(request("Heap", l, n), r.heapCores(), client)), l)
			most = max(most, n)
		}
	}
	return finding{fmt.Sprintf("%.2g B at worst, up to %s clients", worst.most(), clientCount(most)), []float64{worst.most() / half}}
}

// againstRedis compares on one core, where both were measured.
func againstRedis(r *results) finding {
	var f finding
	var texts []string
	for _, c := range []struct {
		unit, text string
		least      float64
	}{{wall, "on the wall", 50}, {cpu, "in processor time", 25}} {
		var worst extreme // of our share of their time
		for _, n := range r.clients("Allowed/limiter=redis_rate/", 1) {
			worst.note(r.median(request("Allowed", peers.Ours, n), 1, c.unit)/r.median(request("Allowed", "redis_rate", n), 1, c.unit), "")
		}
		f.spent = append(f.spent, c.least*worst.most())
		texts = append(texts, ratio(1/worst.most())+" times "+c.text)
	}
	f.measured = "at least " + strings.Join(texts, ", ")
	return f
}

// An extreme is the largest of some figures, and which it is. The zero extreme
// has seen none.
type extreme struct {
	name  string
	x     float64
	noted bool
}

func (e *extreme) note(x float64, name string) {
	if !e.noted || x > e.x || math.IsNaN(x) {
		e.name, e.x, e.noted = name, x, true
	}
}

func (e *extreme) most() float64 {
	if !e.noted {
		return math.NaN()
	}
	return e.x
}
