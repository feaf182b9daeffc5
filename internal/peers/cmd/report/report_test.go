// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/peers"
)

// good is a run, in the words of go test, in which every budget is met.
var good = `goos: linux
goarch: amd64
pkg: github.com/tallystick/tallystick/internal/peers
cpu: Imaginary 9000
BenchmarkRawTwoHMACs	10	500 ns/op	400 cpu-ns/op	0 B/op	0 allocs/op
BenchmarkMAC512	10	450 ns/op	350 cpu-ns/op	0 B/op	0 allocs/op
BenchmarkToken/part=verify+sign	10	700 ns/op	540 cpu-ns/op	208 B/op	1 allocs/op
BenchmarkForged/shows=nothing	10	2000 ns/op	1000 cpu-ns/op	0 tokens	900 B/op	7 allocs/op
BenchmarkForged/shows=bad-mac-long-x4	10	2000 ns/op	2300 cpu-ns/op	4.000 tokens	901 B/op	7 allocs/op
BenchmarkForged/shows=cookies-many	10	2000 ns/op	90000 cpu-ns/op	0 tokens	900 B/op	7 allocs/op
BenchmarkAllowed/limiter=tallystick/clients=1	10	1000 ns/op	800 cpu-ns/op	224 B/op	2 allocs/op
BenchmarkAllowed/limiter=tallystick/clients=1000000	10	1100 ns/op	900 cpu-ns/op	224 B/op	2 allocs/op
BenchmarkAllowed/limiter=tallystick-post/clients=1	10	1000 ns/op	700 cpu-ns/op	224 B/op	2 allocs/op
BenchmarkAllowed/limiter=httprate/clients=1	10	900 ns/op	600 cpu-ns/op	192 B/op	11 allocs/op
BenchmarkAllowed/limiter=httprate/clients=1000000	10	900 ns/op	750 cpu-ns/op	192 B/op	11 allocs/op
BenchmarkAllowed/limiter=redis_rate/clients=1	10	90000 ns/op	40000 cpu-ns/op	192 B/op	11 allocs/op
BenchmarkAllowed/limiter=tallystick/clients=1000000-2	10	500 ns/op	900 cpu-ns/op	224 B/op	2 allocs/op
BenchmarkAllowed/limiter=httprate/clients=1000000-2	10	1000 ns/op	1900 cpu-ns/op	192 B/op	11 allocs/op
BenchmarkRefused/limiter=tallystick/clients=1	10	900 ns/op	700 cpu-ns/op	100 B/op	5 allocs/op
BenchmarkRefused/limiter=httprate/clients=1	10	900 ns/op	700 cpu-ns/op	100 B/op	5 allocs/op
BenchmarkHeap/limiter=tallystick/clients=1000000-2	1	-0.002 B/client	3166000 fixed-B
BenchmarkHeap/limiter=redis_rate/clients=1000000-2	1	1.2 B/client	3000 fixed-B	160.2 server-B/client
PASS
` + goodCounters

func parsed(t *testing.T, text string) *results {
	t.Helper()
	r, err := read(strings.NewReader(text))
	require.NoError(t, err)
	return r
}

func TestRead(t *testing.T) {
	r := parsed(t, good+strings.ReplaceAll(good, "400 cpu-ns/op", "600 cpu-ns/op"))
	require.InDelta(t, 500e-9, r.median(rawTwoHMACs, 1, cpu), 1e-12, "the median of both")
	require.InDelta(t, 1000e-9, r.median(request("Allowed", "httprate", 1_000_000), 2, wall), 1e-12)
	require.Equal(t, []int{1, 1_000_000}, r.clients("Allowed/", 1))
	require.Equal(t, []int{1_000_000}, r.clients("Allowed/", 2))
	require.Equal(t, []string{"nothing", "bad-mac-long-x4", "cookies-many"}, r.values("Forged", "shows"))
	_, ok := r.summary("RawTwoHMACs", 2, cpu)
	require.False(t, ok)

	_, err := read(strings.NewReader("PASS\n"))
	require.ErrorContains(t, err, "no benchmark was measured")
	_, err = read(strings.NewReader("BenchmarkX 1 much ns/op\n"))
	require.Error(t, err)
}

// A name that ended in a number behind a dash would be taken for a number of
// processors.
func TestNamesDoNotEndLikeProcessors(t *testing.T) {
	r := parsed(t, good)
	for _, id := range r.order {
		require.Contains(t, []int{1, 2}, id.cores, id.name)
	}
}

func TestTables(t *testing.T) {
	text := render(parsed(t, strings.Repeat(good, 6)), "Here")
	for _, line := range []string{
		"Here.\n",
		"Raw, two HMAC-SHA256 over 180 bytes, is 400 ±0% ns.",
		"| limiter | 1 client | 1 M | B/op | allocs |",
		"| tallystick | 800 ±0% (2.00, 1.33) | 900 ±0% (2.25, 1.20) | 224 | 2 |",
		"| httprate | 600 ±0% (1.50, 1.00) | 750 ±0% (1.87, 1.00) | 192 | 11 |",
		"| redis_rate | 40000 ±0% (100, 67) | not measured | 192 | 11 |",
		"## Allowed, 2 cores\n",
		"| limiter | 1 M | B/op | allocs |",
		"| tallystick | 500 ±0% (1.00, 0.50) | 224 | 2 |",
		"| tallystick | 3166000 | 0 |",
		"| redis_rate | 3000 | 1 + 160 |",
		"| 1 client | 90000 ±0% | 90 | 40000 ±0% | 50 |",
		"| bad-mac-long-x4 | 2300 ±0% | 4 | 3.71 | 901 | 7 |",
		"| Token/part=verify+sign | 540 ±0% | 1.35 | 208 | 1 |",
	} {
		require.Contains(t, text, line)
	}
	require.NotContains(t, text, "Refused, 2 cores", "nothing of it was measured")
}

func TestOneSampleHasNoSpread(t *testing.T) {
	require.Contains(t, render(parsed(t, good), "Here"), "is 400 ±∞ ns")
}

func TestWithoutProcessorTimeTheWallCounts(t *testing.T) {
	lines := strings.Split(good, "\n")
	for i, l := range lines {
		fields := strings.Split(l, "\t")
		lines[i] = strings.Join(slices.DeleteFunc(fields, func(f string) bool { return strings.HasSuffix(f, "cpu-ns/op") }), "\t")
	}
	text := render(parsed(t, strings.Join(lines, "\n")), "Here")
	require.Contains(t, text, "is 500 ±∞ ns")
	require.Contains(t, text, "Time on the wall in ns per request.")
}

func TestBudgetsAreMet(t *testing.T) {
	r := parsed(t, good)
	for _, b := range budgets {
		f := b.check(r)
		switch {
		case strings.HasPrefix(b.what, "challenge"):
			require.Equal(t, "not measured here", f.verdict())
		default:
			require.Equal(t, "met", f.verdict(), "%s: %s", b.what, f.measured)
		}
	}
	require.Equal(t, "0.93 MACs at worst (bad-mac-long-x4)", forgedTime(r).measured, "cookies that are no token do not count")
	require.Equal(t, "at least 90 times on the wall, 50 times in processor time", againstRedis(r).measured)
}

// Every verdict follows from the figures: one that is worse turns exactly the
// budgets it belongs to, and one that is missing leaves them open.
func TestBudgetsFollowTheFigures(t *testing.T) {
	for _, c := range []struct {
		was, is string
		turns   []int // budgets
	}{
		{"540 cpu-ns/op", "561 cpu-ns/op", []int{0}},
		{"208 B/op	1 allocs/op", "208 B/op	2 allocs/op", []int{0}},
		{"900 cpu-ns/op	224 B/op	2 allocs/op\nBenchmarkAllowed/limiter=tallystick-post", "1001 cpu-ns/op	224 B/op	2 allocs/op\nBenchmarkAllowed/limiter=tallystick-post", []int{1}},
		{"1000 ns/op	700 cpu-ns/op", "1000 ns/op	1001 cpu-ns/op", []int{2}},
		{"500 ns/op	900 cpu-ns/op", "601 ns/op	900 cpu-ns/op", []int{3}},
		{"700 cpu-ns/op	100 B/op", "801 cpu-ns/op	100 B/op", []int{4}},
		{"2300 cpu-ns/op", "2500 cpu-ns/op", []int{5}},
		{"901 B/op", "1000 B/op", []int{6}},
		{"-0.002 B/client", "-0.6 B/client", []int{7}},
		{"90000 ns/op	40000", "49000 ns/op	40000", []int{8}},
		{"90000 ns/op	40000", "90000 ns/op	19000", []int{8}},
		{"file/keys=10000/callers=16	10	10000 ns/op", "file/keys=10000/callers=16	10	10200 ns/op", []int{10}},
		{"redis/keys=1/callers=1	10	50000 ns/op	60000 p50-ns/op	90000 p99-ns/op	20000 cpu-ns/op	29000", "redis/keys=1/callers=1	10	50000 ns/op	60000 p50-ns/op	90000 p99-ns/op	20000 cpu-ns/op	30500", []int{11}},
	} {
		require.Contains(t, good, c.was)
		turned := budgetsNotMet(parsed(t, strings.Replace(good, c.was, c.is, 1)))
		require.Equal(t, c.turns, turned, "%s -> %s", c.was, c.is)
	}
	for i, line := range []string{
		"BenchmarkToken/part=verify+sign", "", "BenchmarkAllowed/limiter=tallystick-post",
		"BenchmarkAllowed/limiter=httprate/clients=1000000-2", "BenchmarkRefused/limiter=tallystick/",
		"BenchmarkMAC512", "", "BenchmarkHeap/limiter=tallystick/", "BenchmarkAllowed/limiter=redis_rate/",
		"", "BenchmarkCounter/counter=file/", "BenchmarkCounter/counter=redis_rate/",
	} {
		if line == "" {
			continue
		}
		without := slices.DeleteFunc(strings.Split(good, "\n"), func(l string) bool { return strings.HasPrefix(l, line) })
		f := budgets[i].check(parsed(t, strings.Join(without, "\n")))
		require.Equal(t, unmeasured, f.verdict(), line)
	}
}

func budgetsNotMet(r *results) (indices []int) {
	for i, b := range budgets {
		if b.check(r).verdict() == "**not met**" {
			indices = append(indices, i)
		}
	}
	return indices
}

func TestFigures(t *testing.T) {
	require.Equal(t, []string{"1 client", "100 k", "1 M", "10 M", "1234"},
		[]string{clientCount(1), clientCount(100_000), clientCount(1_000_000), clientCount(10_000_000), clientCount(1234)})
	require.Equal(t, []string{"0.51", "9.94", "10", "1235"}, []string{ratio(0.512), ratio(9.94), ratio(9.96), ratio(1234.6)})
	require.Equal(t, []string{"0", "0", "1", "-1"}, []string{bytesEach(-0.3), bytesEach(0.4), bytesEach(0.6), bytesEach(-0.7)})
}

// The report knows the names of what it compares with.
func TestNamesExist(t *testing.T) {
	names := make(map[string]bool)
	for _, l := range peers.Limiters() {
		names[l.Name] = true
	}
	for _, n := range []string{reference, "redis_rate", peers.Ours, peers.Ours + "-post"} {
		require.True(t, names[n], fmt.Sprint(n))
	}
}
