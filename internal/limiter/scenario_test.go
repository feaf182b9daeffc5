// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// A row is one request of a scenario, and what must come of it.
type row struct {
	at       time.Duration // since midnight
	cost     int64
	admitted bool
	left     int64 // Remaining of the first limit afterwards
	wait     int   // Verdict.Wait, seconds
	reset    int   // Reset of the first limit, seconds
	under    int   // which of the scenario's policies is in force
}

// A scenario is a sequence of requests of one tally.
type scenario struct {
	name     string
	policies []limiter.Limit // one limit each, of one shape: tiers
	rows     []row
}

// play runs every scenario over every carrier: a tally that is echoed, a memory
// alone, and both. The arithmetic is one, so the verdicts must be too.
func play(t *testing.T, scenarios []scenario) {
	carriers := []struct {
		name string
		ask  func(m *limiter.Memory, p *limiter.Policy, now time.Time, shown limiter.Tally, cost int64) (limiter.Tally, limiter.Verdict)
	}{
		{"echo", func(_ *limiter.Memory, p *limiter.Policy, now time.Time, shown limiter.Tally, cost int64) (limiter.Tally, limiter.Verdict) {
			return p.Step(now, shown, cost)
		}},
		{"memory", func(m *limiter.Memory, p *limiter.Policy, now time.Time, _ limiter.Tally, cost int64) (limiter.Tally, limiter.Verdict) {
			return m.Take(now, p, &limiter.Candidate{Key: 1}, cost)
		}},
		{"both", func(m *limiter.Memory, p *limiter.Policy, now time.Time, shown limiter.Tally, cost int64) (limiter.Tally, limiter.Verdict) {
			return m.Take(now, p, &limiter.Candidate{Key: 1, Shown: shown}, cost)
		}},
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			policies := make([]*limiter.Policy, len(s.policies))
			for i, l := range s.policies {
				policies[i] = compile(t, l)
			}
			policies = tiersOf(policies...)
			for _, c := range carriers {
				t.Run(c.name, func(t *testing.T) {
					m := limiter.NewMemory(1, 1)
					var shown limiter.Tally
					for i, row := range s.rows {
						tally, v := c.ask(m, policies[row.under], midnight.Add(row.at), shown, row.cost)
						shown = tally
						got := row
						got.admitted, got.left = v.Admitted, v.Limits[0].Remaining
						got.wait, got.reset = int(v.Wait/second), int(v.Limits[0].Reset/second)
						require.Equal(t, row, got, "row %d", i)
						require.Equal(t, !row.admitted, v.Limits[0].Blocked, "row %d", i)
						require.Equal(t, row.cost > policies[row.under].Capacity(), v.Impossible, "row %d", i)
					}
				})
			}
		})
	}
}

func TestSlidingWindow(t *testing.T) {
	five := limiter.Limit{Quota: 5, Window: minute}
	play(t, []scenario{
		{"a burst, and the way back", []limiter.Limit{five}, []row{
			{at: 0, cost: 1, admitted: true, left: 4, reset: 120},
			{at: 0, cost: 1, admitted: true, left: 3, reset: 90},
			{at: 0, cost: 1, admitted: true, left: 2, reset: 80},
			{at: 0, cost: 1, admitted: true, left: 1, reset: 75},
			{at: 0, cost: 1, admitted: true, left: 0, reset: 72},
			{at: 0, cost: 1, wait: 72, reset: 72},
			{at: minute - tick, cost: 1, wait: 13, reset: 13},
			{at: minute, cost: 1, wait: 12, reset: 12},
			{at: 72*second - tick, cost: 1, wait: 1, reset: 1},
			{at: 72 * second, cost: 1, admitted: true, left: 0, reset: 12},
			{at: 84*second - tick, cost: 1, wait: 1, reset: 1},
			{at: 84 * second, cost: 1, admitted: true, left: 0, reset: 12},
		}},
		{"the previous window weighs until its last microsecond", []limiter.Limit{five}, []row{
			{at: 0, cost: 5, admitted: true, reset: 72},
			{at: 2*minute - tick, cost: 5, wait: 1, reset: 1, left: 4},
			{at: 2*minute - tick, cost: 4, admitted: true, left: 0, reset: 1},
			{at: 2 * minute, cost: 1, admitted: true, left: 0, reset: 15},
		}},
		{"2L-1 in one window's length is the worst", []limiter.Limit{five}, []row{
			{at: minute - tick, cost: 5, admitted: true, reset: 13},
			{at: minute, cost: 1, wait: 12, reset: 12},
			{at: 2*minute - 2*tick, cost: 5, wait: 1, left: 4, reset: 1},
			{at: 2*minute - 2*tick, cost: 4, admitted: true, reset: 1},
		}},
		{"a part of a microsecond is waited for too", []limiter.Limit{{Quota: 8, Window: minute}}, []row{
			{at: 0, cost: 7, admitted: true, left: 1, reset: 69},
			{at: minute + 428_571*tick, cost: 7, wait: 52, reset: 52, left: 1},
			{at: minute + 51*second + 428_571*tick, cost: 7, wait: 1, reset: 1, left: 6},
			{at: minute + 52*second + 428_571*tick, cost: 7, admitted: true, left: 0, reset: 8},
		}},
		{"two windows deep nothing is left of it", []limiter.Limit{five}, []row{
			{at: 0, cost: 5, admitted: true, reset: 72},
			{at: 2 * minute, cost: 0, admitted: true, left: 5},
			{at: 2 * minute, cost: 5, admitted: true, reset: 72},
			{at: 1000 * hour, cost: 5, admitted: true, reset: 72},
		}},
		{"a window without requests between two with", []limiter.Limit{five}, []row{
			{at: 30 * second, cost: 3, admitted: true, left: 2, reset: 50},
			{at: 150 * second, cost: 5, admitted: true, reset: 42},
		}},
		{"costs: 0 peeks, the quota fits, more never does", []limiter.Limit{five}, []row{
			{at: 0, cost: 0, admitted: true, left: 5},
			{at: 0, cost: 6, left: 5},
			{at: 0, cost: 3, admitted: true, left: 2, reset: 80},
			{at: 0, cost: 0, admitted: true, left: 2, reset: 80},
			{at: 0, cost: 3, wait: 80, left: 2, reset: 80},
			{at: 0, cost: 5, wait: 120, left: 2, reset: 120},
			{at: 0, cost: 6, left: 2, reset: 80},
			{at: 0, cost: 1 << 40, left: 2, reset: 80},
			{at: 0, cost: 2, admitted: true, reset: 72},
			{at: 0, cost: 0, admitted: true, reset: 72},
		}},
		{"a refusal charges nothing", []limiter.Limit{five}, []row{
			{at: 0, cost: 4, admitted: true, left: 1, reset: 75},
			{at: second, cost: 2, wait: 74, left: 1, reset: 74},
			{at: second, cost: 2, wait: 74, left: 1, reset: 74},
			{at: second, cost: 1, admitted: true, reset: 71},
		}},
		{"a quota applies at once, lowered or raised", []limiter.Limit{five, {Quota: 2, Window: minute}, {Quota: 9, Window: minute}}, []row{
			{at: 0, cost: 4, admitted: true, left: 1, reset: 75},
			{at: 0, cost: 1, wait: 105, reset: 105, under: 1},
			{at: 0, cost: 0, admitted: true, reset: 105, under: 1},
			{at: 0, cost: 5, admitted: true, left: 0, reset: 67, under: 2},
			{at: 0, cost: 1, wait: 94, reset: 94},
			{at: 0, cost: 3, left: 0, reset: 114, under: 1},
			{at: 105 * second, cost: 1, wait: 9, reset: 9, under: 1},
			{at: 114 * second, cost: 1, admitted: true, reset: 6, under: 1},
		}},
		{"a window of one second", []limiter.Limit{{Quota: 3, Window: second}}, []row{
			{at: 0, cost: 3, admitted: true, reset: 2},
			{at: second - tick, cost: 1, wait: 1, reset: 1},
			{at: second + second/3, cost: 1, wait: 1, reset: 1},
			{at: second + second/3 + tick, cost: 1, admitted: true, reset: 1},
			{at: 3 * second, cost: 3, admitted: true, reset: 2},
		}},
	})
}

func TestFixedWindow(t *testing.T) {
	five := limiter.Limit{Algorithm: limiter.FixedWindow, Quota: 5, Window: minute}
	two := five
	two.Quota = 2
	play(t, []scenario{
		{"a boundary forgets", []limiter.Limit{five}, []row{
			{at: 20 * second, cost: 4, admitted: true, left: 1, reset: 40},
			{at: minute - tick, cost: 2, wait: 1, left: 1, reset: 1},
			{at: minute - tick, cost: 1, admitted: true, reset: 1},
			{at: minute, cost: 5, admitted: true, reset: 60}, // 2L within a microsecond
			{at: minute, cost: 1, wait: 60, reset: 60},
			{at: 2*minute - tick, cost: 1, wait: 1, reset: 1},
			{at: 2 * minute, cost: 0, admitted: true, left: 5},
			{at: 90 * day, cost: 5, admitted: true, reset: 60},
		}},
		{"costs: 0 peeks, the quota fits, more never does", []limiter.Limit{five}, []row{
			{at: 0, cost: 6, left: 5},
			{at: 0, cost: 5, admitted: true, reset: 60},
			{at: 0, cost: 0, admitted: true, reset: 60},
			{at: 0, cost: 6, reset: 60},
		}},
		{"a quota applies at once, lowered or raised", []limiter.Limit{five, two}, []row{
			{at: 0, cost: 3, admitted: true, left: 2, reset: 60},
			{at: 0, cost: 1, wait: 60, reset: 60, under: 1},
			{at: 0, cost: 0, admitted: true, reset: 60, under: 1},
			{at: 0, cost: 2, admitted: true, reset: 60},
			{at: minute, cost: 2, admitted: true, reset: 60, under: 1},
			{at: minute, cost: 3, admitted: true, reset: 60},
		}},
	})
}

func TestTokenBucket(t *testing.T) {
	bucket := func(quota, burst int64) limiter.Limit {
		return limiter.Limit{Algorithm: limiter.TokenBucket, Quota: quota, Window: minute, Burst: burst}
	}
	play(t, []scenario{
		{"a burst, then one a second", []limiter.Limit{bucket(60, 3)}, []row{
			{at: 0, cost: 1, admitted: true, left: 2, reset: 1},
			{at: 0, cost: 2, admitted: true, left: 0, reset: 1},
			{at: 0, cost: 1, wait: 1, reset: 1},
			{at: 0, cost: 3, wait: 3, reset: 3},
			{at: second - tick, cost: 1, wait: 1, reset: 1},
			{at: second, cost: 1, admitted: true, reset: 1},
			{at: 4*second - tick, cost: 3, wait: 1, left: 2, reset: 1},
			{at: 4 * second, cost: 0, admitted: true, left: 3},
			{at: 4 * second, cost: 3, admitted: true, reset: 1},
			{at: 90 * day, cost: 3, admitted: true, reset: 1},
		}},
		{"costs: 0 peeks, the burst fits, more never does", []limiter.Limit{bucket(60, 3)}, []row{
			{at: 0, cost: 0, admitted: true, left: 3},
			{at: 0, cost: 4, left: 3},
			{at: 0, cost: 60, left: 3},
			{at: 0, cost: 3, admitted: true, reset: 1},
			{at: 0, cost: 4, reset: 1},
		}},
		{"the burst defaults to the quota", []limiter.Limit{bucket(6, 0)}, []row{
			{at: 0, cost: 6, admitted: true, reset: 10},
			{at: 10*second - tick, cost: 1, wait: 1, reset: 1},
			{at: 10 * second, cost: 1, admitted: true, reset: 10},
		}},
		// 60 s over 7 is 8,571,428.57 µs: T is 8,571,429.
		{"the interval rounds up", []limiter.Limit{bucket(7, 2)}, []row{
			{at: 0, cost: 2, admitted: true, reset: 9},
			{at: 8_571_428 * tick, cost: 1, wait: 1, reset: 1},
			{at: 8_571_429 * tick, cost: 1, admitted: true, reset: 9},
			{at: 17_142_857 * tick, cost: 1, wait: 1, reset: 1},
			{at: 17_142_858 * tick, cost: 1, admitted: true, reset: 9},
		}},
		{"what is owed is time: a new rate asks for it at its own pace", []limiter.Limit{bucket(60, 3), bucket(6, 3)}, []row{
			{at: 0, cost: 3, admitted: true, reset: 1},
			{at: 0, cost: 1, admitted: true, left: 1, reset: 3, under: 1},
			{at: 0, cost: 1, wait: 11, reset: 11},
		}},
		{"a larger burst is there at once, a smaller one is paid down to", []limiter.Limit{bucket(60, 3), bucket(60, 10), bucket(60, 1)}, []row{
			{at: 0, cost: 3, admitted: true, reset: 1},
			{at: 0, cost: 7, admitted: true, reset: 1, under: 1},
			{at: 0, cost: 1, wait: 8, reset: 8},
			{at: 0, cost: 1, wait: 10, reset: 10, under: 2},
			{at: 10*second - tick, cost: 1, wait: 1, reset: 1, under: 2},
			{at: 10 * second, cost: 1, admitted: true, reset: 1, under: 2},
		}},
		// A client that moves between tiers keeps its tally. The lower tier must
		// not shorten what the higher one is owed, however often it looks.
		{"a peek by a tier of a smaller burst forgives nothing", []limiter.Limit{bucket(60, 600), bucket(60, 1)}, []row{
			{at: 0, cost: 100, admitted: true, left: 500, reset: 1},
			{at: 0, cost: 0, admitted: true, reset: 100, under: 1},
			{at: 0, cost: 1, wait: 100, reset: 100, under: 1},
			{at: 0, cost: 500, admitted: true, reset: 1},
			{at: 0, cost: 1, wait: 1, reset: 1},
		}},
	})
}

func TestLeakyBucket(t *testing.T) {
	meter := limiter.Limit{Algorithm: limiter.LeakyBucket, Quota: 12, Window: minute}
	fast, third := meter, meter
	fast.Quota = 60
	third.Quota, third.Window = 3, second
	play(t, []scenario{
		{"one each interval, and no credit", []limiter.Limit{meter}, []row{
			{at: 0, cost: 1, admitted: true, reset: 5},
			{at: 0, cost: 1, wait: 5, reset: 5},
			{at: 5*second - tick, cost: 1, wait: 1, reset: 1},
			{at: 5 * second, cost: 1, admitted: true, reset: 5},
			{at: hour, cost: 1, admitted: true, reset: 5},
			{at: hour, cost: 1, wait: 5, reset: 5},
		}},
		{"costs: 0 peeks, 1 fits, more never does", []limiter.Limit{meter}, []row{
			{at: 0, cost: 0, admitted: true, left: 1},
			{at: 0, cost: 2, left: 1},
			{at: 0, cost: 1, admitted: true, reset: 5},
			{at: 0, cost: 2, reset: 5},
		}},
		{"a quota applies to what comes after", []limiter.Limit{meter, fast}, []row{
			{at: 0, cost: 1, admitted: true, reset: 5},
			{at: 4 * second, cost: 1, wait: 1, reset: 1, under: 1},
			{at: 5 * second, cost: 1, admitted: true, reset: 1, under: 1},
			{at: 6*second - tick, cost: 1, wait: 1, reset: 1},
			{at: 6 * second, cost: 1, admitted: true, reset: 5},
		}},
		{"the interval rounds up", []limiter.Limit{third}, []row{
			{at: 0, cost: 1, admitted: true, reset: 1},
			{at: 333_333 * tick, cost: 1, wait: 1, reset: 1},
			{at: 333_334 * tick, cost: 1, admitted: true, reset: 1},
			{at: 666_667 * tick, cost: 1, wait: 1, reset: 1},
			{at: 666_668 * tick, cost: 1, admitted: true, reset: 1},
		}},
	})
}

func TestAMarkThatHasPassedIsNone(t *testing.T) {
	p := compile(t, limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 60, Window: time.Minute})
	tally, _ := p.Step(opening, limiter.Tally{}, 5)
	for _, after := range []time.Duration{5 * time.Second, time.Hour} {
		then := opening.Add(after)
		require.Zero(t, p.Merge(then, tally, limiter.Tally{}))
		require.False(t, p.Exceeds(then, tally, limiter.Tally{}))
		left, _ := p.Step(then, tally, 0)
		require.Zero(t, p.Expires(&left))
	}
	require.NotZero(t, p.Merge(opening.Add(5*time.Second-time.Microsecond), tally, limiter.Tally{}))
}

// All limits are checked, then all are charged, or none is.
func TestAllOrNothing(t *testing.T) {
	p := compile(t,
		limiter.Limit{Name: "minute", Quota: 3, Window: minute},
		limiter.Limit{Name: "day", Algorithm: limiter.FixedWindow, Quota: 4, Window: day},
		limiter.Limit{Name: "bucket", Algorithm: limiter.TokenBucket, Quota: 3600, Window: hour, Burst: 2},
		limiter.Limit{Name: "meter", Algorithm: limiter.LeakyBucket, Quota: 3600, Window: hour},
	)
	rows := []struct {
		at       time.Duration
		cost     int64
		admitted bool
		wait     time.Duration
		left     [4]int64
		blocked  [4]bool
	}{
		{0, 0, true, 0, [4]int64{3, 4, 2, 1}, [4]bool{}},
		{0, 1, true, 0, [4]int64{2, 3, 1, 0}, [4]bool{}},
		{0, 1, false, second, [4]int64{2, 3, 1, 0}, [4]bool{3: true}},                               // the last limit alone
		{0, 2, false, 0, [4]int64{2, 3, 1, 0}, [4]bool{2: true, 3: true}},                           // impossible for the meter
		{second, 1, true, 0, [4]int64{1, 2, 1, 0}, [4]bool{}},                                       // the bucket has leaked one too
		{2 * second, 1, true, 0, [4]int64{0, 1, 1, 0}, [4]bool{}},                                   //
		{3 * second, 1, false, 77 * second, [4]int64{0, 1, 2, 1}, [4]bool{true}},                    // the first alone
		{80 * second, 1, true, 0, [4]int64{0, 0, 1, 0}, [4]bool{}},                                  //
		{81 * second, 1, false, day - 81*second, [4]int64{0, 0, 2, 1}, [4]bool{true, true}},         // the longer wait of two
		{day - tick, 1, false, second, [4]int64{3, 0, 2, 1}, [4]bool{1: true}},                      // the second alone
		{day, 1, true, 0, [4]int64{2, 3, 1, 0}, [4]bool{}},                                          // and none was charged meanwhile
		{day, 5, false, 0, [4]int64{2, 3, 1, 0}, [4]bool{true, true, true, true}},                   // above every capacity
		{day + 10*second, 1 << 62, false, 0, [4]int64{2, 3, 2, 1}, [4]bool{true, true, true, true}}, //
	}
	m := limiter.NewMemory(1, p.Len())
	var shown limiter.Tally
	for i, row := range rows {
		now := midnight.Add(row.at)
		next, echoed := p.Step(now, shown, row.cost)
		_, remembered := m.Take(now, p, &limiter.Candidate{Key: 7}, row.cost)
		require.Equal(t, echoed, remembered, "row %d: the carriers agree", i)
		require.Equal(t, row.admitted, echoed.Admitted, "row %d", i)
		require.Equal(t, row.wait, echoed.Wait, "row %d", i)
		require.Equal(t, row.cost > 1, echoed.Impossible, "row %d: the meter's capacity is 1", i)
		for j := range row.left {
			require.Equal(t, row.left[j], echoed.Limits[j].Remaining, "row %d, limit %d", i, j)
			require.Equal(t, row.blocked[j], echoed.Limits[j].Blocked, "row %d, limit %d", i, j)
		}
		if !row.admitted {
			require.Equal(t, p.Merge(now, shown, shown), next, "row %d: a refusal only rolls", i)
		}
		shown = next
	}
	require.Equal(t, int64(1), p.Capacity())
}

// Minting quota with a negative cost is the classic fault of limiters that
// subtract what they are told.
func TestNegativeCostPanics(t *testing.T) {
	p := compile(t, limiter.Limit{Quota: 5, Window: minute})
	candidates := []limiter.Candidate{{Key: 1}, {Key: 2}}
	for _, m := range []*limiter.Memory{nil, limiter.NewMemory(1, 1)} {
		require.Panics(t, func() { p.Step(midnight, limiter.Tally{}, -1) })
		require.Panics(t, func() { m.Take(midnight, p, &candidates[0], -1) })
		require.Panics(t, func() { m.Choose(midnight, p, candidates, -1) })
		_, v := m.Take(midnight, p, &candidates[0], 5)
		require.True(t, v.Admitted, "and no lock is left behind")
	}
}

// What was counted in the window before the present one still matters.
func TestExpiresOfThePreviousWindow(t *testing.T) {
	p := compile(t, limiter.Limit{Quota: 5, Window: minute})
	tally, _ := p.Step(midnight, limiter.Tally{}, 5)
	tally, v := p.Step(midnight.Add(minute), tally, 0)
	require.Zero(t, v.Limits[0].Remaining)
	require.Equal(t, midnight.Unix()+180, p.Expires(&tally))
}

// Expires is when a carrier may drop the tally: not before it stops to matter.
func TestExpires(t *testing.T) {
	p := compile(t,
		limiter.Limit{Name: "a", Quota: 5, Window: minute},
		limiter.Limit{Name: "b", Algorithm: limiter.TokenBucket, Quota: 60, Window: minute, Burst: 600},
	)
	require.Zero(t, p.Expires(new(limiter.Tally)))
	tally, _ := p.Step(midnight, limiter.Tally{}, 0)
	require.Zero(t, p.Expires(&tally), "a peek has counted nothing")
	tally, _ = p.Step(midnight.Add(59*second), tally, 1)
	require.Equal(t, midnight.Unix()+180, p.Expires(&tally), "the mark at 1:00 ends with the window after its own")
	for _, cost := range []int64{1, 3} {
		tally, v := p.Step(midnight, limiter.Tally{}, cost)
		require.True(t, v.Admitted)
		end := time.Unix(p.Expires(&tally), 0)
		_, before := p.Step(end.Add(-minute-second), tally, 0)
		_, after := p.Step(end, tally, 0)
		require.Less(t, before.Limits[0].Remaining, int64(5), "cost %d", cost)
		require.Equal(t, [2]int64{5, 600}, [2]int64{after.Limits[0].Remaining, after.Limits[1].Remaining}, "cost %d", cost)
	}
}

func TestExpiresWithTheLimitThatLooksFurthest(t *testing.T) {
	day := limiter.Limit{Name: "day", Quota: 9, Window: 24 * time.Hour}
	minute := limiter.Limit{Name: "minute", Quota: 9, Window: time.Minute}
	for _, limits := range [][]limiter.Limit{{day, minute}, {minute, day}} {
		p := kit.Must(limiter.Compile("p", limits))(t)
		tally, _ := p.Step(opening, limiter.Tally{}, 1)
		require.Equal(t, opening.Add(48*time.Hour).Unix(), p.Expires(&tally))
	}
}

// A request that is charged in part at the door and in part later: the second limit checks
// what is held, is not charged, and leaves no cell behind.
func TestChargingOnlySomeLimits(t *testing.T) {
	for _, algorithm := range []limiter.Algorithm{limiter.FixedWindow, limiter.SlidingWindow, limiter.TokenBucket} {
		t.Run(algorithm.String(), func(t *testing.T) {
			p := compile(t,
				limiter.Limit{Name: "attempts", Quota: 100, Window: time.Minute},
				limiter.Limit{Name: "failures", Algorithm: algorithm, Quota: 5, Window: time.Minute},
			)
			door := p.Charging(func(i int) bool { return i == 0 })
			late := p.Charging(func(i int) bool { return i == 1 })
			for _, same := range []*limiter.Policy{door.Scale(1), door.Share(1), door.WithTiers(door)} {
				_, v := same.Step(time.Unix(0, 0), limiter.Tally{}, 5)
				require.EqualValues(t, 0, v.Limits[1].Remaining)
				tally, _ := same.Step(time.Unix(0, 0), limiter.Tally{}, 5)
				require.Zero(t, tally[1].Cur, "still charged later")
			}

			now := time.Unix(60_000_000, 0)
			m := limiter.NewMemory(64, 2)
			f := limiter.Candidate{Key: m.Key([]byte("a"))}
			for held := range int64(5) {
				f.Held = held
				tally, v := m.Take(now, door, &f, 1)
				require.True(t, v.Admitted)
				require.EqualValues(t, 1+held, tally[0].Cur)
				require.Zero(t, tally[1].Cur)
				require.EqualValues(t, 4-held, v.Limits[1].Remaining, "as if it were charged")
			}
			f.Held = 5
			tally, v := m.Take(now, door, &f, 1)
			require.False(t, v.Admitted)
			require.True(t, v.Limits[1].Blocked)
			require.Equal(t, time.Second, v.Wait, "nobody knows")
			require.EqualValues(t, 5, tally[0].Cur)

			for range 5 {
				m.Record(now, late, &f, 1)
			}
			f.Held = 0
			_, v = m.Take(now, door, &f, 1)
			require.False(t, v.Admitted)
			require.Greater(t, v.Wait, time.Second)
			tally, _ = m.Take(now, door, &f, 0)
			require.EqualValues(t, 5, tally[0].Cur, "Record charges what the door does not")
			tally = m.Restore(now, now, late, &f, 5)
			require.EqualValues(t, 5, tally[0].Cur)
			_, v = m.Take(now, door, &f, 0)
			require.EqualValues(t, 5, v.Limits[1].Remaining)

			_, v = m.Take(now, door, &f, 6)
			require.True(t, v.Impossible, "above the quota of a limit that is charged later")
		})
	}
}

// Where nothing is charged, nothing is left behind.
func TestChargingLeavesNoCell(t *testing.T) {
	p := compile(t, limiter.Limit{Quota: 5, Window: time.Minute})
	none := p.Charging(func(int) bool { return false })
	m, now := limiter.NewMemory(64, 1), time.Unix(60_000_000, 0)
	f := limiter.Candidate{Key: m.Key([]byte("a"))}
	_, v := m.Take(now, none, &f, 1)
	require.True(t, v.Admitted)
	require.Zero(t, m.Fill(now))
	m.Take(now, p, &f, 1)
	require.NotZero(t, m.Fill(now))
}

// midnight is a boundary of every window that divides a day, so that scenario
// times read as offsets from the start of a window.
var midnight = time.Unix(19675*86400, 0)

// opening is when a memory is made whose tests say no other time.
var opening = time.Unix(19800*86400, 0)

const (
	second = time.Second
	minute = time.Minute
	hour   = time.Hour
	day    = 24 * time.Hour
	tick   = time.Microsecond // the resolution of every decision
)

func compile(t testing.TB, limits ...limiter.Limit) *limiter.Policy {
	t.Helper()
	return kit.Must(limiter.Compile("test", limits))(t)
}

// tiersOf returns policies of one shape as tiers. Each knows the others.
func tiersOf(policies ...*limiter.Policy) []*limiter.Policy {
	tiers := make([]*limiter.Policy, len(policies))
	for i, p := range policies {
		tiers[i] = p.WithTiers(policies...)
	}
	return tiers
}

// lapse is how far ahead of the clock a mark of p's i-th limit may lie, if p has no
// other tiers: what its bucket can be owed, and the skew. owed is the former.
func lapse(p *limiter.Policy, i int) (lapse, owed int64) {
	l := p.Limit(i)
	owed = l.Burst * interval(l)
	return owed + min(5*second, l.Window/10).Microseconds(), owed
}

// wrong reports whether t has a mark that p takes for one of a wrong clock.
func wrong(p *limiter.Policy, now time.Time, t limiter.Tally) bool {
	for i := range p.Len() {
		if most, _ := lapse(p, i); isBucket(p.Limit(i).Algorithm) && t[i].At-now.UnixMicro() > most {
			return true
		}
	}
	return false
}

// each runs f under a few fixed seeds; the name of the subtest is the seed.
func each(t *testing.T, seeds int, f func(t *testing.T, r *rand.Rand)) {
	t.Helper()
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			f(t, rand.New(rand.NewPCG(seed, 0x7a11)))
		})
	}
}

// algorithms are all of them, for properties that hold whatever the arithmetic.
var algorithms = []limiter.Algorithm{
	limiter.SlidingWindow, limiter.FixedWindow, limiter.TokenBucket, limiter.LeakyBucket,
}

func isBucket(a limiter.Algorithm) bool {
	return a == limiter.TokenBucket || a == limiter.LeakyBucket
}

// take asks for one tally that shows nothing: the memory alone decides.
func take(m *limiter.Memory, p *limiter.Policy, now time.Time, key limiter.Key, cost int64) limiter.Verdict {
	_, v := m.Take(now, p, &limiter.Candidate{Key: key}, cost)
	return v
}

// drain takes units of one until the first refusal, and returns how many passed;
// it gives up on a limiter that never refuses.
func drain(m *limiter.Memory, p *limiter.Policy, now time.Time, f limiter.Candidate) (n int64) {
	for n < 1e6 {
		if _, v := m.Take(now, p, &f, 1); !v.Admitted {
			break
		}
		n++
	}
	return n
}

// numbered is the n-th key of a kind.
func numbered(m *limiter.Memory, kind byte, n int) limiter.Key {
	identity := [9]byte{kind}
	binary.LittleEndian.PutUint64(identity[1:], uint64(n))
	return m.Key(identity[:])
}

func TestMain(m *testing.M) {
	kit.CollectLess()
	os.Exit(m.Run())
}
