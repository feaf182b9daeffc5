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

// budgets are those of the design, in its words: ratios to httprate in the same run.
var budgets = []budget{
	{"an allowed POST through `ServeHTTP`, token by header, one instance", "at most 1.5 × httprate", func(r *results) finding {
		return r.timesPeer(1.5, peers.Ours+"-post", asAllowed)
	}},
	{"the same, a client that alternates between two instances", "at most 1.9 × httprate", func(r *results) finding {
		return r.timesPeer(1.9, peers.Ours+"-hop", asAllowed)
	}},
	{"the same, GET", "at most 1.7 × httprate", func(r *results) finding {
		return r.timesPeer(1.7, peers.Ours+"-get", asAllowed)
	}},
	{"refused, no challenge offered", "at most 1.4 × httprate", func(r *results) finding {
		return r.timesPeer(1.4, peers.Ours+"-refused", asRefused)
	}},
	{"a million clients, two processors, on the wall", "at most 0.8 × httprate", func(r *results) finding { return r.shared(0.8, 1_000_000) }},
	{"one client, two processors, on the wall", "at most 1.6 × httprate", func(r *results) finding { return r.shared(1.6, 1) }},
	{"in a real server, above the bare handler", "at most 1.6 × what httprate takes", func(r *results) finding {
		return limited(1.6, "p10", r.aboves(tenth, peers.Ours+"-post", reference), "mean", r.aboves(cpu, peers.Ours+"-post", reference))
	}},
	{"allocations of an allowed POST", "3, 600 B", func(r *results) finding {
		id := player(peers.Known, peers.Ours+"-post")
		n, bytes := math.Round(r.plain(allocs, id).median), math.Round(r.plain(space, id).median)
		return finding{dash(n, "%.0f") + ", " + dash(bytes, "%.0f B"), []float64{n / 3, bytes / 600}}
	}},
	{"a forged token that claims much", "at most the same request without one and a MAC of 512 bytes", forgedMuch},
	{"a forged or oversized token, over the same request without one", "at most one MAC of 512 bytes for each token looked at", forgedTime},
	{"the same, memory", "no allocation that grows with its size", forgedSpace},
	{"heap per client", "0 bytes", heapPerClient},
	{"challenge: issue / verify / refuse a forgery", "3 µs / 2 µs / 1 µs", func(*results) finding { return finding{} }},
	{"`exact/redis`", "at most redis_rate's processor time of the server", redisBudget},
}

// budgetTable has a line for each budget, or for those only that were measured.
func budgetTable(r *results, onlyMeasured bool) string {
	t := markdown.New("Budgets", "Where a line has several figures, all of them must be within the budget; in brackets is the range of the groups.",
		"what", "budget", "measured", "verdict")
	for _, b := range budgets {
		f := b.check(r)
		if verdict := f.verdict(); !onlyMeasured || strings.Contains(verdict, "met") {
			t.Row(b.what, b.limit, f.measured, verdict)
		}
	}
	return t.String()
}

// The peers' rows that budgets are compared with.
const (
	asAllowed = reference
	asRefused = reference + "-refused"
)

// limited judges figures, the 10th percentile and the one that hides less.
func limited(limit float64, oneName string, one triple, otherName string, other triple) finding {
	f := finding{unmeasured, []float64{one.median / limit, other.median / limit}}
	if !math.IsNaN(one.median) {
		f.measured = oneName + " " + one.String() + ", " + otherName + " " + other.String()
	}
	return f
}

// timesPeer compares requests of clients that the limiters know.
func (r *results) timesPeer(limit float64, ours, theirs string) finding {
	a, b := player(peers.Known, ours), player(peers.Known, theirs)
	return limited(limit, "p10", r.times(tenth, a, b), "mean", r.times(cpu, a, b))
}

// shared compares requests that two processors send at once.
func (r *results) shared(limit float64, clients int) finding {
	a, b := r.sharer(peers.Ours+"-post", clients, 2), r.sharer(reference, clients, 2)
	return limited(limit, "p10", r.times(tenthWall, a, b), "median", r.times(halfWall, a, b))
}

// forgedMuch compares a forged token that claims more than the memory knows with nothing and a
// MAC: with the longest one that a token can need, as the budget says, and with its own.
func forgedMuch(r *results) finding {
	forged, nothing := player(peers.Known, peers.Ours+"-forged-high"), player(peers.Known, peers.Ours+"-no-token")
	with := func(mac string) triple {
		return r.over(tenth, func(x []float64) float64 { return x[0] / (x[1] + x[2]) }, forged, nothing, player(peers.Known, mac))
	}
	long := with(peers.LongMAC)
	f := finding{unmeasured, []float64{long.median}}
	if !math.IsNaN(long.median) {
		f.measured = long.String() + " ×; with a MAC of its own length " + with(peers.MAC).String() + " ×"
	}
	return f
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
