// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/peers"
	"github.com/tallystick/tallystick/internal/peers/counters"
	"github.com/tallystick/tallystick/internal/printed"
)

// goodCounters is a run in which the counters' budgets are met.
var goodCounters = func() string {
	var b strings.Builder
	line := func(name string, keys, callers int, figures string) {
		fmt.Fprintf(&b, "Benchmark%s\t10\t%s\n", counters.Benchmark(name, keys, callers), figures)
	}
	for _, keys := range []int{1, 10_000} {
		for _, n := range callers {
			line("file", keys, n, "10000 ns/op\t20000 p50-ns/op\t30000 p99-ns/op\t5000 cpu-ns/op")
			line("bbolt", keys, n, "25100 ns/op\t50000 p50-ns/op\t60000 p99-ns/op\t9000 cpu-ns/op")
			line("redis", keys, n, "50000 ns/op\t60000 p50-ns/op\t90000 p99-ns/op\t20000 cpu-ns/op\t29000 server-cpu-ns/op")
			line("redis_rate", keys, n, "40000 ns/op\t50000 p50-ns/op\t80000 p99-ns/op\t25000 cpu-ns/op\t30000 server-cpu-ns/op")
		}
	}
	b.WriteString("BenchmarkCounterKey/counter=file\t10000\t140 heap-B/key\t62 disk-B/key\n")
	b.WriteString("BenchmarkCounterKey/counter=redis\t10000\t0.3 heap-B/key\t120 server-B/key\n")
	b.WriteString("BenchmarkOthers\t1\t0.01 share\nBenchmarkOthers\t1\t0.02 share\nBenchmarkOthers\t1\t0.09 share\n")
	b.WriteString("BenchmarkAppend\t100\t60000 ns/op\t200000 p99-ns/op\nBenchmarkAsking\t100\t80 ns/op\t70 cpu-ns/op\n")
	return b.String()
}()

func TestCounterTable(t *testing.T) {
	text := counterTable(parsed(t, strings.Repeat(goodCounters, 6)), "Here")
	for _, line := range []string{
		"Here; medians of 6 rounds. The machine was quiet: in the pauses others used 2 % of its processors, once 9 %.\n",
		"its fdatasync took 60 µs (p99 200 µs).\n",
		"the loop that asks has 0.07 µs of the client's.\n",
		"| `file` | 1 | 100 / 100 / 100 | 0 % | 20 / 20 / 20 | 30 / 30 / 30 | 5.0 / 5.0 / 5.0 | – |  |\n",
		"| `file` | 10,000 | 100 / 100 / 100 | 0 % | 20 / 20 / 20 | 30 / 30 / 30 | 5.0 / 5.0 / 5.0 | – | 140 heap, 62 disk |\n",
		"| `redis` | 10,000 | 20 / 20 / 20 | 0 % | 60 / 60 / 60 | 90 / 90 / 90 | 20 / 20 / 20 | 29 / 29 / 29 | 120 server |\n",
		"- `file` beside `bbolt`, on the hot key and on all: 2.51 / 2.51 / 2.51 and 2.51 / 2.51 / 2.51 times the calls.\n",
		"0.80 / 0.80 / 0.80 and 0.80 / 0.80 / 0.80 times the calls; 0.97 / 0.97 / 0.97 and 0.97 / 0.97 / 0.97 times the server's processor time; 0.80 / 0.80 / 0.80 and 0.80 / 0.80 / 0.80 times the client's processor time.\n",
	} {
		require.Contains(t, text, line)
	}
	require.NotContains(t, text, "sqlite", "it was not measured")
	require.Contains(t, render(parsed(t, goodCounters), "Here"), "| ∞ |", "one round has no spread")
	require.NotContains(t, render(parsed(t, goodCounters), "Here"), "## Budgets", "limiters were not measured")
}

// Rounds are compared one by one: a machine that slows down between them changes nothing.
func TestRoundsAreComparedOneByOne(t *testing.T) {
	name := counters.Benchmark("file", 10_000, 16)
	slow := strings.NewReplacer(
		name+"\t10\t10000 ns/op", name+"\t10\t90000 ns/op",
		counters.Benchmark("bbolt", 10_000, 16)+"\t10\t25100 ns/op", counters.Benchmark("bbolt", 10_000, 16)+"\t10\t270000 ns/op",
	).Replace(goodCounters)
	r := parsed(t, slow+goodCounters+slow)
	median, least, most := callsPerSecond.of(r, comparisons[0], 10_000, 16)
	require.InDeltaSlice(t, []float64{3, 2.51, 3}, []float64{median, least, most}, 1e-9)
	median, _, _ = callsPerSecond.of(parsed(t, slow+goodCounters), comparisons[0], 10_000, 16)
	require.InDelta(t, 2.755, median, 1e-9)

	variant := strings.ReplaceAll(goodCounters, "counter=bbolt", "counter=file"+variantMark+"x")
	require.Contains(t, counterTable(parsed(t, variant+variant), "Here"),
		"- `file` beside `file~x` (in brackets the least and the most of the rounds), on the hot key and on all: 2.51 (2.51–2.51) / ")
}

func TestWhatSpoilsFiguresIsSaid(t *testing.T) {
	busy := strings.ReplaceAll(goodCounters, "0.02 share", "0.31 share")
	busy = strings.ReplaceAll(busy, "0.01 share", "0.31 share")
	require.Contains(t, counterTable(parsed(t, busy), "Here"), "**The machine was busy: others used 31 % of its processors in the pauses, once 31 %.")
	memory := strings.ReplaceAll(goodCounters, "100\t60000 ns/op", "100\t600 ns/op")
	require.Contains(t, counterTable(parsed(t, memory), "Here"), "**That is no disk:")
	untold := regexp.MustCompile(`(?m)^BenchmarkOthers.*\n`).ReplaceAllString(goodCounters, "")
	require.Contains(t, counterTable(parsed(t, untold), "Here"), "cannot be told")
}

var figures = regexp.MustCompile(`^[0-9.,]+ / [0-9.,]+ / [0-9.,]+$`)

// incomplete returns the rows of a page that lack a figure, and counters without rows.
func incomplete(t *testing.T, page string, all []counters.Counter, keys []string) (missing []string) {
	t.Helper()
	_, tables, err := printed.Read(page)
	require.NoError(t, err)
	rows := map[string][]string{}
	for _, table := range tables {
		if strings.HasPrefix(table.Head, "| counter | keys |") {
			for _, row := range table.Rows {
				rows[row[0]+row[1]] = row
			}
		}
	}
	for _, c := range all {
		for i, k := range keys {
			name := "`" + c.Name + "`" + k
			row := rows[name]
			switch {
			case row == nil:
				missing = append(missing, name)
				continue
			case c.Redis != figures.MatchString(row[7]), i == len(keys)-1 && row[8] == "":
				missing = append(missing, name)
			}
			for _, cell := range []string{row[2], row[4], row[5], row[6]} {
				if !figures.MatchString(cell) {
					missing = append(missing, name+": "+cell)
				}
			}
		}
	}
	return missing
}

// The whole of it, with little of everything: each counter has all figures.
func TestEveryCounterIsMeasured(t *testing.T) {
	var all []counters.Counter
	_, noRedis := peers.FindRedis()
	for _, c := range counters.All() {
		if noRedis == nil || !c.Redis {
			all = append(all, c)
		}
	}
	dir := t.TempDir()
	page, raw := filepath.Join(dir, "page.md"), filepath.Join(dir, "raw")
	begin, end := marksOf(t, "counters")
	require.NoError(t, os.WriteFile(page, []byte("# A\n\n"+begin+"old\n"+end+"\nafter\n"), 0o600))
	o := options{only: "counters", count: 1, span: time.Second, keys: 64, raw: raw, update: page, dir: dir}
	var stdout strings.Builder
	require.NoError(t, run(t.Context(), o, &stdout, io.Discard))
	require.Empty(t, incomplete(t, page, all, []string{"1", "64"}))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.NotContains(t, string(text), "\nold\n")
	require.Contains(t, string(text), end+"\nafter\n")
	_, table, _ := strings.Cut(stdout.String(), "| counter |")
	require.Contains(t, string(text), table, "the page has what is printed")

	// That check can fail: a line that was not measured is missed.
	lines, err := os.ReadFile(raw)
	require.NoError(t, err)
	without := regexp.MustCompile(`(?m)^BenchmarkCounter/counter=file/keys=64/callers=16\t.*\n`).ReplaceAll(lines, nil)
	require.Less(t, len(without), len(lines))
	require.NoError(t, os.WriteFile(raw, without, 0o600))
	require.NoError(t, run(t.Context(), options{from: raw, update: page}, io.Discard, io.Discard))
	require.Len(t, incomplete(t, page, all, []string{"1", "64"}), 4, "calls, p50, p99 and processor time of one row")

	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "nothing else is left behind")
}

// The page has a row with all figures for each counter there is.
func TestPageHasEveryCounter(t *testing.T) {
	require.Empty(t, incomplete(t, "../../README.md", counters.All(), []string{"1", "10,000"}),
		"run: go run ./cmd/report -only counters -update README.md")
}

func TestShort(t *testing.T) {
	require.Equal(t, []string{"0.12", "1.0", "9.9", "10", "999", "12,346", "1,234,567"},
		[]string{short(0.123), short(0.996), short(9.94), short(9.96), short(999.4), short(12345.6), short(1234567)})
}
