// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// within folds any v into [low, high].
func within(v, low, high int64) int64 {
	if low <= v && v <= high {
		return v
	}
	return low + int64(uint64(v)%uint64(high-low+1))
}

// FuzzStep shows a limit every state that a signed token may carry, also one
// signed by a program with the key and without sense: exp and age have the
// bounds of the token's payload.
func FuzzStep(f *testing.F) {
	const most = 1 << 53
	f.Add(uint8(0), int64(5), int64(60), int64(0), midnight.UnixMicro(), midnight.Unix()+120, int64(2), uint32(3), uint32(4), int64(1))
	f.Fuzz(func(t *testing.T, algorithm uint8, quota, seconds, burst, now, exp, age int64, cur, prev uint32, cost int64) {
		l := limiter.Limit{
			Name:      "l",
			Algorithm: algorithms[algorithm%4],
			Quota:     within(quota, 1, limiter.MaxQuota),
			Window:    time.Duration(within(seconds, 1, int64(limiter.MaxWindow/second))) * second,
		}
		if l.Algorithm == limiter.TokenBucket {
			l.Burst = within(burst, 1, mostBurst(l))
		}
		p := compile(t, l)
		l = p.Limit(0)
		clock := time.UnixMicro(within(now, -1<<52, 1<<53))
		us := max(0, clock.UnixMicro()) // before 1970 the clock stands still
		cost = within(cost, 0, 1<<62)
		exp, age = within(exp, 0, 1<<33), within(age, -most, most)
		s := limiter.State{At: exp/int64(l.Window/second) - age, Cur: cur, Prev: prev}
		if isBucket(l.Algorithm) {
			s.At = exp*1e6 - age
		}
		shown := limiter.Tally{s}
		rolled := p.Merge(clock, shown, shown)
		if most, owed := lapse(p, 0); isBucket(l.Algorithm) {
			over := min(int64(rolled[0].Cur)*1e6, owed+l.Window.Microseconds())
			if rolled[0].At-us > most+over {
				rolled[0] = limiter.State{At: us + owed + over, Cur: uint32((over + 999_999) / 1e6)}
			}
			require.Zero(t, rolled[0].Prev)
		}
		next, v := p.Step(clock, shown, cost)

		require.GreaterOrEqual(t, v.Limits[0].Remaining, int64(0))
		require.LessOrEqual(t, v.Limits[0].Remaining, p.Capacity())
		require.GreaterOrEqual(t, v.Limits[0].Reset, time.Duration(0))
		require.Equal(t, !v.Admitted && !v.Impossible, v.Wait > 0)
		require.Equal(t, cost > p.Capacity(), v.Impossible)
		require.Equal(t, !v.Admitted, v.Limits[0].Blocked)

		want := rolled
		switch {
		case v.Admitted && cost > 0 && isBucket(l.Algorithm):
			want[0].At = max(rolled[0].At, us) + cost*interval(l)
		case v.Admitted:
			want[0].Cur += uint32(cost)
		}
		require.Equal(t, want, next, "admitted, the count rises by the cost; refused, it stays")

		again, _ := p.Step(clock, next, 0)
		require.Equal(t, next, again, "what Step returns is rolled")
		require.Equal(t, cost == 0 || fits(l, rolled[0], time.UnixMicro(us), cost), v.Admitted)
		_, remembered := limiter.NewMemory(1, 1).Take(clock, p, &limiter.Candidate{Shown: shown}, cost)
		require.Equal(t, v, remembered, "an empty memory changes nothing")
		if v.Wait > 0 && us == clock.UnixMicro() {
			_, then := p.Step(clock.Add(v.Wait), next, cost)
			require.True(t, then.Admitted, "the wait is true")
			_, early := p.Step(clock.Add(v.Wait-second), next, cost)
			require.False(t, early.Admitted, "and no longer than it must be")
		}
	})
}

// FuzzCompile gives any numbers to Compile: it refuses them by name, or makes a
// policy that works.
func FuzzCompile(f *testing.F) {
	f.Add("contact", "", uint8(0), int64(5), int64(time.Minute), int64(0), "daily", uint8(1), int64(50), int64(24*time.Hour), int64(0), int64(8))
	f.Fuzz(func(t *testing.T, name, name1 string, a1 uint8, quota1, window1, burst1 int64, name2 string, a2 uint8, quota2, window2, burst2, factor int64) {
		limits := []limiter.Limit{
			{Name: name1, Algorithm: limiter.Algorithm(a1), Quota: quota1, Window: time.Duration(window1), Burst: burst1},
			{Name: name2, Algorithm: limiter.Algorithm(a2), Quota: quota2, Window: time.Duration(window2), Burst: burst2},
		}
		p, err := limiter.Compile(name, limits)
		if err != nil {
			require.Nil(t, p)
			for _, field := range problems(t, err) {
				require.Regexp(t, `^(Policy|Limits\[[01]\]\.(Name|Algorithm|Quota|Window|Burst))$`, field)
			}
			return
		}
		full := []limiter.Limit{p.Limit(0), p.Limit(1)}
		again, err := limiter.Compile(name, full)
		require.NoError(t, err, "what it filled in, it accepts")
		require.True(t, p.SameShape(again))

		capacity := p.Capacity()
		require.Positive(t, capacity)
		require.LessOrEqual(t, capacity, int64(limiter.MaxQuota))
		tally, v := p.Step(midnight, limiter.Tally{}, capacity)
		require.True(t, v.Admitted, "a fresh tally has room for the capacity")
		_, v = p.Step(midnight, tally, capacity)
		require.False(t, v.Admitted)

		scaled := p.Scale(within(factor, 1, 1<<62))
		require.True(t, p.SameShape(scaled))
		_, v = scaled.Step(midnight, limiter.Tally{}, capacity)
		require.True(t, v.Admitted, "no network is narrower than one of its clients")
	})
}

func TestFuzzSeedsExist(t *testing.T) {
	kit.Seeds(t, 4, "FuzzStep", "FuzzCompile")
}
