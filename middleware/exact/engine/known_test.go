// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

// knows is a call of a caller that knows what was used of the first limit.
func knows(p *exact.Policy, at int64, cur, prev uint32) exact.Call {
	return exact.Call{Key: "k", Cost: 1, Policy: p, Known: []exact.Used{{ID: p.ID(0), At: at, Cur: cur, Prev: prev}}}
}

// left is what a key has left in a counter that knows what it has counted, and no more.
func left(t testing.TB, c exact.Counter, p *exact.Policy) int64 {
	return exactkit.Left(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
}

// An account begins with what the caller knows, counts no less later, and is charged for it once.
func TestWhatIsKnownCountsOnce(t *testing.T) {
	for _, a := range []storeless.Algorithm{storeless.FixedWindow, storeless.SlidingWindow, storeless.SlidingLog} {
		t.Run(a.String(), func(t *testing.T) {
			clock := exacttest.NewClock()
			c, p := memory.New(0, clock.Now), exactkit.Compile(t, storeless.Limit{Algorithm: a, Quota: 10, Window: time.Hour})
			now := clock.Now().Unix() / 3600
			require.EqualValues(t, 6, exactkit.Peek(t, c, knows(p, now, 4, 0)).Limits[0].Remaining)
			require.EqualValues(t, 10, left(t, c, p), "a look changes nothing")
			require.EqualValues(t, 5, exactkit.Take(t, c, knows(p, now, 4, 0)).Limits[0].Remaining)
			require.EqualValues(t, 4, exactkit.Take(t, c, knows(p, now, 5, 0)).Limits[0].Remaining, "it is known already")
			require.EqualValues(t, 3, exactkit.Take(t, c, knows(p, now, 2, 0)).Limits[0].Remaining, "an older token")
			require.EqualValues(t, 1, exactkit.Take(t, c, knows(p, now, 8, 0)).Limits[0].Remaining)
			require.False(t, exactkit.Take(t, c, knows(p, now, 10, 0)).Admitted)
			require.EqualValues(t, 1, left(t, c, p), "a refusal changes nothing")
			clock.Advance(2 * time.Hour)
			require.EqualValues(t, 10, left(t, c, p))
			require.EqualValues(t, 9, exactkit.Take(t, c, knows(p, now, 9, 9)).Limits[0].Remaining, "of a window that is over")
		})
	}
}

// What has come back is not charged again by who does not know of it.
func TestWhatCameBackStaysBack(t *testing.T) {
	clock := exacttest.NewClock()
	c, p := memory.New(0, clock.Now), exactkit.Compile(t, exactkit.Hourly(10))
	now := clock.Now().Unix() / 3600
	first := exactkit.Take(t, c, knows(p, now, 4, 0))
	require.NoError(t, c.Refund(t.Context(), first.Receipt))
	require.EqualValues(t, 5, exactkit.Take(t, c, knows(p, now, 5, 0)).Limits[0].Remaining)
	clock.Advance(2 * time.Hour)
	require.EqualValues(t, 5, exactkit.Take(t, c, knows(p, now+2, 4, 0)).Limits[0].Remaining, "of an account that counts nothing any more, nothing has")
}

// Nor by who does not know that all of it came back; nor after so many charges that no more of it would.
func TestAllThatCameBackStaysBack(t *testing.T) {
	for _, a := range []storeless.Algorithm{storeless.FixedWindow, storeless.SlidingWindow, storeless.SlidingLog, storeless.TokenBucket} {
		clock := exacttest.NewClock()
		c, p := memory.New(0, clock.Now), exactkit.Compile(t, storeless.Limit{Algorithm: a, Quota: 10, Window: time.Hour})
		for range 3 {
			v := exactkit.Take(t, c, exact.Call{Key: "k", Cost: 10, Policy: p})
			require.NoError(t, c.Refund(t.Context(), v.Receipt))
			call := knows(p, clock.Now().Unix()/3600, 10, 0)
			if a == storeless.TokenBucket {
				call.Known[0] = exact.Used{ID: p.ID(0), At: clock.Now().Add(time.Hour).UnixMicro()}
			}
			require.True(t, exactkit.Peek(t, c, call).Admitted, a.String())
		}
	}
	clock := exacttest.NewClock()
	c, p := memory.New(0, clock.Now), exactkit.Compile(t, exactkit.Hourly(2*engine.Refundable))
	now := clock.Now().Unix() / 3600
	for n := range uint32(2*engine.Refundable + 1) {
		v := exactkit.Take(t, c, knows(p, now, n, 0))
		require.True(t, v.Admitted, n)
		if n < engine.Refundable {
			require.NoError(t, c.Refund(t.Context(), v.Receipt))
		}
	}
	require.EqualValues(t, engine.Refundable-1, left(t, c, p))
}

// A bucket that is never empty does not take for used, hours later, what came back.
func TestWhatCameBackToABucketStaysBack(t *testing.T) {
	clock := exacttest.NewClock()
	c, p := memory.New(0, clock.Now), exactkit.Compile(t, storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 60, Window: time.Hour})
	exactkit.Take(t, c, exact.Call{Key: "k", Cost: 10, Policy: p})
	v := exactkit.Take(t, c, exact.Call{Key: "k", Cost: 40, Policy: p})
	require.NoError(t, c.Refund(t.Context(), v.Receipt))
	is := clock.Now().Add(50 * time.Minute) // as the caller knows it
	for range 120 {
		clock.Advance(time.Minute)
		is = is.Add(time.Minute)
		call := knows(p, 0, 0, 0)
		call.Known[0].At = is.UnixMicro()
		require.EqualValues(t, 50, exactkit.Take(t, c, call).Limits[0].Remaining)
	}
}

// Nothing that is known is believed of another time, or beyond a quota by more than is good for anything.
func TestWhatIsKnownIsBounded(t *testing.T) {
	hourly := func(a storeless.Algorithm) storeless.Limit {
		return storeless.Limit{Algorithm: a, Quota: 10, Window: time.Hour}
	}
	for _, a := range []storeless.Algorithm{storeless.FixedWindow, storeless.SlidingWindow, storeless.SlidingLog, storeless.TokenBucket, storeless.LeakyBucket} {
		for _, at := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64/3600 + 1, math.MaxInt64} {
			clock := exacttest.NewClock()
			c, p := memory.New(0, clock.Now), exactkit.Compile(t, hourly(a))
			admitted := exactkit.Take(t, c, knows(p, at, math.MaxUint32, math.MaxUint32)).Admitted
			bucket := a == storeless.TokenBucket || a == storeless.LeakyBucket
			require.Equal(t, !bucket || at <= 1, admitted, "%s at %d", a, at)
			clock.Advance(time.Hour)
			require.Positive(t, left(t, c, p), "a mark is believed for as long as its bucket takes to empty")
		}
	}
	clock := exacttest.NewClock()
	now := clock.Now()
	c, p := memory.New(0, clock.Now), exactkit.Compile(t, hourly(storeless.FixedWindow))
	require.False(t, exactkit.Take(t, c, knows(p, now.Unix()/3600, math.MaxUint32, 0)).Admitted)
	call := knows(p, now.Unix()/3600, 9, 0)
	call.Known[0].ID++
	require.EqualValues(t, 9, exactkit.Take(t, c, call).Limits[0].Remaining, "of a limit that the policy has not")
	call.Known = make([]exact.Used, storeless.MaxLimits+1)
	_, err := c.Take(t.Context(), call)
	require.ErrorContains(t, err, "a mistake in the Call: Known must have at most 8 limits")

	bucket := exactkit.Compile(t, hourly(storeless.TokenBucket))
	call = knows(bucket, math.MaxInt64, 0, 0)
	call.Key, call.Past = "owed", true
	require.True(t, exactkit.Take(t, c, call).Admitted)
	clock.Advance(time.Hour + 6*time.Minute)
	require.EqualValues(t, 10, exactkit.Left(t, c, exact.Call{Key: "owed", Cost: 1, Policy: bucket}), "no debt is longer than a bucket is deep")
	now = clock.Now()
	call = knows(bucket, now.Add(18*time.Minute).UnixMicro(), 0, 0) // three of ten
	call.Key = "bucket"
	require.EqualValues(t, 6, exactkit.Take(t, c, call).Limits[0].Remaining)
}

// A log takes what is known of its window as if it had been charged when that began, beside what was charged before.
func TestALogOfWhatIsKnown(t *testing.T) {
	clock := exacttest.NewClock()
	c, p := memory.New(0, clock.Now), exactkit.Compile(t, storeless.Limit{Algorithm: storeless.SlidingLog, Quota: 10, Window: time.Hour})
	clock.Advance(59 * time.Minute)
	exactkit.Take(t, c, exact.Call{Key: "k", Cost: 2, Policy: p})
	clock.Advance(30 * time.Minute)
	now := clock.Now().Unix() / 3600
	exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
	require.EqualValues(t, 2, exactkit.Take(t, c, knows(p, now, 5, 0)).Limits[0].Remaining, "two of before, five, and this one")
	clock.Advance(30*time.Minute + time.Second) // the two of before have ended
	require.EqualValues(t, 4, left(t, c, p))
	clock.Advance(time.Minute) // and so has what was known
	require.EqualValues(t, 8, left(t, c, p))
	clock.Advance(30 * time.Minute)
	require.EqualValues(t, 10, left(t, c, p))
}
