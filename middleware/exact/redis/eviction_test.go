// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/exactkit/front"
)

const evicting = "set maxmemory-policy to noeviction, or DangerouslyAllowEviction"

// watched is a counter that asks so often whether the server evicts, its log, and a way to
// make a call.
func watched(t *testing.T, url string, every time.Duration) (take func() error, log *front.Log) {
	t.Helper()
	log = new(front.Log)
	c, err := redis.Open(url, redis.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	c.(*redis.Counter).AskEvery(every)
	p := exactkit.PerYear(t, 1_000_000)
	return func() error {
		_, err := c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
		return err
	}, log
}

// becomes waits until calls fail because of eviction, or pass again.
func becomes(t *testing.T, take func() error, refused bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		err := take()
		if refused {
			return err != nil && strings.Contains(err.Error(), evicting)
		}
		return err == nil
	}, patient, 5*time.Millisecond)
}

// A server is told to evict later.
func TestServerThatBeginsToEvictIsRefused(t *testing.T) {
	s := startServer(t, "--maxmemory", "100mb")
	take, log := watched(t, s.url(), 0)
	becomes(t, take, false)
	for range 20 {
		require.NoError(t, take())
	}
	require.Zero(t, log.Count("evict"))
	s.do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	becomes(t, take, true)
	require.ErrorIs(t, take(), exact.ErrNotCounted)
	require.Equal(t, 1, log.Count("level=ERROR"), "once: accounts may be gone already")
	s.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	becomes(t, take, false)
}

// A server restarts and evicts: that is asked with the new connection, not at the next time.
func TestServerThatEvictsAfterARestartIsRefused(t *testing.T) {
	s := startServer(t, "--maxmemory", "100mb")
	take, _ := watched(t, s.url(), time.Hour)
	becomes(t, take, false)
	s.Kill()
	s.args = append(s.args, "--maxmemory-policy", "allkeys-lru")
	s.Start()
	becomes(t, take, true)
}

// A user without INFO cannot ask, which is told; one of the documented list can, and so can the default user.
func TestUserThatCannotAskWhetherAServerEvicts(t *testing.T) {
	const documented = "TIME GET SET HGETALL HMGET HSET EXPIRE EXPIREAT EXISTS DEL UNLINK ZADD ZREM ZRANGE ZRANGEBYSCORE ZREMRANGEBYSCORE EVAL EVALSHA"
	s := startServer(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	user := func(name, commands string) string {
		words := []string{"ACL", "SETUSER", name, "on", ">secret", "~*", "-@all"}
		for command := range strings.FieldsSeq(commands) {
			words = append(words, "+"+command)
		}
		require.Equal(t, "+OK", s.do(words...))
		return strings.Replace(s.url(), "redis://", "redis://"+name+":secret@", 1)
	}
	take, log := watched(t, user("silent", documented), 0)
	becomes(t, take, false)
	for range 20 {
		require.NoError(t, take())
	}
	require.Equal(t, 1, log.Count("does not say whether it evicts keys"), "once a minute")
	require.Equal(t, 1, log.Count("NOPERM"))

	for _, url := range []string{user("asking", documented+" INFO"), s.url()} {
		take, log = watched(t, url, time.Hour)
		becomes(t, take, true)
		err := take()
		require.ErrorIs(t, err, exact.ErrNotCounted)
		require.ErrorContains(t, err, evicting)
		require.Zero(t, log.Count("does not say"))
	}
}

// A server that comes back without its data has given quotas back, which is told; one that comes back with it has not.
func TestServerThatComesBackEmptyIsTold(t *testing.T) {
	for name, kept := range map[string]bool{"empty": false, "with its data": true} {
		t.Run(name, func(t *testing.T) {
			args := []string{"--appendonly", "no"}
			if kept {
				args = []string{"--appendonly", "yes", "--appendfsync", "always"}
			}
			s := startServer(t, args...)
			log := new(front.Log)
			c, err := redis.Open(s.url(), redis.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, c.Close()) })
			c.(*redis.Counter).AskEvery(0)
			p := exactkit.PerYear(t, 1_000_000)
			take := func(key string) error {
				_, err := c.Take(t.Context(), exact.Call{Key: key, Cost: 1, Policy: p})
				return err
			}
			for n := range 40 {
				require.Eventually(t, func() bool { return take(fmt.Sprint(n)) == nil }, patient, 5*time.Millisecond)
			}
			s.Kill()
			s.Start()
			for n := range 20 {
				require.Eventually(t, func() bool { return take(fmt.Sprint("after", n)) == nil }, patient, 5*time.Millisecond)
			}
			want := 1
			if kept {
				want = 0
			}
			require.Equal(t, want, log.Count("code=redis-emptied had="))
		})
	}
}
