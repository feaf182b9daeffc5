// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/lab/judge"
)

// sound are findings with which all holds.
func sound() findings {
	f := findings{
		length: time.Minute, rounds: 28, decisions: 50_000, reconfigured: 60, led: 3, dropped: 1, kills: 4, steps: 8, hangUps: 16, forged: 9000, busy: 20, atOnce: 30, worked: 3, moved: 4,
		servedAtOnce: atOnce,
		worst:        map[string]reached{},
		exact: map[string]ledgerFindings{
			paid: {acknowledged: 500, most: exactQuota, checked: 9, unknown: 3},
			open: {acknowledged: 500, most: exactQuota, checked: 9, unknown: 3, fellBack: 40},
		},
		quiet:            phaseFindings{rounds: 14, planned: 1120, admitted: 1120, cpu: [3]time.Duration{8e4, 1e5, 2e5}},
		flood:            phaseFindings{rounds: 14, planned: 1120, admitted: 1120, cpu: [3]time.Duration{8e4, 15e4, 2e5}},
		goroutinesBefore: 4, goroutinesLeft: 4,
	}
	for _, kind := range strings.Fields("drops forks rolls-back farms floods waits wanders honest") {
		f.worst[kind+" on /"+windowed] = reached{admitted: 40, bound: 40}
	}
	f.worst[farmed], f.worst[rushed] = reached{admitted: 40, bound: 40}, reached{admitted: 30, bound: 37}
	for i := range 28 {
		f.heap = append(f.heap, 20<<20+float64(i%2)*1e6)
		f.goroutines = append(f.goroutines, 100+float64(i%3)*5)
	}
	return f
}

// Each check can fail: one thing at a time is wrong, and one row says so.
func TestEveryCheckCanFail(t *testing.T) {
	exactly := func(policy string, change func(*ledgerFindings)) func(*findings) {
		return func(f *findings) {
			x := f.exact[policy]
			change(&x)
			f.exact[policy] = x
		}
	}
	failing := map[string]func(*findings){
		"configurations, of every policy and instance":        func(f *findings) { f.reconfigured = 2 },
		"secrets put first":                                   func(f *findings) { f.led = 0 },
		"secrets dropped":                                     func(f *findings) { f.dropped = 0 },
		"Redis killed":                                        func(f *findings) { f.kills = 0 },
		"clocks stepped":                                      func(f *findings) { f.steps = 0 },
		"slow clients hung up":                                func(f *findings) { f.hangUps = 0 },
		"/busy: newcomers let in without work":                func(f *findings) { f.atOnce = 0 },
		"/busy: newcomers let in with work, while it is busy": func(f *findings) { f.worked = 0 },
		"/busy: instances found busy":                         func(f *findings) { f.busy = 0 },
		"/form: holders sold a tally":                         func(f *findings) { f.moved = 0 },
		"forged requests":                                     func(f *findings) { f.forged = 0 },
		"honest: refused with room":                           func(f *findings) { f.unjust = judge.Found{N: 1, First: "steady 1: 429"} },
		"honest: admitted without room":                       func(f *findings) { f.excess = judge.Found{N: 1, First: "full 1"} },
		"honest: a token not accepted":                        func(f *findings) { f.tokenErrors = judge.Found{N: 1, First: "token: bad signature"} },
		"honest: lost, or a body cut":                         func(f *findings) { f.broken = judge.Found{N: 1, First: "connection reset"} },
		"servers: lines logged":                               func(f *findings) { f.trouble = judge.Found{N: 1, First: "http: panic serving"} },
		"slots that did not come back":                        func(f *findings) { f.lostSlots = judge.Found{N: 1, First: "of 4 places 3 were taken"} },
		"served at once, most":                                func(f *findings) { f.servedAtOnce++ },
		"admitted by an instance in a window, most: ":         func(f *findings) { f.worst["drops on /window"] = reached{41, 40, 1} },
		"looked at: farms on /form, bought":                   func(f *findings) { f.worst[farmed] = reached{} },
		"looked at: all, without work, on /busy":              func(f *findings) { f.worst[rushed] = reached{} },
		"identities' bounds looked at, kinds":                 func(f *findings) { delete(f.worst, "honest on /window") },
		"/paid: acknowledged":                                 exactly(paid, func(x *ledgerFindings) { x.acknowledged = 0 }),
		"/paid: accounts compared with Redis":                 exactly(paid, func(x *ledgerFindings) { x.checked = 0 }),
		"/paid: acknowledged, and not in Redis":               exactly(paid, func(x *ledgerFindings) { x.lost = 1 }),
		"/open: in Redis, and never charged":                  exactly(open, func(x *ledgerFindings) { x.invented = 1 }),
		"/open: acknowledged to one, most":                    exactly(open, func(x *ledgerFindings) { x.overQuota = 1 }),
		"/paid: acknowledged to one, most":                    exactly(paid, func(x *ledgerFindings) { x.most-- }),
		"/open: admitted beyond what an outage permits":       exactly(open, func(x *ledgerFindings) { x.overOutage = 1 }),
		"/open: refused by a counter that had room":           exactly(open, func(x *ledgerFindings) { x.unjust = 1 }),
		"/open: no answer, though Redis stood":                exactly(open, func(x *ledgerFindings) { x.unexplained = 1 }),
		"instances that did not have Redis back":              func(f *findings) { f.unanswered = judge.Found{N: 1, First: "instance 2"} },
		"steady clients, quiet and flood":                     func(f *findings) { f.flood.admitted-- },
		"CPU of a steady request":                             func(f *findings) { f.flood.cpu[1] = 4*f.quiet.cpu[1] + 1 },
		"live heap": func(f *findings) {
			for i := range f.heap {
				f.heap[i] += float64(i) * heapGrowth / 13
			}
		},
		"goroutines, third": func(f *findings) {
			for i := range f.goroutines {
				f.goroutines[i] += float64(i) * (goroutinesGrowth + 3) / 13
			}
		},
		"goroutines before": func(f *findings) { f.goroutinesLeft++ },
	}
	require.True(t, judge.Holds(rowsOf(sound())))
	for what, breaks := range failing {
		t.Run(what, func(t *testing.T) {
			f := sound()
			breaks(&f)
			rows := rowsOf(f)
			require.False(t, judge.Holds(rows))
			n := 0
			for _, r := range rows {
				if !r.OK {
					n++
					require.True(t, strings.HasPrefix(r.What, what), r.What)
				}
			}
			require.Equal(t, 1, n)
			var text bytes.Buffer
			require.NoError(t, write(&text, f, rows))
			require.Contains(t, text.String(), "FAILED: "+what)
			if f.unjust.N > 0 {
				require.Contains(t, text.String(), f.unjust.First)
			}
		})
	}
	covered := func(r judge.Row) bool {
		for what := range failing {
			if strings.HasPrefix(r.What, what) || strings.HasPrefix(r.What, "/") && strings.HasSuffix(what, r.What[len("/paid"):]) {
				return true
			}
		}
		return r.Report
	}
	for _, r := range rowsOf(sound()) {
		require.True(t, covered(r), "nothing shows that this can fail: %s", r.What)
	}
}

// A short run compares no CPU time: it may all fall on a moment in which the machine is busy.
func TestShortRunsCompareNoTime(t *testing.T) {
	f := sound()
	f.flood.cpu[1] = time.Second
	require.False(t, judge.Holds(rowsOf(f)))
	f.length = cpuLength - 1
	require.True(t, judge.Holds(rowsOf(f)))
}

// What a run did not come to is no failure if somebody has ended it; what it has seen is.
func TestInterrupted(t *testing.T) {
	f := sound()
	f.interrupted, f.kills, f.dropped, f.servedAtOnce = true, 0, 0, 0
	f.flood = phaseFindings{}
	require.True(t, judge.Holds(rowsOf(f)))
	f.excess.N = 1
	require.False(t, judge.Holds(rowsOf(f)))
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
			for i := range s {
				s[i] += float64(i) * times * allowed / 13
			}
			require.False(t, judge.Holds(rowsOf(f)), "%s: %v times", what, times)
			f.length = growthLength - 1
			require.Equal(t, times < growthShort, judge.Holds(rowsOf(f)), "%s: %v times", what, times)
		}
	}
}
