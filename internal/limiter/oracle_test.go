// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/truth"
)

// The oracles say what a tally's states and histories mean. What a limit admits is package truth's, which shares no
// arithmetic with this one.

func windowOf(l limiter.Limit) truth.Window {
	return truth.Window{Quota: l.Quota, Length: l.Window.Microseconds()}
}

func bucketOf(l limiter.Limit) truth.Bucket {
	return truth.Bucket{Quota: l.Quota, Window: l.Window.Microseconds(), Burst: l.Burst}
}

func interval(l limiter.Limit) int64 { return bucketOf(l).Interval() }

// fits says whether cost would pass one limit whose state is s.
func fits(l limiter.Limit, s limiter.State, now time.Time, cost int64) bool {
	us, w := now.UnixMicro(), l.Window.Microseconds()
	if isBucket(l.Algorithm) {
		return bucketOf(l).Fits(s.At-us, cost)
	}
	window := us / w
	switch prev, cur := int64(s.Prev), int64(s.Cur); {
	case s.At >= window:
		return windowOf(l).Fits(max(0, us-s.At*w), prev, cur, cost)
	case s.At == window-1 && l.Algorithm == limiter.SlidingWindow:
		return windowOf(l).Fits(us-window*w, cur, 0, cost)
	}
	return cost <= l.Quota
}

// An admission is one line of a log.
type admission struct {
	clock   int64                    // of the instance that admitted, µs
	windows [limiter.MaxLimits]int64 // in which it counted it
	cost    int64
	policy  *limiter.Policy // in force
}

// A history is every admission of a tally, in the order in which they happened.
type history []admission

// admits says whether the whole history leaves room for cost under the i-th
// limit of p at the given clock. counted is the window that the request counts
// in; buckets have none.
func (h history) admits(p *limiter.Policy, i int, clock, counted, cost int64) bool {
	l := p.Limit(i)
	w := l.Window.Microseconds()
	if !isBucket(l.Algorithm) {
		prev := int64(0)
		if l.Algorithm == limiter.SlidingWindow {
			prev = h.spent(i, counted-1)
		}
		return windowOf(l).Fits(max(0, clock-counted*w), prev, h.spent(i, counted), cost)
	}
	drops := make([]truth.Drop, len(h))
	for j, a := range h {
		drops[j] = truth.Drop{At: a.clock, Cost: a.cost, Interval: interval(a.policy.Limit(i))}
	}
	return bucketOf(l).Admits(drops, clock, cost)
}

// spent is what was counted in one window of the i-th limit.
func (h history) spent(i int, window int64) (sum int64) {
	for _, a := range h {
		if a.windows[i] == window {
			sum += a.cost
		}
	}
	return sum
}

// add records an admission that left t.
func (h *history) add(p *limiter.Policy, now time.Time, cost int64, t limiter.Tally) {
	a := admission{clock: now.UnixMicro(), cost: cost, policy: p}
	for i := range p.Len() {
		a.windows[i] = t[i].At
	}
	*h = append(*h, a)
}

// spread draws from [low, high], as often small as large, and every so often an
// end: faults of arithmetic live there.
func spread(r *rand.Rand, low, high int64) int64 {
	switch span := high - low; {
	case span == 0 || r.IntN(8) == 0:
		return low
	case r.IntN(8) == 0:
		return high
	case r.IntN(2) == 0:
		return low + r.Int64N(span+1)
	default:
		bits := r.IntN(64)
		return low + min(span, int64(r.Uint64()>>1>>bits))
	}
}

func randomWindow(r *rand.Rand, longest time.Duration) time.Duration {
	return time.Duration(spread(r, 1, int64(longest/second))) * second
}

// mostBurst is the largest for which Burst·Window/Quota is at most MaxWindow.
func mostBurst(l limiter.Limit) int64 {
	return min(limiter.MaxQuota, int64(limiter.MaxWindow/second)*l.Quota/int64(l.Window/second))
}

// The sliding counter against the inequality itself: whatever passes is what
// the inequality allows, to the unit, up to the largest quota and window.
func TestSlidingIsExact(t *testing.T) {
	each(t, 4, func(t *testing.T, r *rand.Rand) {
		for n := range 2000 {
			quota := spread(r, 1, limiter.MaxQuota)
			window := randomWindow(r, limiter.MaxWindow)
			p := compile(t, limiter.Limit{Quota: quota, Window: window})
			w := window.Microseconds()
			number := spread(r, 0, 4e9*1e6/w) // until 2096
			elapsed := spread(r, 0, w-1)
			now := time.UnixMicro(number*w + elapsed)
			// More than the quota is what a lowered quota leaves behind.
			prev, cur := spread(r, 0, limiter.MaxQuota), spread(r, 0, limiter.MaxQuota)
			if r.IntN(4) > 0 {
				prev, cur = spread(r, 0, quota), spread(r, 0, quota)
			}
			s := limiter.State{At: number, Cur: uint32(cur), Prev: uint32(prev)}

			is := truth.Window{Quota: quota, Length: w}
			most := is.Room(elapsed, prev, cur)
			_, peek := p.Step(now, limiter.Tally{s}, 0)
			require.Equal(t, max(0, most), peek.Limits[0].Remaining, "case %d: L=%d W=%d e=%d %+v", n, quota, w, elapsed, s)
			for _, cost := range []int64{1, most, most + 1, spread(r, 1, quota)} {
				if cost < 1 {
					continue
				}
				next, v := p.Step(now, limiter.Tally{s}, cost)
				require.Equal(t, is.Fits(elapsed, prev, cur, cost), v.Admitted, "case %d: cost %d", n, cost)
				want := s
				if v.Admitted {
					want.Cur += uint32(cost)
				}
				require.Equal(t, want, next[0], "case %d: cost %d", n, cost)
				require.Equal(t, cost > quota, v.Impossible, "case %d: cost %d", n, cost)
			}
		}
	})
}

// Buckets against their definition, up to the largest that empty in a year.
func TestBucketsAreExact(t *testing.T) {
	each(t, 4, func(t *testing.T, r *rand.Rand) {
		for n := range 2000 {
			l := limiter.Limit{Algorithm: limiter.TokenBucket, Quota: spread(r, 1, limiter.MaxQuota), Window: randomWindow(r, limiter.MaxWindow)}
			l.Burst = spread(r, 1, mostBurst(l))
			if r.IntN(4) == 0 {
				l.Algorithm, l.Burst = limiter.LeakyBucket, 1
			}
			p := compile(t, l)
			now := time.UnixMicro(spread(r, 1, 4e15))
			s := limiter.State{At: now.UnixMicro() + spread(r, -l.Window.Microseconds(), l.Burst*interval(l))}

			_, peek := p.Step(now, limiter.Tally{s}, 0)
			most := peek.Limits[0].Remaining
			for _, cost := range []int64{1, most, most + 1, spread(r, 1, l.Burst)} {
				if cost < 1 {
					continue
				}
				next, v := p.Step(now, limiter.Tally{s}, cost)
				require.Equal(t, fits(l, s, now, cost), v.Admitted, "case %d: %+v %+v cost %d", n, l, s, cost)
				if v.Admitted {
					require.Equal(t, limiter.State{At: max(s.At, now.UnixMicro()) + cost*interval(l)}, next[0], "case %d", n)
				}
			}
		}
	})
}
