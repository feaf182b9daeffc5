// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
)

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

// Least is what middleware compares tallies by.
func TestLeast(t *testing.T) {
	p := compile(t, limiter.Limit{Quota: 9, Window: minute}, limiter.Limit{Quota: 4, Window: hour})
	_, v := p.Step(midnight, limiter.Tally{}, 1)
	require.Equal(t, int64(8), v.Least(1))
	require.Equal(t, int64(3), v.Least(2))
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
	require.Equal(t, midnight.Unix()+180, p.Expires(tally))
}

// Expires is when a carrier may drop the tally: not before it stops to matter.
func TestExpires(t *testing.T) {
	p := compile(t,
		limiter.Limit{Name: "a", Quota: 5, Window: minute},
		limiter.Limit{Name: "b", Algorithm: limiter.TokenBucket, Quota: 60, Window: minute, Burst: 600},
	)
	require.Zero(t, p.Expires(limiter.Tally{}))
	tally, _ := p.Step(midnight, limiter.Tally{}, 0)
	require.Zero(t, p.Expires(tally), "a peek has counted nothing")
	tally, _ = p.Step(midnight.Add(59*second), tally, 1)
	require.Equal(t, midnight.Unix()+180, p.Expires(tally), "the mark at 1:00 ends with the window after its own")
	for _, cost := range []int64{1, 3} {
		tally, v := p.Step(midnight, limiter.Tally{}, cost)
		require.True(t, v.Admitted)
		end := time.Unix(p.Expires(tally), 0)
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
		p, err := limiter.Compile("p", limits)
		require.NoError(t, err)
		tally, _ := p.Step(opening, limiter.Tally{}, 1)
		require.Equal(t, opening.Add(48*time.Hour).Unix(), p.Expires(tally))
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
			for _, same := range []*limiter.Policy{door.Scale(1), door.Share(1), door.Among(door)} {
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
