// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/tallystick/tallystick/proof/pages"
)

// A table stands on a page. Rows that were not measured are left out.
type table struct {
	name, page, part, more string
	rows                   func() []string // names, or a text, a colon and a name
	columns                []string        // the head of the rows' texts, then columns as cell reads them
}

const (
	root      = "../.." // of the repository
	page      = "proof/bench/README.md"
	quartiles = "In brackets the quartiles of the groups."
)

var tables = []table{
	{"summary", page, "requests", "Time of one processor. " + quartiles, summed, []string{
		"a request", "Tallystick: ns@tallystick", "the floor: ns@floor", "httprate: ns@httprate", "throttled: ns@throttled", "ulule: ns@ulule",
		"go-limiter: ns@go-limiter", "× the floor: ns/floor", "× httprate: ns/httprate"}},
	{"requests", page, "requests", quartiles, names, []string{
		"limiter", "a request", "ns: ns", "× floor: ns/floor", "× httprate: ns/httprate", "bytes: bytes", "allocations: objects"}},
	{"memory", page, "memory", "`tallystick` and `floor` have room for all clients from the start.", func() []string { return keepers }, []string{
		"limiter", "heap when new, MB: new", "and for each client, B: client"}},
	{"counters", page, "counters", quartiles + " The numbers after a name count callers and keys. CPU is what one call takes.", underLoads, []string{
		"limiter", "calls/s: rate", "× redis_rate: rate/redis_rate", "p50, µs: p50", "p99, µs: p99", "client CPU, µs: client", "server CPU, µs: server",
		"× redis_rate, server CPU: server/redis_rate"}},
	{"fleet", page, "fleet", quartiles + " The number after a name counts processes. CPU is what all of them take for one request.\n" +
		"The last column is what one client gets of a limit of 100, from one process where a name ends in waits.", func() []string { return inFleets(fleetSizes...) }, []string{
		"limiter", "CPU above `none`, µs: above", "of that Redis, µs: server", "p50, µs: p50", "p99, µs: p99", "a client gets: admitted"}},
	{"whole", "README.md", "fleet", "A whole request on a kept connection, 2,000 in a second, to one process of a real server.", func() []string { return inFleets(1) }, []string{
		"limiter", "p50, µs: p50", "p99, µs: p99", "CPU above `none`, µs: above"}},
}

// summed are the rows that answer the questions of most readers.
func summed() []string {
	return []string{
		"POST, allowed, one instance: tallystick-post",
		"the same, a client that alternates between two: tallystick-hop",
		"refused: tallystick-refused",
		"a new client each time: tallystick-first",
		"50,000 clients in turn: tallystick-many",
	}
}

// label returns the first cell of a row, and the row's name.
func label(row string) (text, name string) {
	if text, name, found := strings.Cut(row, ": "); found {
		return text, name
	}
	return "`" + row + "`", row
}

// made returns the table, after lines that name the machine and say how busy it was.
func (t *table) made(machine string, all samples) pages.Made {
	made, others := pages.Made{Name: t.name, Page: t.page, By: "make bench", Lead: machine + ".\n"}, all[""]["others"]
	if high := quantile(others, 0.75); high < 0.05 {
		made.Lead += fmt.Sprintf("The machine was quiet: others used at most %.0f %% of its processors.\n", 100*high)
	} else if quantile(others, 0.5) > 0 {
		made.Lead += median(others, "**The machine was busy: others used %.0f %% of its processors. Compare rows with each other; trust no time on the wall.**\n", 100)
	}
	made.Lead += t.more
	for _, c := range t.columns {
		head, _, _ := strings.Cut(c, ": ")
		made.Head = append(made.Head, head)
	}
	for _, row := range t.rows() {
		text, name := label(row)
		if all[name] == nil {
			continue
		}
		made.Add(true, func() []any {
			cells := []any{text}
			for _, c := range t.columns[1:] {
				cells = append(cells, all.cell(c, name))
			}
			return cells
		})
	}
	return made
}

// cell writes a cell. A column is a head, a colon and a unit as [samples.figures] reads it; a column without a unit has the
// request's text. Where the head says µs, nanoseconds become microseconds.
func (s samples) cell(column, row string) string {
	head, unit, found := strings.Cut(column, ": ")
	switch x := s.figures(unit, row); {
	case !found:
		return requestOf(row).text
	case strings.HasPrefix(row, none) && unit == "above":
		return ""
	case strings.Contains(unit, "/"):
		return spread(x, "%.2f", 1)
	case strings.Contains(unit, "@"):
		return median(x, "%.0f ns", 1)
	case unit == "above":
		return spread(x, "%.1f", 1e-3)
	case strings.HasSuffix(head, "µs"):
		return median(x, "%.1f", 1e-3)
	case strings.HasSuffix(head, "MB"):
		return median(x, "%.2f", 1e-6)
	default:
		return median(x, "%.0f", 1)
	}
}

// figures returns the figures of a row in a unit, group by group. "ns@floor" is another row's, and "ns/floor" divides by them.
// Figures of one group were measured within moments of each other, so the machine's state is the same for all of them.
func (s samples) figures(unit, row string) (all []float64) {
	at := strings.IndexAny(unit, "/@")
	if at < 0 {
		return s[row][unit]
	}
	x, y := s[row][unit[:at]], s[s.like(row, unit[at+1:])][unit[:at]]
	if unit[at] == '@' {
		return y
	}
	for g := range x {
		if len(x) == len(y) {
			all = append(all, x[g]/y[g])
		}
	}
	return all
}

// like returns the row of another limiter that compares with a row: it has the same ending, or else the same number, or else
// the same kind of request.
func (s samples) like(row, other string) string {
	if same := other + strings.TrimPrefix(row, ourName); s[same] != nil {
		return same
	}
	if number := strings.LastIndexByte(row, ' '); number >= 0 {
		return other + row[number:]
	}
	return other + requestOf(row).beside
}

// median formats the median times a factor; – stands for no figures. The text of spread has the quartiles too.
func median(all []float64, format string, factor float64) string {
	if len(all) == 0 {
		return "–"
	}
	return fmt.Sprintf(format, quantile(all, 0.5)*factor)
}

func spread(all []float64, format string, factor float64) string {
	if len(all) == 0 {
		return "–"
	}
	return median(all, format, factor) + fmt.Sprintf(" ("+format+"–"+format+")", quantile(all, 0.25)*factor, quantile(all, 0.75)*factor)
}

// budgets are the ratios that the design allows. A run computes whether each is kept.
var budgets = []struct {
	what, part, row, unit string
	most                  float64
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
	{"a fleet's time above none, over redis_rate's", "fleet", ourName + " 2", "above/redis_rate", 0.25},
}

// verdicts returns a table of the budgets whose figures were measured.
func verdicts(measured map[string]samples) pages.Made {
	made := pages.Made{Name: "budgets", Head: []string{"what", "budget", "measured", ""}}
	for _, b := range budgets {
		if x := measured[b.part].figures(b.unit, b.row); x != nil {
			kept := map[bool]string{true: "kept", false: "**not kept**"}[quantile(x, 0.5) <= b.most]
			made.Add(true, func() []any { return []any{b.what, fmt.Sprintf("%.2f", b.most), spread(x, "%.2f", 1), kept} })
		}
	}
	return made
}
