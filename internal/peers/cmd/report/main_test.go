// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/peers"
)

func TestParse(t *testing.T) {
	o, err := parse(nil, "", io.Discard)
	require.NoError(t, err)
	require.Equal(t, options{count: 6, benchtime: 500 * time.Millisecond, keys: 10_000}, o)

	o, err = parse(nil, "9", io.Discard)
	require.NoError(t, err)
	require.Equal(t, 9, o.count)

	o, err = parse([]string{"-count", "3"}, "9", io.Discard)
	require.NoError(t, err)
	require.Equal(t, 3, o.count, "the flag wins")

	o, err = parse([]string{"-quick"}, "", io.Discard)
	require.NoError(t, err)
	require.Equal(t, 1, o.count)
	require.Less(t, o.benchtime, 100*time.Millisecond)
	require.Equal(t, 20*time.Second, o.countersSpan())
	require.Equal(t, 12*time.Second, o.requestsSpan())

	for _, c := range []struct {
		args               []string
		counters, requests time.Duration
	}{
		{nil, 7 * time.Minute, time.Minute},
		{[]string{"-span", "2m"}, 2 * time.Minute, 2 * time.Minute},
		{[]string{"-span", "3s", "-quick"}, 3 * time.Second, 3 * time.Second},
	} {
		o, err := parse(c.args, "", io.Discard)
		require.NoError(t, err)
		require.Equal(t, []time.Duration{c.counters, c.requests}, []time.Duration{o.countersSpan(), o.requestsSpan()}, c.args)
	}
	for _, only := range []string{"", "counters", "requests", "calls", "served", "cores"} {
		_, err := parse([]string{"-only", only}, "", io.Discard)
		require.NoError(t, err)
	}

	for _, c := range []struct {
		args          []string
		count, report string
	}{
		{nil, "six", `TALLYSTICK_BENCH_COUNT is "six", not a number`},
		{[]string{"-count", "0"}, "", "-count is 0"},
		{[]string{"-benchtime", "-1s"}, "", "must be positive"},
		{[]string{"-span", "-1s"}, "", "-span is -1s"},
		{[]string{"-rows", "x"}, "", "-rows wants -only"},
		{[]string{"-against", "x"}, "", "wants -only counters"},
		{[]string{"-keys", "1"}, "", "-keys is 1"},
		{[]string{"-only", "limiters"}, "", "may be counters"},
		{[]string{"all"}, "", `unexpected argument "all"`},
		{[]string{"-fast"}, "", "not defined: -fast"},
	} {
		var stderr strings.Builder
		_, err := parse(c.args, c.count, &stderr)
		require.Error(t, err)
		require.Contains(t, stderr.String(), c.report)
	}
}

func TestPlan(t *testing.T) {
	titles := func(o options, redis bool) string {
		var all []string
		for _, j := range plan(o, redis) {
			all = append(all, j.title+": "+strings.Join(j.args, " "))
		}
		return strings.Join(all, "\n")
	}
	full := titles(options{count: 2, benchtime: time.Second}, true)
	for _, l := range peers.Limiters() {
		require.Contains(t, full, "round 1 of 2: "+l.Name+" on 1: ")
		require.Contains(t, full, "round 2 of 2: "+l.Name+" on 1: ")
	}
	require.Contains(t, full, "-heap=100000,1000000,10000000")
	require.Equal(t, 1, strings.Count(full, "heap of httprate"), "bytes are counted once")
	require.Contains(t, full, "limiter=redis_rate$ -test.timeout=1h -test.cpu=1 -test.benchtime=1s -clients=1,100000,1000000")
	require.NotContains(t, titles(options{count: 1}, false), "redis_rate")
	require.NotContains(t, titles(options{count: 1, quick: true}, true), "1000000")
}

func TestRunFromFile(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "from")
	require.NoError(t, os.WriteFile(from, []byte(good), 0o600))
	var stdout strings.Builder
	require.NoError(t, run(t.Context(), options{from: from}, &stdout, io.Discard))
	require.Contains(t, stdout.String(), "## Budgets")
	require.Error(t, run(t.Context(), options{from: filepath.Join(dir, "none")}, &stdout, io.Discard))
}

// The real thing, as little of it as there is.
func TestMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the benchmarks")
	}
	var out, progress strings.Builder
	jobs := []job{{"a taste", benchmark("^BenchmarkRawTwoHMACs$", 1, time.Millisecond)},
		{"of it", append(benchmark("^BenchmarkAllowed$/^limiter=tallystick$", 2, time.Millisecond), "-clients=10")}}
	require.NoError(t, measure(t.Context(), jobs, &out, &progress))
	r := parsed(t, out.String())
	require.Positive(t, r.median(rawTwoHMACs, 1, wall))
	require.Positive(t, r.median(request("Allowed", peers.Ours, 10), 2, wall))
	require.Contains(t, progress.String(), "a taste")

	err := measure(t.Context(), []job{{"nonsense", []string{"-clients=many", "-test.run=^$", "-test.bench=Allowed"}}}, io.Discard, io.Discard)
	require.ErrorContains(t, err, "nonsense: exit status 1")
	require.ErrorContains(t, err, `parsing "many"`)
}

// What was measured is kept, also if nothing comes of it.
func TestRawIsWritten(t *testing.T) {
	raw := filepath.Join(t.TempDir(), "raw")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, fill(ctx, options{count: 1, benchtime: 1, raw: raw}, io.Discard, io.Discard))
	require.FileExists(t, raw)
}

func TestRedisIsRequired(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var stderr strings.Builder
	t.Setenv("TALLYSTICK_REQUIRE", "")
	found, err := findRedis(&stderr)
	require.NoError(t, err)
	require.False(t, found)
	require.Contains(t, stderr.String(), "NOT MEASURED: what needs Redis")

	t.Setenv("TALLYSTICK_REQUIRE", "1")
	_, err = findRedis(&stderr)
	require.ErrorIs(t, err, peers.ErrNoRedis)
}
