// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/peers"
	"github.com/tallystick/tallystick/internal/peers/turns"
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
` + goodRequests + goodCounters

// goodRequests is what takes turns in that run: two groups of it.
var goodRequests = func() string {
	var b strings.Builder
	line := func(kind, name, figures string) {
		fmt.Fprintf(&b, "Benchmark%s\t10\t%s\n", turns.Benchmark(kind, name), figures)
	}
	for range 2 {
		for name, ns := range map[string]string{
			"tallystick-post": "900", "tallystick-hop": "1140", "tallystick-get": "1020", "tallystick-no-token": "800",
			"tallystick-forged-high": "1200", "httprate": "600", "throttled": "500", peers.MAC: "200", peers.LongMAC: "400",
			"tallystick-refused": "1120", "httprate-refused": "800", "throttled-refused": "700",
		} {
			line(peers.Known, name, ns+" p10-cpu-ns/op\t"+ns+" cpu-ns/op\t600 B/op\t3 allocs/op")
		}
		line(peers.First, "tallystick-first", "1500 p10-cpu-ns/op\t1600 cpu-ns/op\t700 B/op\t4 allocs/op")
		line(peers.First, "httprate-first", "750 p10-cpu-ns/op\t800 cpu-ns/op\t200 B/op\t10 allocs/op")
		for name, ns := range map[string]string{peers.None: "16000", peers.Fields: "17500", "httprate": "18000", "throttled": "17000", "tallystick-post": "19100"} {
			line(peers.RoundTrip, name, ns+" p10-cpu-ns/op\t"+ns+" cpu-ns/op\t20000 p10-ns/op")
		}
		for _, n := range []int{1, 1_000_000} {
			for _, c := range []struct{ name, one, two string }{{"tallystick-post", "960", "480"}, {"httprate", "900", "600"}, {"throttled", "800", "500"}} {
				line(peers.Identities, peers.Identity(c.name, n), c.one+" p10-ns/op\t"+c.one+" p50-ns/op\t900 cpu-ns/op\t800 p10-cpu-ns/op")
				line(peers.Identities, peers.Identity(c.name, n)+"-2", c.two+" p10-ns/op\t"+c.two+" p50-ns/op\t900 cpu-ns/op\t840 p10-cpu-ns/op")
			}
		}
		b.WriteString("BenchmarkMeanwhile/of=Request\t1\t0.01 share\nBenchmarkCollector/of=Request\t1\t90 gc-ns/op\n")
	}
	return b.String()
}()

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
		"Here; medians of 6 fresh processes.\n",
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

// What takes turns is compared group by group, and a table says what disturbed it.
func TestRequestTables(t *testing.T) {
	text := render(parsed(t, strings.ReplaceAll(goodRequests, "19100 p10", "19000 p10")+goodRequests+strings.ReplaceAll(goodRequests, "0.01 share", "0.3 share")), "Here")
	for _, line := range []string{
		"## A request\n\nHere.\n**The machine was busy: others used 1 % of its processors, in one group 30 %.**",
		"In brackets the least and the most of the 6 groups of slices. One MAC over a token of ours took 200 ns,\nand collecting a KiB that was allocated 90 ns.\n",
		"| `tallystick-post` | POST, newest token by header | 900 | 1.50 (1.50–1.50) | 1.80 (1.80–1.80) | 900 | 1.50 (1.50–1.50) | 600 | 3 |\n",
		"| `tallystick-refused` | POST over its quota, token by header | 1120 | 1.40 (1.40–1.40) | 1.60 (1.60–1.60) | 1120 | 1.40 (1.40–1.40) | 600 | 3 |\n",
		"| `tallystick-first` | POST, a new client each time | 1500 | 2.00 (2.00–2.00) | – | 1600 | 2.00 (2.00–2.00) | 700 | 4 |\n",
		"| `none` | 16.0 |  |  |  | 16.0 |  |  |\n",
		"| `tallystick-post` | 19.1 | 3.10 (3.00–3.10) | 1.55 (1.50–1.55) | 3.10 (3.00–3.10) | 19.1 | 3.10 (3.10–3.10) | 1.55 (1.55–1.55) |\n",
		"| `tallystick-post` | 1,000,000 | 2 | 960 | 480 | 2.00 (2.00–2.00) | 1.05 (1.05–1.05) | 0.80 (0.80–0.80) | 0.96 (0.96–0.96) | 0.80 (0.80–0.80) |\n",
	} {
		require.Contains(t, text, line)
	}
	require.NotContains(t, text, "hop-four", "it was not measured")
	require.Contains(t, text, "| refused, no challenge offered | at most 1.4 × httprate | p10 1.40 (1.40–1.40), mean 1.40 (1.40–1.40) | met |\n")
	require.NotContains(t, text, unmeasured, "budgets are those that were measured")
	require.NotContains(t, text, "challenge: issue")

	summary := summaryTable(parsed(t, goodRequests), "Here")
	for _, line := range []string{
		"| POST, allowed, one instance | 900 ns | 600 ns | 500 ns | 1.50 (1.50–1.50) |\n",
		"| in a server of net/http, above none | 3100 ns | 2000 ns | 1000 ns | 1.55 (1.55–1.55) |\n",
		"| 1,000,000 clients, 2 processors, on the wall | 480 ns | 600 ns | 500 ns | 0.80 (0.80–0.80) |\n",
	} {
		require.Contains(t, summary, line)
	}
	require.Empty(t, summaryTable(parsed(t, good[:strings.Index(good, "PASS")]), "Here"))
	others := limiterTable(parsed(t, good), "Here")
	require.Contains(t, others, "Here; times httprate in the same column.\n")
	require.Contains(t, others, "| `redis_rate` (Redis beside it) | 67 | – | – | in Redis |\n")
	require.NotContains(t, others, peers.Ours, "the page has it elsewhere")
}

// Groups are compared one by one: a machine that slows down between them changes nothing.
func TestGroupsAreComparedOneByOne(t *testing.T) {
	slow := regexp.MustCompile(`(\d+) p10-cpu-ns/op`).ReplaceAllString(goodRequests, "${1}0 p10-cpu-ns/op")
	r := parsed(t, slow+goodRequests+goodRequests)
	require.Equal(t, "1.50 (1.50–1.50)", r.times(tenth, player(peers.Known, peers.Ours+"-post"), player(peers.Known, reference)).String())
	require.InDelta(t, 900e-9, r.plain(tenth, player(peers.Known, peers.Ours+"-post")).median, 1e-12)
	require.Equal(t, "–", r.times(tenth, player(peers.Known, "nobody"), player(peers.Known, reference)).String())

	// A group that one of two lacks is no ground to compare the others in the wrong order.
	lacking := strings.Replace(goodRequests, "BenchmarkRequest/player=httprate\t", "BenchmarkRequest/player=other\t", 1)
	require.Equal(t, "–", parsed(t, lacking).times(tenth, player(peers.Known, peers.Ours+"-post"), player(peers.Known, reference)).String())
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
}

// Every verdict follows from the figures: one that is worse turns exactly the
// budgets it belongs to, and one that is missing leaves them open.
func TestBudgetsFollowTheFigures(t *testing.T) {
	for _, c := range []struct {
		was, is string
		turns   []int // budgets
	}{
		{"player=tallystick-post\t10\t900 p10", "player=tallystick-post\t10\t901 p10", []int{0}},
		{"900 p10-cpu-ns/op\t900 cpu", "900 p10-cpu-ns/op\t901 cpu", []int{0}},
		{"player=tallystick-hop\t10\t1140", "player=tallystick-hop\t10\t1141", []int{1}},
		{"player=tallystick-get\t10\t1020", "player=tallystick-get\t10\t1021", []int{2}},
		{"player=tallystick-refused\t10\t1120", "player=tallystick-refused\t10\t1121", []int{3}},
		{"tallystick-post/clients=1000000-2\t10\t480", "tallystick-post/clients=1000000-2\t10\t481", []int{4}},
		{"480 p50-ns/op", "981 p50-ns/op", []int{4, 5}},
		{"tallystick-post/clients=1-2\t10\t480", "tallystick-post/clients=1-2\t10\t961", []int{5}},
		{"19100 p10", "19300 p10", []int{6}},
		{"19100 cpu", "19300 cpu", []int{6}},
		{"900 cpu-ns/op\t600 B/op", "900 cpu-ns/op\t601 B/op", []int{7}},
		{"900 cpu-ns/op\t600 B/op\t3 allocs", "900 cpu-ns/op\t600 B/op\t4 allocs", []int{7}},
		{"player=tallystick-forged-high\t10\t1200", "player=tallystick-forged-high\t10\t1201", []int{8}},
		{"2300 cpu-ns/op", "2500 cpu-ns/op", []int{9}},
		{"901 B/op", "1000 B/op", []int{10}},
		{"-0.002 B/client", "-0.6 B/client", []int{11}},
		{"redis/keys=1/callers=1	10	50000 ns/op	60000 p50-ns/op	90000 p99-ns/op	20000 cpu-ns/op	29000", "redis/keys=1/callers=1	10	50000 ns/op	60000 p50-ns/op	90000 p99-ns/op	20000 cpu-ns/op	30500", []int{13}},
	} {
		require.Contains(t, good, c.was)
		turned := budgetsNotMet(parsed(t, strings.ReplaceAll(good, c.was, c.is)))
		require.Equal(t, c.turns, turned, "%s -> %s", c.was, c.is)
	}
	for i, line := range []string{
		"BenchmarkRequest/player=tallystick-post", "BenchmarkRequest/player=tallystick-hop", "BenchmarkRequest/player=httprate\t",
		"BenchmarkRequest/player=httprate-refused", "BenchmarkIdentities/player=httprate/clients=1000000-2", "BenchmarkIdentities/player=httprate/clients=1-2",
		"BenchmarkRoundTrip/player=none", "BenchmarkRequest/player=tallystick-post", "BenchmarkRequest/player=mac-long",
		"BenchmarkMAC512", "", "BenchmarkHeap/limiter=tallystick/",
		"", "BenchmarkCounter/counter=redis_rate/",
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
