// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/lab/court"
)

// sound are findings with which all holds.
func sound() *findings {
	f := &findings{length: time.Minute, rounds: growthRounds, oracle: court.NewOracle(nil), exactly: map[string]*court.Exact{}, goroutinesBefore: 4, goroutinesLeft: 4}
	Happen(f.oracle)
	Happen(f)
	f.most = atOnce
	for _, policy := range []string{paid, open} {
		f.exactly[policy] = &court.Exact{Most: exactQuota}
		Happen(f.exactly[policy])
	}
	for _, kind := range strings.Fields("drops forks rolls-back farms floods waits wanders honest") {
		f.oracle.Worst[kind+" on /"+windowed] = &court.Reached{Admitted: 40, Bound: 40}
	}
	f.oracle.Worst[farmed], f.oracle.Worst[rushed] = &court.Reached{Admitted: 40, Bound: 40}, &court.Reached{Admitted: 30, Bound: 37}
	for i, p := range []*phase{&f.quiet, &f.flood} {
		p.rounds.Store(14)
		p.planned.Store(1120)
		p.admitted.Store(1120)
		p.computed.add(time.Duration(100+50*i) * time.Microsecond)
	}
	for i := range 28 {
		f.heap = append(f.heap, 20<<20+float64(i%2)*1e6)
		f.goroutines = append(f.goroutines, 100+float64(i%3)*5)
	}
	return f
}

// grow has a series grow over its second half.
func grow(s Series, by float64) {
	for i := range s {
		s[i] += float64(i) * by / 13
	}
}

// rise has a series grow once, after its first quarter.
func rise(s Series, by float64) {
	for i := len(s) / 4; i < len(s); i++ {
		s[i] += by
	}
}

// Each check can fail: one thing at a time is wrong, and one row says so.
func TestEveryCheckCanFail(t *testing.T) {
	failing := append(Breakages(sound()),
		func(f *findings) string { f.most++; return "served at once, most" },
		func(f *findings) string {
			f.oracle.Worst["drops on /window"] = &court.Reached{Admitted: 41, Bound: 40, Over: 1}
			return "admitted by an instance in a window, most: "
		},
		func(f *findings) string {
			f.oracle.Worst[farmed] = &court.Reached{}
			return "looked at: farms on /form, bought"
		},
		func(f *findings) string {
			f.oracle.Worst[rushed] = &court.Reached{}
			return "looked at: all, without work, on /busy"
		},
		func(f *findings) string {
			delete(f.oracle.Worst, "honest on /window")
			return "identities' bounds looked at, kinds"
		},
		func(f *findings) string { f.exactly[paid].Most--; return "/paid: acknowledged to one, most" },
		func(f *findings) string { f.flood.admitted.Add(-1); return "steady clients, quiet and flood" },
		func(f *findings) string {
			f.flood.computed.some[0] = 4*f.quiet.computed.some[0] + 1000
			return "CPU of a steady request"
		},
		func(f *findings) string { grow(f.heap, heapGrowth); return "live heap" },
		func(f *findings) string { grow(f.goroutines, goroutinesGrowth+3); return "goroutines, by quarters" },
		func(f *findings) string { f.processes = true; rise(f.heap, heapMargin+1e6); return "live heap above" },
		func(f *findings) string {
			f.processes = true
			rise(f.goroutines, goroutinesMargin+3)
			return "goroutines above"
		},
		func(f *findings) string { f.goroutinesLeft++; return "goroutines before" },
	)
	for _, policy := range []string{paid, open} {
		for _, breaks := range Breakages(sound().exactly[policy]) {
			failing = append(failing, func(f *findings) string { return "/" + policy + ": " + breaks(f.exactly[policy]) })
		}
	}
	for _, breaks := range Breakages(sound().oracle) {
		failing = append(failing, func(f *findings) string { return breaks(f.oracle) })
	}
	require.True(t, Holds(sound().rows()))
	var all []string
	for _, breaks := range failing {
		f := sound()
		what := breaks(f)
		all = append(all, what)
		t.Run(what, func(t *testing.T) {
			rows := f.rows()
			wrong := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.OK })
			require.Len(t, wrong, 1)
			require.True(t, strings.HasPrefix(wrong[0].What, what), wrong[0].What)
			var text bytes.Buffer
			require.NoError(t, f.write(&text, rows))
			require.Contains(t, text.String(), "FAILED: "+what)
			require.Contains(t, text.String(), wrong[0].Why)
		})
	}
	f := sound()
	f.processes = true
	for _, r := range f.rows() {
		require.True(t, r.Report || slices.ContainsFunc(all, func(what string) bool {
			return strings.HasPrefix(r.What, what) || r.What == "/open"+strings.TrimPrefix(what, "/paid")
		}), "nothing shows that this can fail: %s", r.What)
	}
}

// A short run compares no CPU time: it may all fall on a moment in which the machine is busy.
func TestShortRunsCompareNoTime(t *testing.T) {
	f := sound()
	f.flood.computed.some[0] = time.Second
	require.False(t, Holds(f.rows()))
	f.length = cpuLength - 1
	require.True(t, Holds(f.rows()))
}

// What a run did not come to is no failure if it was ended early; what it has seen is.
func TestInterrupted(t *testing.T) {
	f := sound()
	f.interrupted, f.most = true, 0
	f.Kills.Store(0)
	f.Dropped.Store(0)
	f.flood.rounds.Store(0)
	f.flood.planned.Store(0)
	f.flood.admitted.Store(0)
	require.True(t, Holds(f.rows()))
	f.oracle.Excess.Note("one")
	require.False(t, Holds(f.rows()))
}

// The second half of a short run goes from the quiet to the flood: there more may come.
func TestShortRunsMayGrow(t *testing.T) {
	for _, times := range []float64{2, 5} {
		for _, what := range []string{"heap", "goroutines"} {
			f := sound()
			s, allowed := f.heap, float64(heapGrowth)
			if what == "goroutines" {
				s, allowed = f.goroutines, goroutinesGrowth
			}
			grow(s, times*allowed)
			require.False(t, Holds(f.rows()), "%s: %v times", what, times)
			f.rounds = growthRounds - 1
			require.Equal(t, times < growthShort, Holds(f.rows()), "%s: %v times", what, times)
		}
	}
}

// In the first quarter of a short run of processes not all have come yet, and its second half may be too short for a slope.
func TestShortRunsOfProcesses(t *testing.T) {
	for _, times := range []float64{2, 5} {
		f := sound()
		f.processes = true
		rise(f.goroutines, times*goroutinesMargin)
		require.False(t, Holds(f.rows()), "%v times", times)
		f.length = steadyLength - 1
		require.Equal(t, times < growthShort, Holds(f.rows()), "%v times", times)
		f.goroutines = Series{10, 10, 10 + times*goroutinesMargin}
		require.Equal(t, times < growthShort, Holds(f.rows()), "%v times, of three", times)
	}
}

// A sample knows how all that was added are spread.
func TestSample(t *testing.T) {
	var s sample
	require.Zero(t, s.median())
	for i := range 100_000 {
		s.add(time.Duration(i+1) * time.Microsecond)
	}
	require.InDelta(t, 50_000, s.median().Seconds()*1e6, 5000)
}

// kept is what the leaks of the tests hold.
var kept [][]byte

func TestGoroutinesThatAreLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	stay := make(chan struct{})
	for range 100 { // more than the goroutines of other tests that may end meanwhile
		go func() { <-stay }()
	}
	require.GreaterOrEqual(t, left(before, 0), before+90)
	close(stay)
	require.LessOrEqual(t, left(before, patience), before)
}
