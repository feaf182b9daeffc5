// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/tallystick/tallystick/internal/printed"
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
	{"cores", "README.md", []string{"crowd"}, coreTables},
	{"limiters", "README.md", []string{"crowd"}, limiterTable},
	{"wire", "README.md", []string{"wire"}, wireTable},
	{"counters", "README.md", []string{"counters"}, counterTable},
	{"summary", "../../README.md", []string{"requests", "served", "crowd"}, summaryTable},
	{"fleet", "../../README.md", []string{"fleet"}, fleetTable},
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
	from, to, err := printed.Between(page, begin, "<!-- end of what is made -->")
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
	return text + more + "\n\n" + printed.Markdown(head, false, rows)
}

// A cell of a column, which is its head, a colon, and what stands in it of each row: a unit as it is, or
// divided by another row's (p10/floor), or less that (p10-none), or how many times as much above none as
// another has (p10%floor); or text. Nanoseconds are written as microseconds where the head says µs.
func (s samples) cell(column, row string) string {
	head, unit, _ := strings.Cut(column, ": ")
	q := slices.IndexFunc(requests(), func(q request) bool { return q.name == row })
	if unit == "text" {
		return requests()[q].text
	}
	op, other := "", ""
	if at := strings.IndexAny(unit, "/-%"); at >= 0 {
		unit, op, other = unit[:at], unit[at:at+1], unit[at+1:]
		if q >= 0 && op == "/" {
			other += requests()[q].beside
		}
		if at := strings.IndexByte(row, ' '); at >= 0 { // of a fleet, with its size
			other += row[at:]
		}
	}
	format, factor := "%.0f", 1.0
	switch {
	case strings.HasSuffix(head, "µs"):
		format, factor = "%.1f", 1e-3
	case strings.HasSuffix(head, "MB"):
		format, factor = "%.2f", 1e-6
	}
	switch {
	case op == "":
		return s.plain(unit, row).write(format, factor)
	case op == "/":
		return s.times(unit, row, other).String()
	case row == other && op == "-" || row == none:
		return ""
	case op == "-":
		return s.above(unit, row, other).wide(format, factor)
	}
	return s.aboves(unit, row, none, other).String()
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
	return r.rows("requests", more, names(requests()), "a request: text", "p10, ns: p10", "× floor: p10/floor", "× httprate: p10/httprate", "× throttled: p10/throttled",
		"mean, ns: mean", "× floor, mean: mean/floor", "× httprate, mean: mean/httprate", "bytes: bytes", "allocations: objects")
}

func servedTable(r *results) string {
	return r.rows("served", quartiles, names(trips()), "p10, µs: p10", "above `none`, µs: p10-none", "× floor's: p10%floor", "× httprate's: p10%httprate",
		"× throttled's: p10%throttled", "mean, µs: mean", "above `none`, mean, µs: mean-none", "× httprate's, mean: mean%httprate", "whole, mean, × httprate: mean/httprate")
}

func coreTables(r *results) string {
	return coreTable(r, "one", "one client") + "\n" + coreTable(r, "crowd", "a million clients")
}

func coreTable(r *results, unit, clients string) string {
	return r.rows("crowd", fmt.Sprintf("Of %s. All are %d processors. %s", clients, runtime.NumCPU(), quartiles), crowded[:5],
		"processor time on one, ns: "+unit, "on all: "+unit+", all", "on the wall on one, ns: "+unit+", wall", "on all: "+unit+", all, wall",
		"× floor: "+unit+", all, wall/floor", "× httprate: "+unit+", all, wall/httprate", "× throttled: "+unit+", all, wall/throttled")
}

func limiterTable(r *results) string {
	return r.rows("crowd", "Times httprate in the same column. A million of `redis_rate` are 50,000, and its clients are in Redis.", crowded,
		"allowed, 1 client: one/httprate", "allowed, a million: crowd/httprate", "refused, a million: refused/httprate", "heap when new, MB: fixed heap", "heap per client, B: heap")
}

func fleetTable(r *results) string {
	var rows []string
	for _, size := range fleetSizes {
		for _, f := range fleets {
			rows = append(rows, inFleet(f.name, size))
		}
	}
	more := quartiles + " The number after a name is that of processes, and CPU that of all of them for one request.\nThe last column is what one client gets of a limit of 100."
	return r.rows("fleet", more, rows, "CPU, µs: all", "above `none`, µs: all-none", "of that Redis, µs: redis", "p50, µs: p50", "p99, µs: p99", "a client gets: admitted")
}

func wireTable(r *results) string {
	all := r.Kinds["wire"]
	var rows [][]string
	list := shapes()
	for _, s := range list[1 : len(list)-4] {
		row := []string{s.name}
		for v := 1; v <= 2; v++ {
			a, b := onWire(s.name, v), onWire(none, v)
			row = append(row, all.above("sent", a, b).write("%.0f", 1)+" + "+all.above("got", a, b).write("%.0f", 1), all.above("p50", a, b).wide("%.0f", 1))
		}
		rows = append(rows, row)
	}
	for _, where := range []string{"answer", "request"} {
		row := []string{"each 50 characters more of a token in the " + where}
		for v := 1; v <= 2; v++ {
			row = append(row, "", all.above("p50", onWire("long "+where, v), onWire("short "+where, v)).wide("%.0f", 50./padded))
		}
		rows = append(rows, row)
	}
	return r.made("wire", fmt.Sprintf("A bare request took %s ns over HTTP/1.1, %s over HTTP/2, both ends together. In brackets the quartiles of the groups, each with connections of its own.",
		all.plain("p50", onWire(none, 1)).write("%.0f", 1), all.plain("p50", onWire(none, 2)).write("%.0f", 1)),
		[]string{"what is sent", "bytes, HTTP/1.1", "ns", "bytes, HTTP/2", "ns"}, rows)
}

func counterTable(r *results) string {
	all := r.Kinds["counters"]
	three := func(name string, many bool, write func(load string) string) string {
		var parts []string
		for _, n := range callers {
			parts = append(parts, write(loadName(many, n)))
		}
		if strings.Join(parts, "") == "–––" {
			return "–"
		}
		return strings.Join(parts, " / ")
	}
	var rows [][]string
	for _, e := range engines {
		for _, many := range []bool{false, true} {
			if all[e.name] == nil {
				continue
			}
			figures := func(unit string, x func(spread) string) string {
				return three(e.name, many, func(load string) string { return x(all.plain(load+unit, e.name)) })
			}
			micros := func(x spread) string { return short(x.mid / 1e3) }
			widest := 0.0
			for _, n := range callers {
				x := all.plain(loadName(many, n)+"wall", e.name)
				widest = max(widest, (x.high-x.low)/2/x.mid)
			}
			row := []string{"`" + e.name + "`", "1", figures("wall", func(x spread) string { return short(1e6 / x.mid) }), fmt.Sprintf("%.0f %%", 100*widest),
				figures("p50", micros), figures("p99", micros), figures("client", micros), figures("server", micros)}
			if many {
				row[1] = "all"
				var sizes []string
				for _, place := range [][2]string{{"heap", "heap"}, {"disk", "disk"}, {"server heap", "server"}} {
					if x := all.plain(place[0], e.name).mid; x >= 5 { // less is what is there once
						sizes = append(sizes, short(x)+" "+place[1])
					}
				}
				row = append(row, strings.Join(sizes, ", "))
			}
			rows = append(rows, row)
		}
	}
	text := r.made("counters", fmt.Sprintf("Medians of the groups. On the disk an append of 128 bytes and its fsync took %s µs (p99 %s µs).\n"+
		"Three figures in a cell are for 1, 16 and 128 callers. ± is half of the widest distance of quartiles of calls.\n"+
		"Processor time is that of all threads, garbage collection included, for each call.",
		short(all.plain("disk", "").mid/1e3), short(all.plain("disk p99", "").mid/1e3)),
		[]string{"counter", "keys", "calls/s, thousands", "±", "p50, µs", "p99, µs", "client CPU, µs", "server CPU, µs", "bytes a key"}, rows) + "\n"
	for _, c := range comparisons {
		if all[c.ours] == nil || all[c.theirs] == nil {
			continue
		}
		var parts []string
		for _, q := range c.what {
			of := func(many bool) string {
				return three("", many, func(load string) string {
					a, b := c.ours, c.theirs
					if q[0] == "wall" {
						a, b = b, a // the inverse of calls
					}
					return all.times(load+q[0], a, b).write("%.2f", 1)
				})
			}
			parts = append(parts, of(false)+" and "+of(true)+" times "+q[1])
		}
		text += "- `" + c.ours + "` beside `" + c.theirs + "`" + c.why + ", on the hot key and on all: " + strings.Join(parts, "; ") + ".\n"
	}
	return text
}

var (
	callsOf  = [2]string{"wall", "the calls"}
	serverOf = [2]string{"server", "the server's processor time"}
	clientOf = [2]string{"client", "the client's processor time"}
)

// comparisons are of a counter of ours with what stands in its place without it.
var comparisons = []struct {
	ours, theirs, why string
	what              [][2]string // unit and name
}{
	{"file", "bbolt", "", [][2]string{callsOf}},
	{"file", "sqlite/grouped", "", [][2]string{callsOf}},
	{"sql/postgres", "pgx", "", [][2]string{callsOf, clientOf}},
	{"remote", "redis", " (the time of remote is that of both its sides)", [][2]string{callsOf, clientOf}},
	{"redis", "redis_rate", "", [][2]string{callsOf, serverOf, clientOf}},
	{"redis/ids", "redis_rate", " (each call with an ID, as the middleware makes them)", [][2]string{callsOf, serverOf, clientOf}},
}

// short writes two digits, or all before the point.
func short(x float64) string {
	switch {
	case math.IsNaN(x):
		return "–"
	case x < 0.995:
		return fmt.Sprintf("%.2f", x)
	case x < 9.95:
		return fmt.Sprintf("%.1f", x)
	}
	return printed.Figure(int64(math.Round(x)))
}

// summaryTable is what there is room for in the README.
func summaryTable(r *results) string {
	var rows [][]string
	for _, q := range []struct{ text, kind, unit, us, suffix string }{
		{"POST, allowed, one instance", "requests", "p10", ourName + "-post", ""},
		{"the same, a client that alternates between two", "requests", "p10", ourName + "-hop", ""},
		{"GET, allowed", "requests", "p10", ourName + "-get", ""},
		{"refused", "requests", "p10", ourName + "-refused", asRefused},
		{"in a server of net/http, above none", "served", "p10", ourName + "-post", ""},
		{fmt.Sprintf("a million clients, %d processors, on the wall", runtime.NumCPU()), "crowd", "crowd, all, wall", ourName, ""},
	} {
		all, row := r.Kinds[q.kind], []string{q.text}
		figure, ratio := all.plain, all.times
		if q.kind == "served" {
			figure = func(unit, name string) spread { return all.above(unit, name, none) }
			ratio = func(unit, a, b string) spread { return all.aboves(unit, a, none, b) }
		}
		for _, name := range []string{q.us, lowest + q.suffix, reference + q.suffix, "throttled" + q.suffix} {
			row = append(row, figure(q.unit, name).write("%.0f ns", 1))
		}
		rows = append(rows, append(row, ratio(q.unit, q.us, lowest+q.suffix).String(), ratio(q.unit, q.us, reference+q.suffix).String()))
	}
	return r.made("requests", "Time of one processor, the 10th percentile of slices.",
		[]string{"a request", "Tallystick", "the floor", "httprate", "throttled", "× the floor", "× httprate"}, rows)
}

// A budget is a ratio that the design allows. Whether it is kept is computed, and stands nowhere else.
var budgets = []struct {
	what, kind, unit, of, over string
	most                       float64
}{
	{"POST, over the floor's", "requests", "p10", ourName + "-post", lowest, 1.2},
	{"GET, over the floor's POST", "requests", "p10", ourName + "-get", lowest, 1.2},
	{"a client that hops, over the floor's", "requests", "p10", ourName + "-hop", lowest + "-hop", 1.4},
	{"refused, over the floor's", "requests", "p10", ourName + "-refused", lowest + "-refused", 1.2},
	{"two limits over one", "requests", "p10", ourName + "-two-limits", ourName + "-post", 1.15},
	{"IPv6 over IPv4", "requests", "p10", ourName + "-ipv6", ourName + "-post", 1.1},
	{"limits of its own over a key's", "requests", "p10", ourName + "-tenant", ourName + "-key", 1.2},
	{"a hundred policies over one", "requests", "p10", ourName + "-hundred", ourName + "-post", 1.15},
	{"two policies around a handler over one", "requests", "p10", ourName + "-stack-two", ourName + "-post", 2.2},
	{"four over one", "requests", "p10", ourName + "-stack-four", ourName + "-post", 4.5},
	{"bytes allocated for a long forgery, over none", "requests", "bytes", ourName + "-forged-long", ourName + "-no-token", 1.05},
	{"a million clients on all processors, on the wall, over the floor's", "crowd", "crowd, all, wall", ourName, lowest, 1.3},
	{"a whole request in a real server, over httprate's", "served", "mean", ourName + "-post", reference, 1.1},
	{"the server's time of `exact/redis` for a lone caller, over redis_rate's", "counters", "false 1 server", "redis", "redis_rate", 1},
}

func budgetTable(r *results) string {
	var rows [][]string
	add := func(what string, most float64, x spread) {
		if !math.IsNaN(x.mid) {
			rows = append(rows, []string{what, fmt.Sprintf("%.2f", most), x.String(), map[bool]string{true: "kept", false: "**not kept**"}[x.mid <= most]})
		}
	}
	for _, b := range budgets {
		add(b.what, b.most, r.Kinds[b.kind].times(b.unit, b.of, b.over))
	}
	add("the longest forgery, over none and a MAC of 512 bytes", 1, r.Kinds["requests"].over("p10", func(x []float64) float64 { return x[0] / (x[1] + x[2]) },
		ourName+"-forged-long", ourName+"-no-token", longMAC))
	add("a fleet's time above none, over redis_rate's", 0.1, r.Kinds["fleet"].aboves("all", inFleet(ourName, 2), inFleet(none, 2), inFleet("redis_rate", 2)))
	if rows == nil {
		return ""
	}
	return printed.Markdown([]string{"what", "budget", "measured", ""}, false, rows)
}
