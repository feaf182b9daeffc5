// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/tallystick/tallystick/proof/pages"
)

// A table is one of a page, or of no page. It is "" where its part was not measured.
type table struct {
	name, page, part string
	text             func(r *results) string
}

var tables = []table{
	{"summary", "README.md", "requests", summaryTable},
	{"requests", "README.md", "requests", func(r *results) string {
		return r.rows("requests", quartiles, names(requests()), "a request", "ns: ns", "× floor: ns/floor", "× httprate: ns/httprate", "bytes: bytes", "allocations: objects")
	}},
	{"memory", "README.md", "memory", func(r *results) string {
		return r.rows("memory", "`tallystick` and `floor` have room for all clients from the start.", keepers, "heap when new, MB: new", "and for each client, B: client")
	}},
	{"counters", "README.md", "counters", func(r *results) string {
		return r.rows("counters", quartiles+" The numbers after a name are those of callers and of keys, and CPU is that of one call.", underLoads(),
			"calls/s: rate", "× redis_rate: rate/redis_rate", "p50, µs: p50", "p99, µs: p99", "client CPU, µs: client", "server CPU, µs: server", "× redis_rate, server CPU: server/redis_rate")
	}},
	{"fleet", "README.md", "fleet", func(r *results) string {
		return r.rows("fleet", quartiles+" The number after a name is that of processes, and CPU that of all of them for one request.\nThe last column is what one client gets of a limit of 100.",
			inFleets(fleetSizes...), "CPU above `none`, µs: all-none", "of that Redis, µs: server", "p50, µs: p50", "p99, µs: p99", "a client gets: admitted")
	}},
	{"whole", "../../README.md", "fleet", func(r *results) string {
		return r.rows("fleet", "A whole request on a kept connection, 2,000 in a second, to one process of a real server.", inFleets(1), "p50, µs: p50", "p99, µs: p99", "CPU above `none`, µs: all-none")
	}},
	{"budgets", "", "", budgetTable},
}

func (t *table) write(r *results) string {
	if t.part != "" && r.parts[t.part] == nil {
		return ""
	}
	return t.text(r)
}

// put returns a page with another text of the table.
func (t *table) put(page []byte, text string) ([]byte, error) {
	from, to, err := pages.Between(page, "<!-- made by: make bench; table: "+t.name+" -->", "<!-- end of what is made -->")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.page, err)
	}
	return slices.Concat(page[:from], []byte("\n"+text+"\n"), page[to:]), nil
}

// made writes the head of a table, which says on which machine and how busy it was, and its rows.
func (r *results) made(part, more string, head []string, rows [][]string) string {
	text, others := r.head+".\n", r.parts[part].plain("others", "")
	if others.high < 0.05 {
		text += fmt.Sprintf("The machine was quiet: others used at most %.0f %% of its processors.\n", 100*others.high)
	} else if others.mid > 0 {
		text += fmt.Sprintf("**The machine was busy: others used %.0f %% of its processors. Compare rows with each other; trust no time on the wall.**\n", 100*others.mid)
	}
	return text + more + "\n\n" + pages.Markdown(head, false, rows)
}

// figure returns a figure of a row: a unit as it is, or divided by another row's (ns/floor), or less that
// (all-none), or how many times as much above none as another has (all%redis_rate).
func (s samples) figure(unit, row string) spread {
	at := strings.IndexAny(unit, "/-%")
	if at < 0 {
		return s.plain(unit, row)
	}
	op, other := unit[at], s.like(row, unit[at+1:])
	switch unit = unit[:at]; op {
	case '-':
		return s.over(unit, func(x []float64) float64 { return x[0] - x[1] }, row, other)
	case '%':
		return s.over(unit, func(x []float64) float64 { return (x[0] - x[1]) / (x[2] - x[1]) }, row, s.like(row, none), other)
	}
	return s.over(unit, func(x []float64) float64 { return x[0] / x[1] }, row, other)
}

// like returns the row of another that does what a row of ours does: it ends in the same, or else in the kind of the request, or
// in the same number.
func (s samples) like(row, other string) string {
	if same := other + strings.TrimPrefix(row, ourName); s[same] != nil {
		return same
	}
	if number := strings.LastIndexByte(row, ' '); number >= 0 {
		return other + row[number:]
	}
	return other + byName()[row].beside
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
	switch x := s.figure(unit, row); {
	case !found:
		return byName()[row].text
	case strings.HasPrefix(row, none) && strings.ContainsAny(unit, "/-%"):
		return ""
	case strings.ContainsAny(unit, "/%"):
		return x.String()
	case strings.Contains(unit, "-"):
		return x.wide("%.1f", 1e-3)
	case strings.HasSuffix(head, "µs"):
		return x.write("%.1f", 1e-3)
	case strings.HasSuffix(head, "MB"):
		return x.write("%.2f", 1e-6)
	default:
		return x.write("%.0f", 1)
	}
}

const quartiles = "In brackets the quartiles of the groups."

// rows writes a table of those rows of a part that were measured.
func (r *results) rows(part, more string, names []string, columns ...string) string {
	all, head, rows := r.parts[part], []string{"limiter"}, [][]string(nil)
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
	return r.made(part, more, head, rows)
}

func names(all []request) (names []string) {
	for _, q := range all {
		names = append(names, q.name)
	}
	return names
}

// summed are the rows of ours that the summary has.
var summed = []struct{ text, end string }{
	{"POST, allowed, one instance", "-post"},
	{"the same, a client that alternates between two", "-hop"},
	{"refused", asRefused},
	{"a new client each time", asFirst},
	{"50,000 clients in turn", asMany},
}

// summaryTable answers most readers.
func summaryTable(r *results) string {
	var rows [][]string
	all := r.parts["requests"]
	for _, q := range summed {
		us, row := ourName+q.end, []string{q.text}
		for _, name := range append([]string{us, lowest}, others...) {
			if name != us {
				name = all.like(us, name)
			}
			row = append(row, all.plain("ns", name).write("%.0f ns", 1))
		}
		rows = append(rows, append(row, all.figure("ns/floor", us).String(), all.figure("ns/httprate", us).String()))
	}
	return r.made("requests", "Time of one processor. "+quartiles, slices.Concat([]string{"a request", "Tallystick", "the floor"}, others, []string{"× the floor", "× httprate"}), rows)
}

// budgets are ratios that the design allows. Whether one is kept is computed, and stands nowhere else.
var budgets = []struct {
	what, part, row, figure string
	most                    float64
}{
	{"POST, over the floor's", "requests", ourName + "-post", "ns/floor", 1.6},
	{"a client that hops, over the floor's", "requests", ourName + "-hop", "ns/floor", 1.5},
	{"refused, over the floor's", "requests", ourName + asRefused, "ns/floor", 2},
	{"two policies around a handler over one", "requests", ourName + "-stack-two", "ns/tallystick-post", 2.1},
	{"four over one", "requests", ourName + "-stack-four", "ns/tallystick-post", 4.3},
	{"IPv6 over IPv4", "requests", ourName + "-ipv6", "ns/tallystick-post", 1.15},
	{"two limits over one", "requests", ourName + "-two-limits", "ns/tallystick-post", 1.1},
	{"limits of its own over a key's", "requests", ourName + "-tenant", "ns/tallystick-key", 1.1},
	{"a hundred policies over one", "requests", ourName + "-hundred", "ns/tallystick-post", 1.15},
	{"four forged tokens over an ordinary request", "requests", ourName + "-forged-four", "ns/tallystick-post", 20},
	{"bytes allocated for 600 KB of tokens, over none", "requests", ourName + "-huge-list", "bytes/tallystick-no-token", 1.05},
	{"the server's time of `exact/redis` for a lone caller, over redis_rate's", "counters", "redis 1×1", "server/redis_rate", 1},
	{"a fleet's time above none, over redis_rate's", "fleet", ourName + " 2", "all%redis_rate", 0.25},
}

func budgetTable(r *results) string {
	rows := [][]string(nil)
	for _, b := range budgets {
		if x := r.parts[b.part].figure(b.figure, b.row); !math.IsNaN(x.mid) {
			rows = append(rows, []string{b.what, fmt.Sprintf("%.2f", b.most), x.String(), map[bool]string{true: "kept", false: "**not kept**"}[x.mid <= b.most]})
		}
	}
	if rows == nil {
		return ""
	}
	return pages.Markdown([]string{"what", "budget", "measured", ""}, false, rows)
}
