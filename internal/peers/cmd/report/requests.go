// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/peers"
	"github.com/tallystick/tallystick/internal/peers/markdown"
	"github.com/tallystick/tallystick/internal/peers/turns"
)

// A part is what -only names.
type part struct {
	name  string
	share float64 // of the time of all
	run   func(ctx context.Context, r peers.Run, clients int) error
}

// requestParts are what is measured of requests.
var requestParts = []part{
	{"calls", 0.4, func(ctx context.Context, r peers.Run, _ int) error { return peers.MeasureRequests(ctx, r) }},
	{"served", 0.25, func(ctx context.Context, r peers.Run, _ int) error { return peers.MeasureRoundTrips(ctx, r) }},
	{"cores", 0.35, func(ctx context.Context, r peers.Run, clients int) error {
		r.For /= 2
		for _, n := range []int{1, clients} {
			if err := peers.MeasureIdentities(ctx, n, r); err != nil {
				return err
			}
		}
		return nil
	}},
}

// population is how many clients there are where there are many.
func (o options) population() int {
	if o.quick {
		return 10_000
	}
	return 1_000_000
}

// leastGroups is of how many groups a median is made at least.
const leastGroups = 5

// requestsSpan is for how long all requests are measured.
func (o options) requestsSpan() time.Duration {
	long := o.span
	if long == 0 {
		long = time.Minute
	}
	if o.quick {
		long = min(long, 12*time.Second)
	}
	return long
}

// measureRequests measures all that was asked for of requests.
func measureRequests(ctx context.Context, o options, out, progress io.Writer) error {
	rows, err := regexp.Compile(o.rows)
	if err != nil {
		return err
	}
	for _, p := range requestParts {
		if o.only != "" && o.only != "requests" && o.only != p.name {
			continue
		}
		r := peers.Run{Groups: max(leastGroups, o.count), For: o.requestsSpan(), Rows: rows, Part: o.part, Out: out, Progress: progress}
		if o.only != p.name {
			r.For = time.Duration(p.share * float64(r.For))
		}
		if err := p.run(ctx, r, o.population()); err != nil {
			return err
		}
	}
	return nil
}

// onlyRequests reports whether a part is one of requests, or all of them.
func onlyRequests(only string) bool {
	return only == "requests" || slices.ContainsFunc(requestParts, func(p part) bool { return p.name == only })
}

// cutPlayer returns the player of a benchmark's name.
func cutPlayer(name, kind string) (string, bool) {
	return strings.CutPrefix(name, turns.Benchmark(kind, ""))
}

// player returns what is measured of a player on one processor.
func player(kind, name string) target { return target{turns.Benchmark(kind, name), 1} }

// kindOf returns where a contestant is measured.
func kindOf(c peers.Contestant) string {
	if c.Meets() {
		return peers.First
	}
	return peers.Known
}

// requestTable is what one request of each contestant costs.
func requestTable(r *results, head string) string {
	mac := player(peers.Known, peers.MAC)
	text := []string{
		head + ".",
		r.meanwhile(peers.Known),
		fmt.Sprintf("In brackets the least and the most of the %d groups of slices. One MAC over a token of ours took %s ns,",
			r.groups(peers.Known), r.plain(tenth, mac).nanos()),
		"and collecting a KiB that was allocated " + r.plain(collecting, target{"Collector/of=" + peers.Known, 1}).nanos() + " ns.",
	}
	t := markdown.New("", strings.Join(text, "\n"), "limiter", "a request", "p10, ns", "× httprate", "× throttled", "mean, ns", "× httprate, mean", "bytes", "allocations")
	any := false
	for _, c := range peers.Contestants() {
		kind := kindOf(c)
		id := player(kind, c.Name)
		if r.samples[id] == nil {
			continue
		}
		any = true
		h, throttled := player(kind, reference+c.Beside), player(kind, "throttled"+c.Beside)
		t.Row("`"+c.Name+"`", c.Text, r.plain(tenth, id).nanos(), r.times(tenth, id, h).String(), r.times(tenth, id, throttled).String(),
			r.plain(cpu, id).nanos(), r.times(cpu, id, h).String(), dash(r.plain(space, id).median, "%.0f"), dash(r.plain(allocs, id).median, "%.0f"))
	}
	if !any {
		return ""
	}
	return t.String()
}

// collecting is the unit of what the collector takes for what was allocated.
const collecting = "gc-sec/op"
