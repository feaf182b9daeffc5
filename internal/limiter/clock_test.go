// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
)

// A clock that steps back, NTP's correction or a resumed machine, hands out no
// fresh quota, and nobody stays locked out until the clock is there again.
func TestClockStepsBack(t *testing.T) {
	for _, a := range algorithms {
		for _, window := range []time.Duration{second, 10 * second, minute, hour, day} {
			for _, back := range []time.Duration{second, 30 * second, hour, 25 * hour, 400 * day} {
				t.Run(a.String()+"/"+window.String()+"/"+back.String(), func(t *testing.T) {
					const quota = 6
					p := compile(t, limiter.Limit{Algorithm: a, Quota: quota, Window: window})
					m := limiter.NewMemory(1, 1)
					before := midnight.Add(window / 3)
					require.Equal(t, p.Capacity(), drain(m, p, before, limiter.Candidate{Key: 1}))
					spent, _ := p.Step(before, limiter.Tally{}, p.Capacity())

					now := before.Add(-back)
					require.Zero(t, drain(m, p, now, limiter.Candidate{Key: 1}), "no fresh quota")
					require.Zero(t, drain(m, p, now, limiter.Candidate{Key: 1, Shown: spent}), "nor with the old token")

					v := take(m, p, now, 1, 1)
					require.LessOrEqual(t, v.Wait, 2*window+second, "and the wait is one of the new clock")
					require.True(t, take(m, p, now.Add(v.Wait), 1, 1).Admitted, "which is true")
					require.Equal(t, p.Capacity(), take(m, p, now.Add(v.Wait+2*window+second), 1, 0).Limits[0].Remaining,
						"two windows later all is as it was")
				})
			}
		}
	}
}

// Of two windows that the memory holds, the fuller one counts after a step back:
// it may be the one that the clock comes to again.
func TestClockStepsBackIntoTheFullerWindow(t *testing.T) {
	p := compile(t, limiter.Limit{Quota: 5, Window: minute})
	for _, row := range []struct{ first, second int64 }{{5, 1}, {1, 4}, {3, 3}} {
		m := limiter.NewMemory(1, 1)
		require.True(t, take(m, p, midnight, 1, row.first).Admitted)
		require.True(t, take(m, p, midnight.Add(2*minute-tick), 1, row.second).Admitted)
		left := take(m, p, midnight.Add(30*second), 1, 0).Limits[0].Remaining
		require.Equal(t, 5-max(row.first, row.second), left, "%+v", row)
	}
}

// Looking again and again at a memory whose clock stepped back must not carry
// the count along with the clock.
func TestClockStepsBackUnderLoad(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			p := compile(t, limiter.Limit{Algorithm: a, Quota: 10, Window: minute})
			m := limiter.NewMemory(1, 1)
			drain(m, p, midnight, limiter.Candidate{Key: 1})
			now := midnight.Add(-hour)
			admitted := int64(0)
			for end := now.Add(2 * minute); now.Before(end); now = now.Add(second) {
				admitted += drain(m, p, now, limiter.Candidate{Key: 1})
			}
			require.Greater(t, admitted, int64(5), "clients who ask every second recover")
			require.LessOrEqual(t, admitted, int64(2*10), "and get no more than two windows' worth")
		})
	}
}

// However the clock wanders within a memory's life, the tally gets a quota for
// each window that the clock enters going forward, and none for going back.
func TestClockWanders(t *testing.T) {
	for _, a := range []limiter.Algorithm{limiter.SlidingWindow, limiter.FixedWindow} {
		t.Run(a.String(), func(t *testing.T) {
			each(t, 8, func(t *testing.T, r *rand.Rand) {
				const quota, window = 5, 10
				p := compile(t, limiter.Limit{Algorithm: a, Quota: quota, Window: window * second})
				m := limiter.NewMemory(1, 1)
				now, entered, admitted := midnight, int64(1), int64(0)
				for range 200 {
					next := now.Add(time.Duration(r.Int64N(int64(2 * second))))
					if r.IntN(10) == 0 {
						next = now.Add(-time.Duration(r.Int64N(int64(window * 3 * second))))
					}
					entered += max(0, next.Unix()/window-now.Unix()/window)
					now = next
					admitted += drain(m, p, now, limiter.Candidate{Key: 1})
					require.LessOrEqual(t, admitted, quota*entered)
				}
				require.Greater(t, admitted, int64(10), "the workload admits")
			})
		})
	}
}

// A tier of a smaller bucket that looks at the same tally is no clock that
// stepped back: what the larger one is owed stays owed.
func TestSmallerTierForgivesNothing(t *testing.T) {
	bucket := func(burst int64) *limiter.Policy {
		return compile(t, limiter.Limit{Name: "b", Algorithm: limiter.TokenBucket, Quota: 60, Window: minute, Burst: burst})
	}
	tiers := tiersOf(bucket(1000), bucket(1))
	large, small := tiers[0], tiers[1]
	m := limiter.NewMemory(1, 1)
	admitted := int64(0)
	for range 20 {
		admitted += drain(m, large, midnight, limiter.Candidate{Key: 1})
		require.False(t, take(m, small, midnight, 1, 1).Admitted)
		take(m, small, midnight, 1, 0)
	}
	require.Equal(t, int64(1000), admitted)

	// And a real step back is told apart, by whichever tier looks first: the debt
	// is then that of the spent bucket that it was, and no less.
	v := take(m, small, midnight.Add(-hour), 1, 1)
	require.Equal(t, 1000*second, v.Wait)
	require.Zero(t, drain(m, large, midnight.Add(-hour), limiter.Candidate{Key: 1}), "the small tier has forgiven nothing")

	// A client of the small tier owes what that can be owed, whatever the large one.
	take(m, small, midnight, 2, 1)
	require.LessOrEqual(t, take(m, small, midnight.Add(-hour), 2, 1).Wait, 2*second)
}

// An instance whose clock is three seconds behind is shown a token of the next
// window: the window before weighs in full there, and no more than that.
func TestAWindowAheadIsAtItsBeginning(t *testing.T) {
	p := compile(t, limiter.Limit{Quota: 100, Window: time.Minute})
	before, _ := p.Step(opening.Add(59*time.Second), limiter.Tally{}, 60)
	ahead, _ := p.Step(opening.Add(time.Minute), before, 10)
	_, v := p.Step(opening.Add(57*time.Second), ahead, 0)
	require.EqualValues(t, 100-60-10, v.Limits[0].Remaining)
}

// What a clock has counted that is ahead by more than is allowed tells so, by as much as lies before its
// window, and nothing that a clock within the skew has counted does.
func TestAhead(t *testing.T) {
	p := compile(t,
		limiter.Limit{Name: "minute", Quota: 100, Window: minute},
		limiter.Limit{Name: "day", Algorithm: limiter.FixedWindow, Quota: 100, Window: day},
		limiter.Limit{Name: "bucket", Algorithm: limiter.TokenBucket, Quota: 100, Window: day, Burst: 100})
	rnd := rand.New(rand.NewPCG(20, 26))
	for range 3000 {
		now := midnight.Add(time.Duration(rnd.Int64N(int64(2 * day))))
		fast := time.Duration(rnd.Int64N(int64(3*minute))) - minute
		if rnd.IntN(4) == 0 {
			fast *= 1000
		}
		counted, v := p.Step(now.Add(fast), limiter.Tally{}, 90) // a bucket that owes nearly a day
		require.True(t, v.Admitted)
		start := now.Add(fast).Truncate(minute)
		want := start.Sub(now.Truncate(tick))
		if want <= 5*second {
			want = 0
		}
		require.Equal(t, want, p.Ahead(now, &counted), "%v by a clock that is %v ahead", now, fast)
	}
	pass := p.Pass(hour)
	counted, _ := pass.Step(midnight.Add(2*minute), limiter.Tally{}, 1)
	require.Equal(t, 2*minute, pass.Ahead(midnight, &counted))
	require.Positive(t, p.Ahead(midnight, &limiter.Tally{{At: math.MaxInt64}}), "and no time that has overflowed")
	for _, at := range []int64{math.MaxInt64, math.MinInt64, -1} {
		require.NotPanics(t, func() { p.Ahead(midnight, &limiter.Tally{{At: at}, {At: at}, {At: at}}) })
		require.GreaterOrEqual(t, p.Ahead(midnight, &limiter.Tally{{At: at}}), time.Duration(0))
	}
}

// The bound is one of windows, by the clock that is ahead: by the right clock, what
// two instances five seconds apart admit in one of its minutes may be 4L−1, since
// each grants what belongs to the next window early. Over two windows it is 2·2L.
func TestFixedWindowAcrossSkew(t *testing.T) {
	const quota = 100
	p := compile(t, limiter.Limit{Algorithm: limiter.FixedWindow, Quota: quota, Window: minute})
	right, fast := limiter.NewMemory(1, 1), limiter.NewMemory(1, 1)
	admitted, minuteOf := int64(0), func(now time.Time) int64 { return now.Unix() / 60 }
	spend := func(m *limiter.Memory, now, clock time.Time, shown limiter.Tally) {
		require.Equal(t, minuteOf(midnight), minuteOf(now), "one minute of the right clock")
		admitted += drain(m, p, clock, limiter.Candidate{Key: 1, Shown: shown})
	}
	spend(right, midnight, midnight, limiter.Tally{})
	spend(fast, midnight, midnight.Add(5*second), limiter.Tally{})
	require.Equal(t, int64(2*quota), admitted)

	late := midnight.Add(56 * second)
	next, v := fast.Take(late.Add(5*second), p, &limiter.Candidate{Key: 1}, 1)
	require.True(t, v.Admitted, "the fast one is in the next window")
	admitted++
	spend(right, late, late, next) // which a token of it opens on the right one
	spend(fast, late, late.Add(5*second), limiter.Tally{})
	require.Equal(t, int64(4*quota-1), admitted)

	for now := late; now.Before(midnight.Add(2*minute - 5*second)); now = now.Add(second) {
		admitted += drain(right, p, now, limiter.Candidate{Key: 1, Shown: next})
		admitted += drain(fast, p, now.Add(5*second), limiter.Candidate{Key: 1, Shown: next})
	}
	require.LessOrEqual(t, admitted, int64(2*2*quota), "the sum is right")
}

// Who spends a large tier's burst and shows that to a fresh instance in a small
// tier does not get a fresh bucket there.
func TestDebtOfALargerTierIsOwed(t *testing.T) {
	bucket := func(quota, burst int64) *limiter.Policy {
		p := compile(t, limiter.Limit{Algorithm: limiter.TokenBucket, Quota: quota, Burst: burst, Window: 10 * time.Second})
		return p
	}
	now := time.Unix(1_800_000_000, 0)
	tiers := tiersOf(bucket(2, 8), bucket(10, 1))
	spent, v := tiers[0].Step(now, limiter.Tally{}, 8)
	require.True(t, v.Admitted)
	_, v = tiers[1].Step(now, spent, 1)
	require.False(t, v.Admitted)
	require.Equal(t, 40*time.Second, v.Wait)
}
