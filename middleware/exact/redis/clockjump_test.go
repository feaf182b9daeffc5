// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/storeless"
)

// A server whose clock was a year ahead for one call: the account begins anew, which is
// told once, and its keys end when they would have without.
func TestServerClockThatWasAhead(t *testing.T) {
	s := startServer(t)
	log := new(alarms)
	c, err := redis.OpenByKey(s.url(), redis.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, err)
	defer c.Close()
	now := time.Now()
	at := func(ahead time.Duration) {
		s.do("HSET", "clock", "s", strconv.FormatInt(now.Add(ahead).Unix(), 10), "us", "0")
	}
	p := compile(t, storeless.Limit{Name: "log", Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Minute},
		storeless.Limit{Name: "minute", Algorithm: storeless.FixedWindow, Quota: 5, Window: time.Minute})
	takeOf := func(p *exact.Policy) exact.Verdict {
		v, err := c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
		require.NoError(t, err)
		return v
	}
	take := func() exact.Verdict { return takeOf(p) }
	bucket := compile(t, storeless.Limit{Name: "other", Algorithm: storeless.TokenBucket, Quota: 5, Window: time.Minute})
	at(365 * 24 * time.Hour)
	for range 5 {
		require.True(t, take().Admitted)
	}
	require.True(t, takeOf(bucket).Admitted, "of the same name")
	require.Zero(t, log.count("clock"))
	at(0)
	for range 5 {
		require.True(t, take().Admitted)
	}
	v := take()
	require.False(t, v.Admitted)
	require.LessOrEqual(t, v.Wait, time.Minute)
	require.Equal(t, 1, log.count("the clock of the redis server was wrong"))
	require.Equal(t, 1, log.count("ahead=8760h0m0s"))
	require.Equal(t, "0", s.do("EVAL", `local n = 0
		for _, k in ipairs(redis.call('KEYS', 'tallystick:*')) do if redis.call('TTL', k) > 200 then n = n + 1 end end
		return tostring(n)`, "0"), "every key expires in its time")
	require.True(t, takeOf(bucket).Admitted, "what it owed is forgotten too")
	require.Equal(t, ":3", s.do("DBSIZE"), "the clock, the account and its log")
}
