// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/tallystick/tallystick/proof/pages"
)

// A table is one of a page, or of no page. It is "" where not all of its kinds were measured.
type table struct {
	name, page string
	kinds      []string
	text       func(r *results) string
}

var tables = []table{
	{"requests", "README.md", []string{"requests"}, requestTable},
	{"served", "README.md", []string{"served"}, servedTable},
	{"cores", "README.md", []string{"population"}, coreTables},
	{"limiters", "README.md", []string{"population"}, limiterTable},
	{"counters", "README.md", []string{"counters"}, counterTable},
	{"summary", "README.md", []string{"requests", "served", "population"}, summaryTable},
	{"fleet", "README.md", []string{"fleet"}, fleetTable},
	{"fleet in short", "README.md", []string{"fleet"}, shortFleetTable},
	{"budgets", "", nil, budgetTable},
}

func (t *table) write(r *results) string {
	if slices.ContainsFunc(t.kinds, func(kind string) bool { return r.Kinds[kind] == nil }) {
		return ""
	}
	return t.text(r)
}

// put returns a page with another text of the table.
func (t *table) put(page []byte, text string) ([]byte, error) {
	begin := "<!-- made by: go run . -only " + strings.Join(t.kinds, ",") + " -update; table: " + t.name + " -->"
	from, to, err := pages.Between(page, begin, "<!-- end of what is made -->")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.page, err)
	}
	return slices.Concat(page[:from], []byte("\n"+text+"\n"), page[to:]), nil
}

// made writes the head of a table, which says on which machine and how busy it was, and its rows.
func (r *results) made(kind, more string, head []string, rows [][]string) string {
	text, others := r.Head+".\n", r.Kinds[kind].plain("others", "")
	if others.high < 0.05 {
		text += fmt.Sprintf("The machine was quiet: others used at most %.0f %% of its processors.\n", 100*others.high)
	} else if others.mid > 0 {
		text += fmt.Sprintf("**The machine was busy: others used %.0f %% of its processors. Compare rows with each other; trust no time on the wall.**\n", 100*others.mid)
	}
	for i, row := range rows {
		rows[i] = append(row, slices.Repeat([]string{""}, len(head)-len(row))...)
	}
	return text + more + "\n\n" + pages.Markdown(head, false, rows)
}

// figure returns a figure of a row: a unit as it is, or divided by another row's (p10/floor), or less that
// (p10-none), or how many times as much above none as another has (p10%floor). What a row is compared with
// ends as it does: in the kind of a request, or in a number.
func (s samples) figure(unit, row string) spread {
	at, end := strings.IndexAny(unit, "/-%"), ""
	if at < 0 {
		return s.plain(unit, row)
	}
	if number := strings.LastIndexByte(row, ' '); number >= 0 {
		end = row[number:]
	}
	op, other := unit[at], unit[at+1:]
	if unit = unit[:at]; op == '-' {
		return s.over(unit, func(x []float64) float64 { return x[0] - x[1] }, row, other+end)
	} else if op == '%' {
		return s.over(unit, func(x []float64) float64 { return (x[0] - x[1]) / (x[2] - x[1]) }, row, none+end, other+end)
	}
	return s.over(unit, func(x []float64) float64 { return x[0] / x[1] }, row, other+end+byName()[row].beside)
}

// byName returns the request of a name.
var byName = sync.OnceValue(func() map[string]request {
	all := make(map[string]request)
	for _, q := range requests() {
		all[q.name] = q
	}
	return all
})

// cell writes a figure in a column, which is its head, a colon, and the figure; without one it is a text.
// Nanoseconds are written as microseconds where the head says µs.
func (s samples) cell(column, row string) string {
	head, unit, found := strings.Cut(column, ": ")
	if !found {
		return byName()[row].text
	}
	x := s.figure(unit, row)
	switch {
	case strings.ContainsAny(unit, "/%") && row != none:
		return x.wide("%.2f", 1)
	case strings.Contains(unit, "-") && x.mid != 0:
		return x.wide("%.1f", 1e-3)
	case strings.ContainsAny(unit, "-/%"):
		return ""
	case strings.HasSuffix(head, "µs"):
		return x.write("%.1f", 1e-3)
	case strings.HasSuffix(head, "MB"):
		return x.write("%.2f", 1e-6)
	}
	return x.write("%.0f", 1)
}

const quartiles = "In brackets the quartiles of the groups."

// rows writes a table of those rows of a kind that were measured.
func (r *results) rows(kind, more string, names []string, columns ...string) string {
	all, head, rows := r.Kinds[kind], []string{"limiter"}, [][]string(nil)
	for _, c := range columns {
		name, _, _ := strings.Cut(c, ": ")
		head = append(head, name)
	}
	for _, name := range names {
		if all[name] == nil {
			continue
		}
		row := []string{"`" + name + "`"}
		for _, c := range columns {
			row = append(row, all.cell(c, name))
		}
		rows = append(rows, row)
	}
	return r.made(kind, more, head, rows)
}

func names(all []request) (names []string) {
	for _, q := range all {
		names = append(names, q.name)
	}
	return names
}

func requestTable(r *results) string {
	all := r.Kinds["requests"]
	more := fmt.Sprintf("%s One MAC over a token of ours took %s ns, and collecting a KiB that was allocated %s ns.", quartiles,
		all.plain("p10", ownMAC).write("%.0f", 1), all.plain("ns/KiB", "").write("%.0f", 1))
	return r.rows("requests", more, names(requests()), "a request", "p10, ns: p10", "× floor: p10/floor", "× httprate: p10/httprate", "× throttled: p10/throttled",
		"mean, ns: mean", "× floor, mean: mean/floor", "× httprate, mean: mean/httprate", "bytes: bytes", "allocations: objects")
}

func servedTable(r *results) string {
	return r.rows("served", quartiles, names(trips()), "p10, µs: p10", "above `none`, µs: p10-none", "× floor's: p10%floor", "× httprate's: p10%httprate",
		"× throttled's: p10%throttled", "mean, µs: mean", "above `none`, mean, µs: mean-none", "× httprate's, mean: mean%httprate", "whole, mean, × httprate: mean/httprate")
}

func coreTables(r *results) string {
	return coreTable(r, "one", "one client") + "\n" + coreTable(r, "population", "a million clients")
}

func coreTable(r *results, unit, clients string) string {
	return r.rows("population", fmt.Sprintf("Of %s. All are %d processors. %s", clients, runtime.NumCPU(), quartiles), meeters[:5],
		"processor time on one, ns: "+unit, "on all: "+unit+", all", "on the wall on one, ns: "+unit+", wall", "on all: "+unit+", all, wall",
		"× floor: "+unit+", all, wall/floor", "× httprate: "+unit+", all, wall/httprate", "× throttled: "+unit+", all, wall/throttled")
}

func limiterTable(r *results) string {
	return r.rows("population", "Times httprate in the same column. `tallystick` and `floor` have room for a million from the start.\n"+
		"A million of `redis_rate` are 50,000, and its clients are in Redis.", meeters,
		"allowed, 1 client: one/httprate", "allowed, a million: population/httprate", "refused, a million: refused/httprate", "heap when new, MB: fixed heap", "heap per client, B: heap")
}

// inFleets names the rows of all fleets of some sizes.
func inFleets(sizes []int) (rows []string) {
	for _, size := range sizes {
		for _, f := range fleets {
			rows = append(rows, inFleet(f.name, size))
		}
	}
	return rows
}

const fleetHead = quartiles + " The number after a name is that of processes, and CPU that of all of them for one request.\nThe last column is what one client gets of a limit of 100."

func fleetTable(r *results) string {
	return r.rows("fleet", fleetHead, inFleets(fleetSizes), "CPU, µs: all", "above `none`, µs: all-none", "of that Redis, µs: server", "p50, µs: p50", "p99, µs: p99", "requests/s: rate", "a client gets: admitted")
}

// shortFleetTable is for the top of the page.
func shortFleetTable(r *results) string {
	return r.rows("fleet", fleetHead, inFleets(shortSizes), "CPU above `none`, µs: all-none", "p50, µs: p50", "p99, µs: p99", "a client gets: admitted")
}

// underLoads names the rows of all counters, each under all loads.
func underLoads() (rows []string) {
	for _, e := range engines {
		for _, keys := range keyCounts {
			for _, n := range callers {
				rows = append(rows, e.name+loadName(keys, n))
			}
		}
	}
	return rows
}

func counterTable(r *results) string {
	return r.rows("counters", quartiles+" The numbers after a name are those of callers and of keys, and CPU is that of one call.", underLoads(),
		"calls/s: rate", "× redis_rate: rate/redis_rate", "p50, µs: p50", "p99, µs: p99", "client CPU, µs: client", "server CPU, µs: server", "× redis_rate, server CPU: server/redis_rate")
}

// summaryTable answers most readers.
func summaryTable(r *results) string {
	var rows [][]string
	for _, q := range []struct{ text, kind, unit, over, us, end string }{
		{"POST, allowed, one instance", "requests", "p10", "p10/", ourName + "-post", ""},
		{"the same, a client that alternates between two", "requests", "p10", "p10/", ourName + "-hop", ""},
		{"GET, allowed", "requests", "p10", "p10/", ourName + "-get", ""},
		{"refused", "requests", "p10", "p10/", ourName + "-refused", asRefused},
		{"in a server of net/http, above none", "served", "p10-none", "p10%", ourName + "-post", ""},
		{fmt.Sprintf("a million clients, %d processors, on the wall", runtime.NumCPU()), "population", "population, all, wall", "population, all, wall/", ourName, ""},
	} {
		all, row := r.Kinds[q.kind], []string{q.text}
		for _, name := range []string{q.us, lowest + q.end, reference + q.end, "throttled" + q.end} {
			row = append(row, all.figure(q.unit, name).write("%.0f ns", 1))
		}
		rows = append(rows, append(row, all.figure(q.over+lowest, q.us).String(), all.figure(q.over+reference, q.us).String()))
	}
	return r.made("requests", "Time of one processor, the 10th percentile of slices. "+quartiles,
		[]string{"a request", "Tallystick", "the floor", "httprate", "throttled", "× the floor", "× httprate"}, rows)
}

// budgets are ratios that the design allows. Whether one is kept is computed, and stands nowhere else.
var budgets = []struct {
	what, kind, row, figure string
	most                    float64
}{
	{"POST, over the floor's", "requests", ourName + "-post", "p10/floor", 1.2},
	{"GET, over the floor's POST", "requests", ourName + "-get", "p10/floor", 1.2},
	{"a client that hops, over the floor's", "requests", ourName + "-hop", "p10/floor-hop", 1.4},
	{"refused, over the floor's", "requests", ourName + "-refused", "p10/floor", 1.2},
	{"two limits over one", "requests", ourName + "-two-limits", "p10/tallystick-post", 1.15},
	{"IPv6 over IPv4", "requests", ourName + "-ipv6", "p10/tallystick-post", 1.1},
	{"limits of its own over a key's", "requests", ourName + "-tenant", "p10/tallystick-key", 1.2},
	{"a hundred policies over one", "requests", ourName + "-hundred", "p10/tallystick-post", 1.15},
	{"two policies around a handler over one", "requests", ourName + "-stack-two", "p10/tallystick-post", 2.2},
	{"four over one", "requests", ourName + "-stack-four", "p10/tallystick-post", 4.5},
	{"bytes allocated for 600 KB of tokens, over none", "requests", ourName + "-huge-list", "bytes/tallystick-no-token", 1.05},
	{"a million clients on all processors, on the wall, over the floor's", "population", ourName, "population, all, wall/floor", 1.3},
	{"a whole request in a real server, over httprate's", "served", ourName + "-post", "mean/httprate", 1.1},
	{"the server's time of `exact/redis` for a lone caller, over redis_rate's", "counters", "redis 1×1", "server/redis_rate", 1},
	{"a fleet's time above none, over redis_rate's", "fleet", ourName + " 2", "all%redis_rate", 0.1},
}

func budgetTable(r *results) string {
	rows := [][]string(nil)
	add := func(what string, most float64, x spread) {
		if !math.IsNaN(x.mid) {
			rows = append(rows, []string{what, fmt.Sprintf("%.2f", most), x.String(), map[bool]string{true: "kept", false: "**not kept**"}[x.mid <= most]})
		}
	}
	for _, b := range budgets {
		add(b.what, b.most, r.Kinds[b.kind].figure(b.figure, b.row))
	}
	add("the longest forgery, over none and a MAC of 512 bytes", 1, r.Kinds["requests"].over("p10",
		func(x []float64) float64 { return x[0] / (x[1] + x[2]) }, ourName+"-forged-long", ourName+"-no-token", longMAC))
	if rows == nil {
		return ""
	}
	return pages.Markdown([]string{"what", "budget", "measured", ""}, false, rows)
}
