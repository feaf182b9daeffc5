// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Benchmark returns the name of what is measured of a player, without "Benchmark".
func Benchmark(kind, player string) string { return kind + "/player=" + player }

// write writes a line for each player of a group, one for the collector, and one for what
// others did on the machine meanwhile.
func (p *Plan) write(out io.Writer, group []record, others func() (float64, bool)) error {
	var b strings.Builder
	if share, ok := others(); ok {
		fmt.Fprintf(&b, "BenchmarkMeanwhile/of=%s\t1\t%.4g share\n", p.Kind, share)
	}
	means, perByte := means(group)
	for i, r := range group {
		n := len(r.slices) * p.Slice
		name := Benchmark(p.Kind, p.Players[i].Name)
		if c := p.Players[i].cores(); c > 1 {
			name += fmt.Sprintf("-%d", c)
		}
		var cpu, wall []time.Duration
		for _, s := range r.slices {
			cpu = append(cpu, s.cpu)
			wall = append(wall, s.wall)
		}
		each := func(t time.Duration) float64 { return float64(t) / float64(p.Slice) }
		fmt.Fprintf(&b, "Benchmark%s\t%d\t%.5g p10-cpu-ns/op\t%.5g cpu-ns/op\t%.5g p10-ns/op\t%.5g p50-ns/op\t%.0f B/op\t%.0f allocs/op\n",
			name, n, each(quantile(cpu, 0.1)), means[i]/float64(p.Slice), each(quantile(wall, 0.1)), each(quantile(wall, 0.5)),
			float64(r.bytes)/float64(p.Slice), float64(r.objects)/float64(p.Slice))
	}
	fmt.Fprintf(&b, "BenchmarkCollector/of=%s\t1\t%.4g gc-ns/op\n", p.Kind, perByte*1024)
	_, err := io.WriteString(out, b.String())
	return err
}

// means returns what a slice of each player takes, its share of collections included, in
// nanoseconds, and how much of that there is for each byte allocated.
func means(group []record) (all []float64, perByte float64) {
	var extra, bytes float64
	for _, r := range group {
		var clean, collected, n, b float64
		for _, s := range r.slices {
			b += float64(s.bytes)
			if s.collected {
				collected += float64(s.cpu)
				continue
			}
			clean += float64(s.cpu)
			n++
		}
		if n == 0 { // each of them was disturbed; what for cannot be told
			all = append(all, collected/float64(len(r.slices)))
			continue
		}
		all = append(all, clean/n)
		extra += collected - clean/n*(float64(len(r.slices))-n)
		bytes += b
	}
	if bytes == 0 {
		return all, 0
	}
	perByte = max(0, extra/bytes)
	for i, r := range group {
		clean := false
		var b float64
		for _, s := range r.slices {
			b += float64(s.bytes)
			clean = clean || !s.collected
		}
		if clean {
			all[i] += perByte * b / float64(len(r.slices))
		}
	}
	return all, perByte
}

// quantile returns the time that a part of all is below.
func quantile(all []time.Duration, part float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[int(part*float64(len(sorted)))]
}
