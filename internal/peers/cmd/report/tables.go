// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strings"

	"golang.org/x/perf/benchmath"

	"github.com/tallystick/tallystick/internal/peers"
	"github.com/tallystick/tallystick/internal/peers/markdown"
)

const (
	rawTwoHMACs = "RawTwoHMACs"
	reference   = "httprate"
)

// render returns the whole report, or the part that was measured.
func render(r *results, head string) string {
	var parts []string
	if r.hasLimiters() {
		parts = append(parts, limiterTables(r, head))
	}
	for _, s := range sections {
		if text := s.write(r, head); text != "" && s.title != "" {
			parts = append(parts, "## "+s.title+"\n\n"+text)
		}
	}
	return strings.Join(parts, "\n")
}

func limiterTables(r *results, head string) string {
	raw, _ := r.summary(rawTwoHMACs, 1, r.seconds(1))
	sections := []string{
		fmt.Sprintf("# Measured beside its peers\n\n%s.\n"+
			"Raw, two HMAC-SHA256 over 180 bytes, is %s ns. In brackets: times raw, times %s in the same column.\n"+
			"± is the 95 %% confidence interval of the median, ∞ where there are too few samples.\n", head, nanos(raw), reference),
		budgetTable(r),
	}
	for _, cores := range []int{1, 2} {
		for _, workload := range []string{"Allowed", "Refused"} {
			if len(r.clients(workload+"/", cores)) > 0 {
				sections = append(sections, compareTable(r, workload, cores))
			}
		}
	}
	return strings.Join(append(sections, redisTable(r), heapTable(r), forgedTable(r), primitiveTable(r)), "\n")
}

// compareTable is one workload of every limiter.
func compareTable(r *results, workload string, cores int) string {
	unit, title, text := r.seconds(cores), "one core", "Processor time of this process in ns per request, garbage collection included."
	if unit == wall {
		text = "Time on the wall in ns per request."
	}
	if cores > 1 {
		title, text = fmt.Sprintf("%d cores", cores), fmt.Sprintf("Time on the wall in ns per request, with %d goroutines at work; raw is that of one core.", cores)
	}
	sizes := r.clients(workload+"/", cores)
	columns := []string{"limiter"}
	for _, n := range sizes {
		columns = append(columns, clientCount(n))
	}
	t := markdown.New(workload+", "+title, text, append(columns, "B/op", "allocs")...)
	for _, l := range r.values(workload, "limiter") {
		cells := []string{l}
		for _, n := range sizes {
			cells = append(cells, r.cell(workload, l, n, cores, unit))
		}
		first := request(workload, l, sizes[0])
		t.Row(append(cells, whole(r.median(first, cores, space)), whole(r.median(first, cores, allocs)))...)
	}
	return t.String()
}

// redisTable is what a round trip to another process costs.
func redisTable(r *results) string {
	t := markdown.New("Over Redis", "An allowed request on one core, in ns, and how many times dearer it is than "+peers.Ours+". The server runs on the same machine; its own processor time is not counted.",
		"clients", "wall", "times", "processor", "times")
	for _, n := range r.clients("Allowed/limiter=redis_rate/", 1) {
		cells := []string{clientCount(n)}
		for _, unit := range []string{wall, cpu} {
			s, _ := r.summary(request("Allowed", "redis_rate", n), 1, unit)
			cells = append(cells, nanos(s), ratio(s.Center/r.median(request("Allowed", peers.Ours, n), 1, unit)))
		}
		t.Row(cells...)
	}
	return t.String()
}

// cell is one figure of a limiter with its spread and its ratios.
func (r *results) cell(workload, limiter string, clients, cores int, unit string) string {
	s, ok := r.summary(request(workload, limiter, clients), cores, unit)
	if !ok {
		return unmeasured
	}
	raw := r.median(rawTwoHMACs, 1, unit)
	other := r.median(request(workload, reference, clients), cores, unit)
	return fmt.Sprintf("%s (%s, %s)", nanos(s), ratio(s.Center/raw), ratio(s.Center/other))
}

// request returns the name of a benchmark of requests.
func request(workload, limiter string, clients int) string {
	return fmt.Sprintf("%s/limiter=%s/clients=%d", workload, limiter, clients)
}

func heapTable(r *results) string {
	cores := r.heapCores()
	sizes := r.clients("Heap/", cores)
	columns := []string{"limiter", "when new, B"}
	for _, n := range sizes {
		columns = append(columns, "B/client at "+clientCount(n))
	}
	t := markdown.New("Heap", "Live bytes after three collections: of a new limiter, and what each client adds. A server elsewhere is counted after the +.", columns...)
	for _, l := range r.values("Heap", "limiter") {
		cells := []string{l, ""}
		for _, n := range sizes {
			name := request("Heap", l, n)
			if cells[1] == "" {
				cells[1] = whole(r.median(name, cores, fixed))
			}
			cell := bytesEach(r.median(name, cores, client))
			if s := r.median(name, cores, server); !math.IsNaN(s) {
				cell += " + " + bytesEach(s)
			}
			cells = append(cells, cell)
		}
		t.Row(cells...)
	}
	return t.String()
}

// heapCores returns on how many processors the heap was looked at: all.
func (r *results) heapCores() int {
	for _, id := range r.order {
		if strings.HasPrefix(id.name, "Heap/") {
			return id.cores
		}
	}
	return 1
}

func forgedTable(r *results) string {
	t := markdown.New("What is no token", "One allowed request on one core, showing this for a token. MACs are of 512 bytes: what it costs more than a request that shows nothing.",
		"shown", "ns", "tokens to look at", "more, in MACs", "B/op", "allocs")
	unit := r.seconds(1)
	nothing, mac := r.median("Forged/shows=nothing", 1, unit), r.median("MAC512", 1, unit)
	for _, v := range r.values("Forged", "shows") {
		name := "Forged/shows=" + v
		s, _ := r.summary(name, 1, unit)
		t.Row(v, nanos(s), whole(r.median(name, 1, tokens)), ratio((s.Center-nothing)/mac), whole(r.median(name, 1, space)), whole(r.median(name, 1, allocs)))
	}
	return t.String()
}

func primitiveTable(r *results) string {
	t := markdown.New("The scale", "One core.", "what", "ns", "times raw", "B/op", "allocs")
	unit := r.seconds(1)
	raw := r.median(rawTwoHMACs, 1, unit)
	names := []string{rawTwoHMACs, "MAC512"}
	for _, v := range r.values("Token", "part") {
		names = append(names, "Token/part="+v)
	}
	for _, name := range names {
		s, _ := r.summary(name, 1, unit)
		t.Row(name, nanos(s), ratio(s.Center/raw), whole(r.median(name, 1, space)), whole(r.median(name, 1, allocs)))
	}
	return t.String()
}

const unmeasured = "not measured"

// nanos writes a summary of seconds as nanoseconds with its spread.
func nanos(s benchmath.Summary) string {
	if math.IsNaN(s.Center) {
		return unmeasured
	}
	return fmt.Sprintf("%.0f ±%s", s.Center*1e9, s.PctRangeString())
}

func ratio(x float64) string {
	switch {
	case math.IsNaN(x):
		return "?"
	case x < 9.95:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

func whole(x float64) string {
	if math.IsNaN(x) {
		return unmeasured
	}
	return fmt.Sprintf("%.0f", x)
}

// bytesEach writes bytes per client. A few bytes in all, over many clients, are
// not a negative zero.
func bytesEach(x float64) string {
	if math.Abs(x) < 0.5 {
		x = 0
	}
	return whole(x)
}

func clientCount(n int) string {
	switch {
	case n == 1:
		return "1 client"
	case n%1_000_000 == 0:
		return fmt.Sprintf("%d M", n/1_000_000)
	case n%1000 == 0:
		return fmt.Sprintf("%d k", n/1000)
	}
	return fmt.Sprint(n)
}
