// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"fmt"
	"io"
	"strings"
)

// Benchmark returns the name of what is measured of a counter, without "Benchmark".
func Benchmark(counter string, keys, callers int) string {
	return fmt.Sprintf("Counter/counter=%s/keys=%d/callers=%d", strings.ReplaceAll(counter, "/", ":"), keys, callers)
}

// Key returns the name of what is measured of a counter's keys.
func Key(counter string) string { return "CounterKey/counter=" + strings.ReplaceAll(counter, "/", ":") }

// A figure is one of a benchmark's.
type figure struct {
	value float64
	unit  string
}

// write writes a line as benchmarks do.
func write(out io.Writer, name string, n uint64, figures ...figure) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Benchmark%s\t%d", name, n)
	for _, f := range figures {
		fmt.Fprintf(&b, "\t%.4g %s", f.value, f.unit)
	}
	_, err := fmt.Fprintln(out, b.String())
	return err
}

func writeSample(out io.Writer, name string, s *sample) error {
	n := float64(s.n)
	figures := []figure{
		{float64(s.wall) / n, "ns/op"},
		{float64(s.quantile(0.5)), "p50-ns/op"},
		{float64(s.quantile(0.99)), "p99-ns/op"},
	}
	if s.client >= 0 {
		figures = append(figures, figure{float64(s.client) / n, "cpu-ns/op"})
	}
	if s.server >= 0 {
		figures = append(figures, figure{float64(s.server) / n, "server-cpu-ns/op"})
	}
	return write(out, name, s.n, figures...)
}

func writeSizes(out io.Writer, s *seated, keys int) error {
	var figures []figure
	for _, f := range []figure{{s.sizes.heap, "heap-B/key"}, {s.sizes.disk, "disk-B/key"}, {s.sizes.server, "server-B/key"}} {
		if f.value >= 0 || f.unit == "heap-B/key" {
			figures = append(figures, f)
		}
	}
	return write(out, Key(s.Name), uint64(keys), figures...)
}
