// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

func TestTokenBucket(t *testing.T) {
	bucket := func(quota, burst int64) storeless.Limit {
		return storeless.Limit{Algorithm: storeless.TokenBucket, Quota: quota, Window: minute, Burst: burst}
	}
	play(t, []scenario{
		{"a burst, then one a second", []storeless.Limit{bucket(60, 3)}, []row{
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
		{"costs: 0 peeks, the burst fits, more never does", []storeless.Limit{bucket(60, 3)}, []row{
			{at: 0, cost: 0, admitted: true, left: 3},
			{at: 0, cost: 4, left: 3},
			{at: 0, cost: 60, left: 3},
			{at: 0, cost: 3, admitted: true, reset: 1},
			{at: 0, cost: 4, reset: 1},
		}},
		{"the burst defaults to the quota", []storeless.Limit{bucket(6, 0)}, []row{
			{at: 0, cost: 6, admitted: true, reset: 10},
			{at: 10*second - tick, cost: 1, wait: 1, reset: 1},
			{at: 10 * second, cost: 1, admitted: true, reset: 10},
		}},
		// 60 s over 7 is 8,571,428.57 µs: T is 8,571,429.
		{"the interval rounds up", []storeless.Limit{bucket(7, 2)}, []row{
			{at: 0, cost: 2, admitted: true, reset: 9},
			{at: 8_571_428 * tick, cost: 1, wait: 1, reset: 1},
			{at: 8_571_429 * tick, cost: 1, admitted: true, reset: 9},
			{at: 17_142_857 * tick, cost: 1, wait: 1, reset: 1},
			{at: 17_142_858 * tick, cost: 1, admitted: true, reset: 9},
		}},
		{"what is owed is time: a new rate asks for it at its own pace", []storeless.Limit{bucket(60, 3), bucket(6, 3)}, []row{
			{at: 0, cost: 3, admitted: true, reset: 1},
			{at: 0, cost: 1, admitted: true, left: 1, reset: 3, under: 1},
			{at: 0, cost: 1, wait: 11, reset: 11},
		}},
		{"a larger burst is there at once, a smaller one is paid down to", []storeless.Limit{bucket(60, 3), bucket(60, 10), bucket(60, 1)}, []row{
			{at: 0, cost: 3, admitted: true, reset: 1},
			{at: 0, cost: 7, admitted: true, reset: 1, under: 1},
			{at: 0, cost: 1, wait: 8, reset: 8},
			{at: 0, cost: 1, wait: 10, reset: 10, under: 2},
			{at: 10*second - tick, cost: 1, wait: 1, reset: 1, under: 2},
			{at: 10 * second, cost: 1, admitted: true, reset: 1, under: 2},
		}},
		// A client that moves between tiers keeps its tally. The lower tier must
		// not shorten what the higher one is owed, however often it looks.
		{"a peek by a tier of a smaller burst forgives nothing", []storeless.Limit{bucket(60, 600), bucket(60, 1)}, []row{
			{at: 0, cost: 100, admitted: true, left: 500, reset: 1},
			{at: 0, cost: 0, admitted: true, reset: 100, under: 1},
			{at: 0, cost: 1, wait: 100, reset: 100, under: 1},
			{at: 0, cost: 500, admitted: true, reset: 1},
			{at: 0, cost: 1, wait: 1, reset: 1},
		}},
	})
}

func TestLeakyBucket(t *testing.T) {
	meter := storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 12, Window: minute}
	fast, third := meter, meter
	fast.Quota = 60
	third.Quota, third.Window = 3, second
	play(t, []scenario{
		{"one each interval, and no credit", []storeless.Limit{meter}, []row{
			{at: 0, cost: 1, admitted: true, reset: 5},
			{at: 0, cost: 1, wait: 5, reset: 5},
			{at: 5*second - tick, cost: 1, wait: 1, reset: 1},
			{at: 5 * second, cost: 1, admitted: true, reset: 5},
			{at: hour, cost: 1, admitted: true, reset: 5},
			{at: hour, cost: 1, wait: 5, reset: 5},
		}},
		{"costs: 0 peeks, 1 fits, more never does", []storeless.Limit{meter}, []row{
			{at: 0, cost: 0, admitted: true, left: 1},
			{at: 0, cost: 2, left: 1},
			{at: 0, cost: 1, admitted: true, reset: 5},
			{at: 0, cost: 2, reset: 5},
		}},
		{"a quota applies to what comes after", []storeless.Limit{meter, fast}, []row{
			{at: 0, cost: 1, admitted: true, reset: 5},
			{at: 4 * second, cost: 1, wait: 1, reset: 1, under: 1},
			{at: 5 * second, cost: 1, admitted: true, reset: 1, under: 1},
			{at: 6*second - tick, cost: 1, wait: 1, reset: 1},
			{at: 6 * second, cost: 1, admitted: true, reset: 5},
		}},
		{"the interval rounds up", []storeless.Limit{third}, []row{
			{at: 0, cost: 1, admitted: true, reset: 1},
			{at: 333_333 * tick, cost: 1, wait: 1, reset: 1},
			{at: 333_334 * tick, cost: 1, admitted: true, reset: 1},
			{at: 666_667 * tick, cost: 1, wait: 1, reset: 1},
			{at: 666_668 * tick, cost: 1, admitted: true, reset: 1},
		}},
	})
}

func TestAMarkThatHasPassedIsNone(t *testing.T) {
	p, err := limiter.Compile("p", []storeless.Limit{{Algorithm: storeless.TokenBucket, Quota: 60, Window: time.Minute}})
	require.NoError(t, err)
	tally, _ := p.Step(opening, limiter.Tally{}, 5)
	for _, after := range []time.Duration{5 * time.Second, time.Hour} {
		then := opening.Add(after)
		require.Zero(t, p.Merge(then, tally, limiter.Tally{}))
		require.False(t, p.Exceeds(then, tally, limiter.Tally{}))
		left, _ := p.Step(then, tally, 0)
		require.Zero(t, p.Expires(left))
	}
	require.NotZero(t, p.Merge(opening.Add(5*time.Second-time.Microsecond), tally, limiter.Tally{}))
}
