// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/lab/instance"
	"github.com/tallystick/tallystick/internal/lab/judge"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/testkit"
	"github.com/tallystick/tallystick/middleware"
)

// fleetTime is the short form of an hour. It is longer where the machine is busy: each thing must happen.
const fleetTime = "10s"

// Four processes serve, restart, rotate and reload, and nothing is wrong.
func TestFleetServes(t *testing.T) {
	requireLab(t)
	if testing.Short() {
		t.Skip("builds a server for the race detector, and has it serve for some seconds")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		testkit.Unable(t, "the race detector needs a C compiler: %v", err)
	}
	status, said := runLab(t, "-fleet", fleetTime)
	require.Zero(t, status)
	require.Regexp(t, `(?m)^races +0 +0 +ok`, said)
}

// judgesFleet reports whether a fleet is judged by a row.
func judgesFleet(row string) bool {
	return slices.ContainsFunc(judgeFleet(fleetFindings{}), func(r judge.Row) bool { return r.What == row })
}

// Where it is known when a request was decided, a meter says what the library decides: whatever
// the algorithm, at any pace.
func TestMetersAgreeWithTheLibrary(t *testing.T) {
	rules := rulesFor(time.Minute, 10*time.Second)
	for _, policy := range []string{instance.Sliding, instance.Fixed, instance.Bucket} {
		t.Run(policy, func(t *testing.T) {
			r := rules[policy]
			p, err := limiter.Compile(policy, r.limits)
			require.NoError(t, err)
			random := rand.New(rand.NewPCG(1, 2))
			var tally limiter.Tally
			var refused int
			m, now, quota := newMeter(r), time.Unix(1_800_000_000, 0), r.quota.Begin()()
			for range 3000 {
				now = now.Add(time.Duration(random.IntN(3)*random.IntN(4)) * time.Second / 2)
				at := span{now.UnixMicro(), now.UnixMicro()}
				after, v := p.Step(now, tally, 1)
				require.Equal(t, v.Admitted, m.room(at, quota))
				if tally = after; v.Admitted {
					m.charge(at, quota, false)
				} else {
					refused++
				}
			}
			require.Greater(t, refused, 100)
		})
	}
}

// Where it is not known, it calls no refusal wrong that may be right.
func TestMetersErrInFavourOfTheServer(t *testing.T) {
	const w = 10 * time.Second
	r := &rule{limits: []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 2, Window: w}, {Name: byOutcome, Quota: 1, Window: w}}}
	m, two := newMeter(r), judge.Spread{Least: 2, Most: 2}
	second := func(n int64) int64 { return n * 1e6 }
	m.charge(span{second(8), second(12)}, two, false) // in either window
	require.True(t, m.room(span{second(13), second(13)}, two))
	require.False(t, m.room(span{second(13), second(13)}, judge.Spread{Least: 1, Most: 2}), "the quota may have been lower")
	m.charge(span{second(13), second(13)}, two, false)
	require.False(t, m.room(span{second(14), second(14)}, two))
	require.False(t, m.room(span{second(14), second(21)}, two), "it may have come early")
	require.True(t, m.room(span{second(21), second(21)}, two))
	m.charge(span{second(21), second(21)}, two, true)
	require.False(t, m.room(span{second(22), second(22)}, two), "of failures there was one")
	require.True(t, newMeter(&rule{}).room(span{0, 1}, judge.Spread{}), "what has no limit has room")
}

// A hostile client may have (N+C)·L in a window, by the largest quota that was in it.
func TestRaidsHaveABound(t *testing.T) {
	r := &raid{rule: &rule{limits: []middleware.Limit{{Quota: 2, Window: 10 * time.Second}}}, admitted: map[int64]int64{}, most: map[int64]int64{}}
	for range 2*fleetSize + 2 {
		r.admit(span{31e6, 32e6}, 2)
	}
	r.admit(span{39e6, 40e6}, 2) // in which one, nobody knows
	excess, most := r.over(nil)
	require.EqualValues(t, 2, excess)
	require.Equal(t, fmt.Sprintf("%d of %d", 2*fleetSize+2, 2*fleetSize), most)
	excess, _ = r.over([]span{{25e6, 30e6}})
	require.Zero(t, excess, "one has started in it")
	r.admit(span{31e6, 32e6}, 3)
	excess, _ = r.over(nil)
	require.Zero(t, excess, "the quota went up")
}

// A fleet that is as it should be passes; each thing that may be wrong is found, and named.
func TestFleetsAreJudged(t *testing.T) {
	some := func(n float64) judge.Series { return slices.Repeat(judge.Series{n}, 20) }
	right := func() fleetFindings {
		return fleetFindings{
			length: time.Minute, kinds: map[string][4]int64{"sliding": {9, 8, 1, 0}}, raids: map[string]raided{"drops": {0, "8 of 10"}},
			restarts: 1, rotations: 1, reloads: 1, refusedFiles: 1, heap: some(80 << 20), goroutines: some(40),
		}
	}
	require.True(t, judge.Holds(judgeFleet(right())))
	one := judge.Found{N: 1, First: "what it was"}
	for what, breaks := range map[string]func(*fleetFindings){
		"deaths":                        func(f *fleetFindings) { f.deaths = one },
		"races":                         func(f *fleetFindings) { f.races = one },
		"temporary files":               func(f *fleetFindings) { f.files = 1 },
		"refused with room":             func(f *fleetFindings) { f.unjust = one },
		"no answer":                     func(f *fleetFindings) { f.lost = one },
		"an answer that was cut":        func(f *fleetFindings) { f.broken = one },
		"hostile, admitted":             func(f *fleetFindings) { f.raids["drops"] = raided{1, "11 of 10"} },
		"heap":                          func(f *fleetFindings) { f.heap = append(some(80<<20), slices.Repeat(judge.Series{85 << 20}, 20)...) },
		"its goroutines":                func(f *fleetFindings) { f.goroutines = append(some(40), slices.Repeat(judge.Series{90}, 20)...) },
		"restarts":                      func(f *fleetFindings) { f.restarts = 0 },
		"rotations":                     func(f *fleetFindings) { f.rotations = 0 },
		"policy files read":             func(f *fleetFindings) { f.reloads = 0 },
		"policy files that were broken": func(f *fleetFindings) { f.refusedFiles = 0 },
	} {
		f := right()
		breaks(&f)
		var said strings.Builder
		rows := judgeFleet(f)
		require.NoError(t, judge.Write(&said, rows))
		wrong := slices.DeleteFunc(rows, func(r judge.Row) bool { return r.OK })
		require.Len(t, wrong, 1, what)
		require.True(t, strings.HasPrefix(wrong[0].What, what) || strings.Contains(wrong[0].What, what), wrong[0].What)
		require.Contains(t, said.String(), "\nFAILED: "+wrong[0].What)
	}
	brief := right()
	brief.length, brief.goroutines = steadyLength-1, append(some(10), slices.Repeat(judge.Series{90}, 20)...)
	require.True(t, judge.Holds(judgeFleet(brief)), "in the first quarter not all had come")
	short := right()
	short.restarts, short.interrupted = 0, true
	require.True(t, judge.Holds(judgeFleet(short)), "a Ctrl-C came first")
}

// The answers of honest clients are judged as they come.
func TestRefusalsAreJudged(t *testing.T) {
	f := &fleet{kinds: map[string]*kind{}}
	r := &rule{limits: []middleware.Limit{{Quota: 1, Window: 24 * time.Hour}}, quota: judge.NewQuotas(1)}
	m := newMeter(r)
	answers := func(status int, err error) {
		f.hears("any", m, func() (answer, error) { return answer{status: status}, err })
	}
	answers(429, nil)
	require.EqualValues(t, 1, f.unjust.Read().N, "it had room")
	answers(204, nil)
	answers(429, nil)
	require.EqualValues(t, 1, f.unjust.Read().N, "it had none")
	answers(502, nil)
	require.EqualValues(t, 1, f.lost.Read().N)
	f.away.Change()
	answers(0, fmt.Errorf("cut"))
	require.EqualValues(t, 1, f.lost.Read().N, "a process was away")
	k := f.kind("any")
	require.Equal(t, []int64{5, 1, 2, 2}, []int64{k.sent.Load(), k.admitted.Load(), k.refused.Load(), k.lost.Load()})
	require.Equal(t, []string{"any"}, slices.Collect(maps.Keys(f.kinds)))
}
