// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tallystick/tallystick/proof/pages"
)

// A table stands on a page. Rows that were not measured are left out.
type table struct {
	name, page, part, more string
	rows                   func() []string // names, or a text, a colon and a name
	columns                []string        // the head of the rows' texts, then columns as cell reads them
}

const quartiles = "In brackets the quartiles of the groups."

var tables = []table{
	{"summary", "README.md", "requests", "Time of one processor. " + quartiles, summed, []string{
		"a request", "Tallystick: ns@tallystick", "the floor: ns@floor", "httprate: ns@httprate", "throttled: ns@throttled", "ulule: ns@ulule",
		"go-limiter: ns@go-limiter", "× the floor: ns/floor", "× httprate: ns/httprate"}},
	{"requests", "README.md", "requests", quartiles, names, []string{
		"limiter", "a request", "ns: ns", "× floor: ns/floor", "× httprate: ns/httprate", "bytes: bytes", "allocations: objects"}},
	{"memory", "README.md", "memory", "`tallystick` and `floor` have room for all clients from the start.", func() []string { return keepers }, []string{
		"limiter", "heap when new, MB: new", "and for each client, B: client"}},
	{"counters", "README.md", "counters", quartiles + " The numbers after a name count callers and keys. CPU is what one call takes.", underLoads, []string{
		"limiter", "calls/s: rate", "× redis_rate: rate/redis_rate", "p50, µs: p50", "p99, µs: p99", "client CPU, µs: client", "server CPU, µs: server",
		"× redis_rate, server CPU: server/redis_rate"}},
	{"fleet", "README.md", "fleet", quartiles + " The number after a name counts processes. CPU is what all of them take for one request.\n" +
		"The last column is what one client gets of a limit of 100, from one process where a name ends in waits.", func() []string { return inFleets(fleetSizes...) }, []string{
		"limiter", "CPU above `none`, µs: all-none", "of that Redis, µs: server", "p50, µs: p50", "p99, µs: p99", "a client gets: admitted"}},
	{"whole", "../../README.md", "fleet", "A whole request on a kept connection, 2,000 in a second, to one process of a real server.", func() []string { return inFleets(1) }, []string{
		"limiter", "p50, µs: p50", "p99, µs: p99", "CPU above `none`, µs: all-none"}},
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

// write writes the table after lines that name the machine and say how busy it was.
func (t *table) write(machine string, all samples) string {
	text, others := machine+".\n", all[""]["others"]
	if high := quantile(others, 0.75); high < 0.05 {
		text += fmt.Sprintf("The machine was quiet: others used at most %.0f %% of its processors.\n", 100*high)
	} else if quantile(others, 0.5) > 0 {
		text += median(others, "**The machine was busy: others used %.0f %% of its processors. Compare rows with each other; trust no time on the wall.**\n", 100)
	}
	var head []string
	var rows [][]string
	for _, c := range t.columns {
		name, _, _ := strings.Cut(c, ": ")
		head = append(head, name)
	}
	for _, row := range t.rows() {
		text, name := label(row)
		if all[name] == nil {
			continue
		}
		cells := []string{text}
		for _, c := range t.columns[1:] {
			cells = append(cells, all.cell(c, name))
		}
		rows = append(rows, cells)
	}
	return text + t.more + "\n\n" + pages.Markdown(head, false, rows)
}

// put returns a page with a new text in the place of the table.
func (t *table) put(page []byte, text string) ([]byte, error) {
	from, to, err := pages.Between(page, "<!-- made by: make bench; table: "+t.name+" -->", "<!-- end of what is made -->")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.page, err)
	}
	return slices.Concat(page[:from], []byte("\n"+text+"\n"), page[to:]), nil
}

// cell writes a cell. A column is a head, a colon and a unit as [samples.figures] reads it; a column without a unit has the
// request's text. Where the head says µs, nanoseconds become microseconds.
func (s samples) cell(column, row string) string {
	head, unit, found := strings.Cut(column, ": ")
	switch x := s.figures(unit, row); {
	case !found:
		return requestOf(row).text
	case strings.HasPrefix(row, none) && strings.ContainsAny(unit, "/-%"):
		return ""
	case strings.ContainsAny(unit, "/%"):
		return spread(x, "%.2f", 1)
	case strings.Contains(unit, "@"):
		return median(x, "%.0f ns", 1)
	case strings.Contains(unit, "-"):
		return spread(x, "%.1f", 1e-3)
	case strings.HasSuffix(head, "µs"):
		return median(x, "%.1f", 1e-3)
	case strings.HasSuffix(head, "MB"):
		return median(x, "%.2f", 1e-6)
	default:
		return median(x, "%.0f", 1)
	}
}

// figures returns the figures of a row in a unit, group by group. "ns/floor" divides them by another row's, "all-none" takes
// another row's away, "all%redis_rate" divides the excess over none by another row's excess, and "ns@floor" is another row's.
// Figures of one group were measured within moments of each other, so the machine's state is the same for all of them.
func (s samples) figures(unit, row string) (all []float64) {
	at := strings.IndexAny(unit, "/-%@")
	if at < 0 {
		return s[row][unit]
	}
	unit, other, op := unit[:at], s.like(row, unit[at+1:]), unit[at]
	x, y, zero := s[row][unit], s[other][unit], s[s.like(row, none)][unit]
	if op == '@' {
		return y
	}
	if len(x) != len(y) || op == '%' && len(x) != len(zero) {
		return nil
	}
	for g := range x {
		switch figure := x[g]; op {
		case '/':
			all = append(all, figure/y[g])
		case '-':
			all = append(all, figure-y[g])
		case '%':
			all = append(all, (figure-zero[g])/(y[g]-zero[g]))
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
	{"a fleet's time above none, over redis_rate's", "fleet", ourName + " 2", "all%redis_rate", 0.25},
}

// verdicts returns a table of the budgets whose figures were measured, or "" for none.
func verdicts(measured map[string]samples) string {
	var rows [][]string
	for _, b := range budgets {
		if x := measured[b.part].figures(b.unit, b.row); x != nil {
			kept := map[bool]string{true: "kept", false: "**not kept**"}[quantile(x, 0.5) <= b.most]
			rows = append(rows, []string{b.what, fmt.Sprintf("%.2f", b.most), spread(x, "%.2f", 1), kept})
		}
	}
	if rows == nil {
		return ""
	}
	return pages.Markdown([]string{"what", "budget", "measured", ""}, false, rows)
}
