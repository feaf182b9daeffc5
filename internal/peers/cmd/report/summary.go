// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"

	"github.com/tallystick/tallystick/internal/peers"
	"github.com/tallystick/tallystick/internal/peers/markdown"
)

// rawOthers are the limiters of the table that has one for each, and what else they are called.
var rawOthers = []struct{ name, text string }{
	{"ulule", "limiter"}, {"tollbooth", "didip"}, {"go-limiter", "sethvargo"},
	{"throttled", ""}, {"x-time-map", "x/time/rate in a map, no fields"}, {"redis_rate", "Redis beside it"},
}

// limiterTable is a line for each of the other limiters, of processes of their own: what a whole run has,
// and no part of it. It has ratios alone: what ours and the reference take is measured better elsewhere on the
// page, perhaps on another machine, and no page should have two figures for one thing.
func limiterTable(r *results, head string) string {
	const million = 1_000_000
	if !r.hasLimiters() || !r.hasMillion() {
		return ""
	}
	t := markdown.New("", head+"; times "+reference+" in the same column.", "limiter", "allowed, 1 client", "allowed, a million", "refused, a million", "heap per client")
	unit := r.seconds(1)
	for _, l := range rawOthers {
		cells := []string{"`" + l.name + "`"}
		if l.text != "" {
			cells[0] += " (" + l.text + ")"
		}
		times := func(workload string, clients int) string {
			x := r.median(request(workload, l.name, clients), 1, unit) / r.median(request(workload, reference, clients), 1, unit)
			if math.IsNaN(x) {
				return dash(x, "")
			}
			return ratio(x)
		}
		cells = append(cells, times("Allowed", 1), times("Allowed", million), times("Refused", million))
		heap := r.median(request("Heap", l.name, million), r.heapCores(), client)
		cell := dash(heap, "%.0f B")
		if math.Abs(heap) < 0.5 {
			cell = "0 B" // and no negative zero
		}
		if !math.IsNaN(r.median(request("Heap", l.name, million), r.heapCores(), server)) {
			cell = "in Redis"
		}
		t.Row(append(cells, cell)...)
	}
	return t.String()
}

// hasMillion reports whether there were a million clients: a quick run has fewer.
func (r *results) hasMillion() bool {
	return !math.IsNaN(r.median(request("Allowed", reference, 1_000_000), 1, wall))
}

// summaryTable is what there is room for in the README.
func summaryTable(r *results, head string) string {
	clients := r.identities()
	if r.groups(peers.Known) == 0 || r.groups(peers.RoundTrip) == 0 || len(clients) == 0 {
		return ""
	}
	const other = "throttled"
	t := markdown.New("", head+"; time of one processor, the 10th percentile of slices.", "a request", "Tallystick", reference, other, "× "+reference)
	nanos := func(x triple) string { return x.nanos() + " ns" }
	row := func(text string, ours, h, throttled target) {
		t.Row(text, nanos(r.plain(tenth, ours)), nanos(r.plain(tenth, h)), nanos(r.plain(tenth, throttled)), r.times(tenth, ours, h).String())
	}
	known := func(name string) target { return player(peers.Known, name) }
	row("POST, allowed, one instance", known(peers.Ours+"-post"), known(reference), known(other))
	row("the same, a client that alternates between two", known(peers.Ours+"-hop"), known(reference), known(other))
	row("GET, allowed", known(peers.Ours+"-get"), known(reference), known(other))
	row("refused", known(peers.Ours+"-refused"), known(reference+"-refused"), known(other+"-refused"))
	t.Row("in a server of net/http, above none", dash(r.above(tenth, peers.Ours+"-post").median*1e9, "%.0f ns"),
		dash(r.above(tenth, reference).median*1e9, "%.0f ns"), dash(r.above(tenth, other).median*1e9, "%.0f ns"), r.aboves(tenth, peers.Ours+"-post", reference).String())
	most := clients[len(clients)-1]
	if cores := r.mostCores(); cores > 1 {
		ours, h, throttled := r.sharer(peers.Ours+"-post", most, cores), r.sharer(reference, most, cores), r.sharer(other, most, cores)
		t.Row(thousands(float64(most))+" clients, "+dash(float64(cores), "%.0f")+" processors, on the wall", nanos(r.plain(tenthWall, ours)), nanos(r.plain(tenthWall, h)),
			nanos(r.plain(tenthWall, throttled)), r.times(tenthWall, ours, h).String())
	}
	return t.String()
}

// mostCores is on how many processors shared limiters were measured at most.
func (r *results) mostCores() (most int) {
	for _, id := range r.order {
		if _, found := cutPlayer(id.name, peers.Identities); found {
			most = max(most, id.cores)
		}
	}
	return most
}
