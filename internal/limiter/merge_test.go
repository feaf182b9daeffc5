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

// standings are what is left under each limit at now, by a tally alone.
func standings(p *limiter.Policy, now time.Time, t limiter.Tally) []int64 {
	_, v := p.Step(now, t, 0)
	left := make([]int64, p.Len())
	for i := range left {
		left[i] = v.Limits[i].Remaining
	}
	return left
}

// aheadOf returns the present, or the start of the latest window of t that lies
// ahead of it: the moment at which the limiter evaluates t.
func aheadOf(p *limiter.Policy, now time.Time, t limiter.Tally, i int) time.Time {
	l := p.Limit(i)
	if begins := time.UnixMicro(t[i].At * l.Window.Microseconds()); !isBucket(l.Algorithm) && begins.After(now) {
		return begins
	}
	return now
}

// Merging is the maximum of a lattice, whatever the order in which forked,
// rolled back and older tallies come in, and it makes nothing looser.
func TestMergeIsALattice(t *testing.T) {
	each(t, 4, func(t *testing.T, r *rand.Rand) {
		for n := range 500 {
			p := compile(t, randomLimits(r, 1+r.IntN(limiter.MaxLimits), hour)...)
			now := midnight.Add(time.Duration(r.Int64N(int64(2 * hour))))
			a, b, c := randomTally(r, p, now), randomTally(r, p, now), randomTally(r, p, now)
			merge := func(a, b limiter.Tally) limiter.Tally { return p.Merge(now, a, b) }
			ab := merge(a, b)

			require.Equal(t, ab, merge(b, a), "case %d: commutative", n)
			require.Equal(t, merge(ab, c), merge(a, merge(b, c)), "case %d: associative", n)
			require.Equal(t, merge(a, a), merge(merge(a, a), a), "case %d: idempotent", n)
			require.Equal(t, ab, merge(ab, a), "case %d: it holds both", n)
			require.Equal(t, merge(a, limiter.Tally{}), merge(a, a), "case %d: nothing shown, nothing added", n)

			// A tally without a mark from a wrong clock is news for a client that has one.
			news := func(a, b limiter.Tally) bool {
				for i := range p.Len() {
					one := compile(t, p.Limit(i))
					if wrong(one, now, limiter.Tally{b[i]}) && !wrong(one, now, limiter.Tally{a[i]}) {
						return true
					}
				}
				return false
			}
			require.Equal(t, news(a, ab), p.Exceeds(now, a, ab), "case %d: neither says more", n)
			cut := func(a limiter.Tally) limiter.Tally { held, _ := p.Step(now, a, 0); return held }
			require.Equal(t, news(a, b) || merge(cut(a), cut(b)) != cut(b), p.Exceeds(now, a, b), "case %d: says more, or adds nothing", n)

			for i := range p.Len() {
				left := standings(p, now, ab)[i]
				require.LessOrEqual(t, left, standings(p, aheadOf(p, now, ab, i), a)[i], "case %d, limit %d", n, i)
				require.LessOrEqual(t, left, standings(p, aheadOf(p, now, ab, i), b)[i], "case %d, limit %d", n, i)
			}

			more := a
			for i := range p.Len() {
				if isBucket(p.Limit(i).Algorithm) {
					more[i].At += r.Int64N(1000)
				} else {
					more[i].Cur += r.Uint32N(3)
				}
			}
			for i := range p.Len() {
				require.LessOrEqual(t, standings(p, now, merge(more, b))[i], standings(p, now, ab)[i], "case %d, limit %d: monotone", n, i)
			}
		}
	})
}

// A token may make the limiter stricter than its memory, never looser. Where it
// is ahead of the clock, within the skew, its window begins with it.
func TestTokensOnlyTighten(t *testing.T) {
	each(t, 4, func(t *testing.T, r *rand.Rand) {
		tighter := 0
		for n := range 500 {
			p := compile(t, randomLimits(r, 1+r.IntN(3), minute)...)
			m := limiter.NewMemory(1, p.Len())
			now := midnight
			for range r.IntN(20) {
				now = now.Add(time.Duration(r.Int64N(int64(10 * second))))
				take(m, p, now, 1, spread(r, 0, p.Capacity()))
			}
			shown := randomTally(r, p, now)
			alone := take(m, p, now, 1, 0)
			_, both := m.Take(now, p, &limiter.Candidate{Key: 1, Shown: shown}, 0)
			for i := range p.Len() {
				without, with := alone.Limits[i].Remaining, both.Limits[i].Remaining
				if begins := aheadOf(p, now, shown, i); begins.After(now) {
					without = take(m, p, begins, 1, 0).Limits[i].Remaining
				}
				require.LessOrEqual(t, with, without, "case %d, limit %d", n, i)
				if with < without {
					tighter++
				}
			}
		}
		require.Greater(t, tighter, 100, "the workload tightens")
	})
}

// Entries that are too far ahead say nothing; at the edge of the skew they count
// in their own window, a microsecond further they do not.
func TestSkewedTallies(t *testing.T) {
	for _, row := range []struct {
		window, skew time.Duration
	}{
		{second, 100 * time.Millisecond},
		{7 * second, 700 * time.Millisecond},
		{50 * second, 5 * second},
		{minute, 5 * second},
		{limiter.MaxWindow, 5 * second},
	} {
		for _, a := range []limiter.Algorithm{limiter.SlidingWindow, limiter.FixedWindow} {
			p := compile(t, limiter.Limit{Algorithm: a, Quota: 5, Window: row.window})
			number := midnight.UnixMicro()/row.window.Microseconds() + 1
			begins := time.UnixMicro(number * row.window.Microseconds())
			full := limiter.Tally{{At: number, Cur: 5}}

			held, v := p.Step(begins.Add(-row.skew), full, 1)
			require.False(t, v.Admitted, "%s %s", a, row.window)
			require.Equal(t, full, held, "evaluated at its own window")
			held, v = p.Step(begins.Add(-row.skew-tick), full, 1)
			require.True(t, v.Admitted, "%s %s", a, row.window)
			require.Equal(t, number-1, held[0].At, "as if absent")
			require.True(t, p.Exceeds(begins, full, limiter.Tally{}))
			require.False(t, p.Exceeds(begins.Add(-row.skew-tick), full, limiter.Tally{}), "an absent entry teaches nothing")
		}
	}
	// A window that has not begun weighs the one before it as a whole, not more.
	ahead := compile(t, limiter.Limit{Quota: 10, Window: minute})
	_, v := ahead.Step(midnight.Add(-5*second), limiter.Tally{{At: midnight.Unix() / 60, Prev: 6}}, 0)
	require.Equal(t, int64(4), v.Limits[0].Remaining)

	// A number whose time in µs is a multiple of 2⁶⁴ is far ahead, not at 1970.
	p := compile(t, limiter.Limit{Quota: 5, Window: 1 << 24 * second})
	_, v = p.Step(midnight, limiter.Tally{{At: 1 << 34, Cur: 5, Prev: 5}}, 5)
	require.True(t, v.Admitted)

	for _, a := range []limiter.Algorithm{limiter.TokenBucket, limiter.LeakyBucket} {
		p := compile(t, limiter.Limit{Algorithm: a, Quota: 60, Window: minute})
		empties := time.Duration(p.Capacity()) * second
		for _, row := range []struct {
			ahead, believed time.Duration
		}{
			{empties, empties},
			{empties + 5*second, empties + 5*second},
			{empties + 5*second + tick, empties},
			{1000 * day, empties},
			{math.MaxInt64, empties},
		} {
			shown := limiter.Tally{{At: midnight.Add(row.ahead).UnixMicro()}}
			held, v := p.Step(midnight, shown, 1)
			require.False(t, v.Admitted, "%s: a mark %s ahead", a, row.ahead)
			require.Equal(t, midnight.Add(row.believed).UnixMicro(), held[0].At, "%s: a mark %s ahead", a, row.ahead)
			require.Equal(t, row.believed-empties+second, v.Wait, "%s: a mark %s ahead", a, row.ahead)
			require.Equal(t, held != shown, p.Exceeds(midnight, held, shown), "cut down, it is news")
			require.False(t, p.Exceeds(midnight, shown, shown), "but only if there is another")
		}
	}
}
