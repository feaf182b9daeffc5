// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/lab/court"
)

// sound are findings with which all holds.
func sound() *findings {
	f := &findings{length: time.Minute, oracle: court.NewOracle(nil)}
	Happen(f.oracle)
	Happen(f)
	f.most = atOnce
	for _, kind := range strings.Fields("drops forks rolls-back farms floods waits wanders honest") {
		f.oracle.Worst[kind+" on /"+windowed] = &court.Reached{Admitted: 40, Bound: 40}
	}
	f.oracle.Worst[farmed], f.oracle.Worst["keeps on /form"] = &court.Reached{Admitted: 40, Bound: 40}, &court.Reached{Admitted: 40, Bound: 40}
	for i, p := range []*phase{&f.quiet, &f.flood} {
		p.rounds.Add(14)
		p.planned.Add(1120)
		p.admitted.Add(1120)
		p.computed = []time.Duration{time.Duration(100+50*i) * time.Microsecond}
	}
	for i := range 28 {
		f.heap = append(f.heap, 20<<20+float64(i%2)*1e6)
		f.goroutines = append(f.goroutines, 100+float64(i%3)*5)
	}
	return f
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
			delete(f.oracle.Worst, "honest on /window")
			return "identities' bounds looked at, kinds"
		},
		func(f *findings) string { f.flood.admitted.Add(-1); return "steady clients, quiet and flood" },
		func(f *findings) string {
			f.flood.computed[0] = 4*f.quiet.computed[0] + 1000
			return "CPU of a steady request"
		},
		func(f *findings) string { rise(f.heap, heapGrowth+1e6); return "live heap" },
		func(f *findings) string { rise(f.goroutines, goroutinesGrowth+3); return "goroutines, by" },
	)
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
	for _, r := range sound().rows() {
		require.True(t, r.Report || slices.ContainsFunc(all, func(what string) bool { return strings.HasPrefix(r.What, what) }), "nothing shows that this can fail: %s", r.What)
	}
}

// A short run compares no CPU time: it may all fall on a moment in which the machine is busy.
func TestShortRunsCompareNoTime(t *testing.T) {
	f := sound()
	f.flood.computed[0] = time.Second
	require.False(t, Holds(f.rows()))
	f.length = steadyLength - 1
	require.True(t, Holds(f.rows()))
}

// What a run did not come to is no failure if it was ended early; what it has seen is.
func TestInterrupted(t *testing.T) {
	f := sound()
	f.interrupted, f.most = true, 0
	f.Restarts, f.Dropped, f.flood.rounds, f.flood.planned, f.flood.admitted = court.Count{}, court.Count{}, court.Count{}, court.Count{}, court.Count{}
	require.True(t, Holds(f.rows()))
	f.oracle.Excess.Note("one")
	require.False(t, Holds(f.rows()))
}

// In the first quarter of a short run not all have come yet.
func TestShortRunsMayRise(t *testing.T) {
	for _, times := range []float64{2, 5} {
		f := sound()
		rise(f.goroutines, times*goroutinesGrowth)
		require.False(t, Holds(f.rows()), "%v times", times)
		f.length = steadyLength - 1
		require.Equal(t, times < growthShort, Holds(f.rows()), "%v times", times)
		f.goroutines = Series{10, 10, 10 + times*goroutinesGrowth}
		require.Equal(t, times < growthShort, Holds(f.rows()), "%v times, of three", times)
	}
}

func TestMedian(t *testing.T) {
	require.Zero(t, new(phase).median())
	require.EqualValues(t, 2000, (&phase{computed: []time.Duration{9000, 1000, 4000, 2000}}).median())
}
