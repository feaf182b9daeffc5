// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

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
func mostBurst(l storeless.Limit) int64 {
	return min(storeless.MaxQuota, int64(storeless.MaxWindow/second)*l.Quota/int64(l.Window/second))
}

// The sliding counter against the inequality itself: whatever passes is what
// the inequality allows, to the unit, up to the largest quota and window.
func TestSlidingIsExact(t *testing.T) {
	each(t, 4, func(t *testing.T, r *rand.Rand) {
		for n := range 2000 {
			quota := spread(r, 1, storeless.MaxQuota)
			window := randomWindow(r, storeless.MaxWindow)
			p := compile(t, storeless.Limit{Quota: quota, Window: window})
			w := window.Microseconds()
			number := spread(r, 0, 4e9*1e6/w) // until 2096
			elapsed := spread(r, 0, w-1)
			now := time.UnixMicro(number*w + elapsed)
			// More than the quota is what a lowered quota leaves behind.
			prev, cur := spread(r, 0, storeless.MaxQuota), spread(r, 0, storeless.MaxQuota)
			if r.IntN(4) > 0 {
				prev, cur = spread(r, 0, quota), spread(r, 0, quota)
			}
			s := limiter.State{At: number, Cur: uint32(cur), Prev: uint32(prev)}

			// ⌊(L·W − cur·W − prev·(W−e)) / W⌋
			room := new(big.Int).Sub(product(quota, w), product(cur, w))
			room.Sub(room, product(prev, w-elapsed))
			most := room.Div(room, integer(w)).Int64() // Euclidean, so it floors

			_, peek := p.Step(now, limiter.Tally{s}, 0)
			require.Equal(t, max(0, most), peek.Limits[0].Remaining, "case %d: L=%d W=%d e=%d %+v", n, quota, w, elapsed, s)
			for _, cost := range []int64{1, most, most + 1, spread(r, 1, quota)} {
				if cost < 1 {
					continue
				}
				next, v := p.Step(now, limiter.Tally{s}, cost)
				require.Equal(t, slides(quota, w, elapsed, prev, cur, cost), v.Admitted, "case %d: cost %d", n, cost)
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
			l := storeless.Limit{Algorithm: storeless.TokenBucket, Quota: spread(r, 1, storeless.MaxQuota), Window: randomWindow(r, storeless.MaxWindow)}
			l.Burst = spread(r, 1, mostBurst(l))
			if r.IntN(4) == 0 {
				l.Algorithm, l.Burst = storeless.LeakyBucket, 1
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
