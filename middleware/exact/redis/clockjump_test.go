// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/exactkit/front"
	"github.com/tallystick/tallystick/storeless"
)

// A server whose clock was a year ahead for one call: the account begins anew, which is
// told once, and its keys end when they would have without.
func TestServerClockThatWasAhead(t *testing.T) {
	s := startServer(t)
	log := new(front.Log)
	c := s.byKey(redis.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	now := time.Now().Truncate(time.Second)
	at := func(ahead time.Duration) { s.at(now.Add(ahead)) }
	p := exactkit.Compile(t, storeless.Limit{Name: "log", Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Minute},
		storeless.Limit{Name: "minute", Algorithm: storeless.FixedWindow, Quota: 5, Window: time.Minute})
	takeOf := func(p *exact.Policy) exact.Verdict {
		return exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
	}
	take := func() exact.Verdict { return takeOf(p) }
	bucket := exactkit.Compile(t, storeless.Limit{Name: "other", Algorithm: storeless.TokenBucket, Quota: 5, Window: time.Minute})
	at(365 * 24 * time.Hour)
	for range 5 {
		require.True(t, take().Admitted)
	}
	require.True(t, takeOf(bucket).Admitted, "of the same name")
	require.Zero(t, log.Count("clock"))
	at(0)
	for range 5 {
		require.True(t, take().Admitted)
	}
	v := take()
	require.False(t, v.Admitted)
	require.LessOrEqual(t, v.Wait, time.Minute)
	require.Equal(t, 1, log.Count("the clock of the redis server was wrong"))
	require.Equal(t, 1, log.Count("ahead=8760h0m0s"))
	s.expires(200)
	require.True(t, takeOf(bucket).Admitted, "what it owed is forgotten too")
	require.Equal(t, ":3", s.do("DBSIZE"), "the clock, the account and its log")
}

// What a bucket owes, and a pause, are no fault of a clock: an account stands still for them as well where
// the clock steps back further than its window, as in memory.
func TestDebtsAndPausesOutliveAClockThatStepsBack(t *testing.T) {
	b := newBoth(t)
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 10, Window: time.Second})
	for name, first := range map[string]exact.Call{"a debt": {Cost: 100_000, Past: true}, "a pause": {Pause: 3 * time.Hour}} {
		first.Key, first.Policy = name, p
		require.True(t, b.take(first, false, name).Admitted)
		b.clock.Advance(-2 * time.Hour)
		v := b.take(exact.Call{Key: name, Cost: 1, Policy: p}, false, name)
		require.False(t, v.Admitted, name)
		require.Greater(t, v.Wait, 2*time.Hour, name)
		b.clock.Advance(2 * time.Hour)
	}
}
