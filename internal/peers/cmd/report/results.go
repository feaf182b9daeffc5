// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
)

// The units of what is measured, as package benchfmt tidies them.
const (
	wall   = "sec/op"
	cpu    = "cpu-sec/op"
	space  = "B/op"
	allocs = "allocs/op"
	client = "B/client"
	server = "server-B/client"
	fixed  = "fixed-B"
	tokens = "tokens"
)

// A target is a benchmark on a number of processors.
type target struct {
	name  string // without "Benchmark" and "-2"
	cores int
}

// results are the samples of every run, by unit.
type results struct {
	samples map[target]map[string][]float64
	order   []target // of first appearance
}

// read parses what benchmarks print.
func read(r io.Reader) (*results, error) {
	all := &results{samples: make(map[target]map[string][]float64)}
	lines := benchfmt.NewReader(r, "benchmarks")
	for lines.Scan() {
		switch record := lines.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, record
		case *benchfmt.Result:
			if err := all.add(record); err != nil {
				return nil, err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(all.order) == 0 {
		return nil, fmt.Errorf("no benchmark was measured")
	}
	return all, nil
}

func (r *results) add(b *benchfmt.Result) error {
	id := target{cores: 1}
	base, parts := b.Name.Parts()
	var name strings.Builder
	name.Write(base)
	for _, p := range parts {
		if p[0] != '-' {
			name.Write(p)
			continue
		}
		n, err := strconv.Atoi(string(p[1:]))
		if err != nil {
			return fmt.Errorf("%s: %w", b.Name, err)
		}
		id.cores = n
	}
	id.name = name.String()
	units, known := r.samples[id]
	if !known {
		units = make(map[string][]float64)
		r.samples[id] = units
		r.order = append(r.order, id)
	}
	for _, v := range b.Values {
		units[v.Unit] = append(units[v.Unit], v.Value)
	}
	return nil
}

// summary returns the median of a run, with a 95 % confidence interval, and
// whether it was measured.
func (r *results) summary(name string, cores int, unit string) (benchmath.Summary, bool) {
	values := r.samples[target{name, cores}][unit]
	if len(values) == 0 {
		return benchmath.Summary{Center: math.NaN()}, false
	}
	sample := benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
	return benchmath.AssumeNothing.Summary(sample, 0.95), true
}

// median returns the median of a run, or NaN: whatever is computed of something
// that was not measured is not a number either.
func (r *results) median(name string, cores int, unit string) float64 {
	s, _ := r.summary(name, cores, unit)
	return s.Center
}

// seconds returns the unit for the time of requests on so many processors: on
// one, processor time, which is the same but for what others do to the machine;
// on two, what it takes on the wall.
func (r *results) seconds(cores int) string {
	if _, ok := r.summary(rawTwoHMACs, 1, cpu); ok && cores == 1 {
		return cpu
	}
	return wall
}

// clients returns how many clients there were in the runs on so many processors
// of benchmarks whose names begin like that, in ascending order.
func (r *results) clients(prefix string, cores int) (all []int) {
	for _, id := range r.order {
		if id.cores != cores || !strings.HasPrefix(id.name, prefix) {
			continue
		}
		_, size, found := strings.Cut(id.name, "/clients=")
		if n, err := strconv.Atoi(size); found && err == nil && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}

// values returns the values of a parameter in the order they were measured in.
func (r *results) values(benchmark, parameter string) (all []string) {
	for _, id := range r.order {
		rest, found := strings.CutPrefix(id.name, benchmark+"/"+parameter+"=")
		if v, _, _ := strings.Cut(rest, "/"); found && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}
