// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// What is no account, or one that was cut, is certainly not counted on: that is an error by name,
// a line with the key, and nothing is changed.
func TestDamagedAccounts(t *testing.T) {
	s := startServer(t)
	var log bytes.Buffer
	opened, err := redis.Open(s.url(), redis.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	c := opened.(*redis.Counter)
	defer func() { require.NoError(t, c.Close()) }()
	connected(t, c)
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 5, Window: time.Hour}) // which can be booked
	call := exact.Call{Key: "k", Cost: 1, Policy: p}
	v := exactkit.Take(t, c, call)
	account := c.Account(p, "k")
	booked := call
	booked.Ahead = time.Second
	for name, put := range map[string]func(){
		"nothing":         func() { s.do("SET", account, "") },
		"a version":       func() { s.do("SET", account, "\x04") },
		"a text":          func() { s.do("SET", account, strings.Repeat("\x04 text", 20)) },
		"a head":          func() { s.do("SET", account, "\x04"+strings.Repeat("\x00", 14)+"counting"+"time") },
		"a hash":          func() { s.do("HSET", account, "name", "somebody", "visits", "17") },
		"a list":          func() { s.do("RPUSH", account, "x") },
		"a head of later": func() { s.do("SET", account, "\x05"+strings.Repeat("\x00", 30)) },
		"a head before":   func() { s.do("SET", account, "\x03"+strings.Repeat("\x00", 30)) },
	} {
		t.Run(name, func(t *testing.T) {
			s.do("DEL", account)
			put()
			before := s.do("DUMP", account)
			for _, call := range []exact.Call{call, booked} {
				_, err := c.Take(t.Context(), call)
				require.ErrorIs(t, err, redis.ErrUnreadable)
				require.ErrorIs(t, err, exact.ErrNotCounted)
				require.Equal(t, name == "a head of later" || name == "a head before", strings.Contains(err.Error(), "of another version of this package"))
				require.Equal(t, name == "a hash" || name == "a list", strings.Contains(err.Error(), "WRONGTYPE"))
			}
			_, err := c.Peek(t.Context(), call)
			require.ErrorIs(t, err, redis.ErrUnreadable)
			err = c.Refund(t.Context(), v.Receipt)
			require.ErrorIs(t, err, redis.ErrUnreadable)
			require.ErrorIs(t, err, exact.ErrNotCounted)
			// It ends Each too: a copy without it would be short of one, unseen.
			err = c.Each(t.Context(), func(engine.Record) error { return nil })
			require.ErrorContains(t, err, account, "the key that an operator must look at")
			require.ErrorIs(t, err, redis.ErrUnreadable)
			_, _, err = engine.Copy(t.Context(), memory.New(0, nil), c)
			require.ErrorIs(t, err, redis.ErrUnreadable)
			require.Equal(t, before, s.do("DUMP", account))
		})
	}
	require.Equal(t, 1, strings.Count(log.String(), "code=redis-unreadable"), "a line a minute")
	require.Contains(t, log.String(), "key="+account)
	s.do("DEL", account)
	for n := range 33 { // one more than an account has room for: all go to a hash
		s.do("SET", account+":s:0", "none")
		_, err = c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 50), ID: fmt.Sprint(n)})
		if n < 32 {
			require.NoError(t, err, "it begins anew")
		}
	}
	require.ErrorIs(t, err, redis.ErrUnreadable)
	require.EqualValues(t, 18, exactkit.Left(t, c, exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 50)}), "the last was not counted")
}

// An account of any kind that has lost a byte, or more at an end, is never taken for maybe counted;
// and it is refused, except for the few that cannot be told: one whose last entry is gone is an
// account.
func TestAccountsThatWereCut(t *testing.T) {
	s, c := opened(t)
	bucket := storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 1000, Window: time.Hour}
	trail := storeless.Limit{Name: "log", Algorithm: storeless.SlidingLog, Quota: 100, Window: time.Hour}
	policies := map[string]*exact.Policy{
		"one":   exactkit.PerYear(t, 1000),
		"three": exactkit.Compile(t, exactkit.Yearly(1000), bucket, trail),
		"lines": exactkit.Compile(t, bucket, storeless.Limit{Name: "slow", Algorithm: storeless.TokenBucket, Quota: 3600, Window: time.Hour, Burst: 1}),
	}
	for name, p := range policies {
		t.Run(name, func(t *testing.T) {
			call := exact.Call{Key: name, Cost: 1, Policy: p}
			var receipts []exact.Receipt
			for n := range 20 {
				asks := call
				if n%3 == 0 {
					asks.ID = fmt.Sprint("ID", n)
				}
				if name == "lines" {
					asks.Ahead = exact.MaxAhead
				}
				v := exactkit.Take(t, c, asks)
				require.True(t, v.Admitted)
				receipts = append(receipts, v.Receipt)
			}
			for n := 3; n < 20; n += 4 {
				require.NoError(t, c.Refund(t.Context(), receipts[n]))
			}
			exactkit.Take(t, c, exact.Call{Key: name, Policy: p, Pause: time.Minute})
			account := c.Account(p, name)
			whole := s.do("GET", account)
			damaged := 0
			for n := range len(whole) {
				for _, cut := range []string{whole[:n], whole[n+1:], whole[:n] + whole[n+1:]} {
					s.do("SET", account, cut)
					call.ID = fmt.Sprint("after", n)
					_, err := c.Take(t.Context(), call)
					require.NotErrorIs(t, err, exact.ErrMaybeCounted, "cut at %d: %v", n, err)
					if err != nil {
						damaged++
						require.ErrorIs(t, err, exact.ErrNotCounted)
						require.Equal(t, cut, s.do("GET", account))
						require.ErrorIs(t, c.Each(t.Context(), func(engine.Record) error { return nil }), redis.ErrUnreadable, n)
					}
					s.do("SET", account, cut)
					require.NotErrorIs(t, c.Refund(t.Context(), receipts[n%20]), exact.ErrMaybeCounted)
				}
			}
			require.GreaterOrEqual(t, damaged, 3*len(whole)-2)
		})
	}
}

const evicting = "set maxmemory-policy to noeviction, or DangerouslyAllowEviction"

// watched is a counter that asks so often whether the server evicts, its log, and a way to
// make a call.
func watched(t *testing.T, url string, every time.Duration) (take func() error, log *logged) {
	t.Helper()
	log = new(logged)
	c := kit.Must(redis.Open(url, redis.Config{Logger: slog.New(slog.NewTextHandler(log, nil))}))(t)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	c.(*redis.Counter).AskEvery(every)
	p := exactkit.PerYear(t, 1_000_000)
	return func() error {
		_, err := c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
		return err
	}, log
}

// becomes waits until calls fail because of eviction, or pass again. It does not wait for a counter that never asks: ten seconds
// of calls that pass are ten times as long as a question takes.
func becomes(t *testing.T, take func() error, refused bool) {
	t.Helper()
	passed := 0
	require.Eventually(t, func() bool {
		err := take()
		if err == nil {
			passed++
			return !refused || passed == 2000
		}
		return refused && strings.Contains(err.Error(), evicting)
	}, patient, 5*time.Millisecond)
	require.Less(t, passed, 2000, "the server is not asked whether it evicts")
}

// A server is told to evict later.
func TestServerThatBeginsToEvictIsRefused(t *testing.T) {
	s := startServer(t, "--maxmemory", "100mb")
	take, log := watched(t, s.url(), 0)
	becomes(t, take, false)
	for range 20 {
		require.NoError(t, take())
	}
	require.Zero(t, log.count("evict"))
	s.do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	becomes(t, take, true)
	require.ErrorIs(t, take(), exact.ErrNotCounted)
	require.Equal(t, 1, log.count("level=ERROR"), "once: accounts may be gone already")
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
	const documented = "TIME GET SET HMGET HSET EXPIRE EXPIREAT DEL UNLINK ZADD ZREM ZRANGE ZRANGEBYSCORE ZREMRANGEBYSCORE EVAL EVALSHA"
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
	require.Equal(t, 1, log.count("does not say whether it evicts keys"), "once a minute")
	require.Equal(t, 1, log.count("NOPERM"))

	for _, url := range []string{user("asking", documented+" INFO"), s.url()} {
		take, log = watched(t, url, time.Hour)
		becomes(t, take, true)
		err := take()
		require.ErrorIs(t, err, exact.ErrNotCounted)
		require.ErrorContains(t, err, evicting)
		require.Zero(t, log.count("does not say"))
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
			log := new(logged)
			c := kit.Must(redis.Open(s.url(), redis.Config{Logger: slog.New(slog.NewTextHandler(log, nil))}))(t)
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
			require.Equal(t, want, log.count("code=redis-emptied had="))
		})
	}
}

// namesOf returns the names of all accounts of a counter.
func namesOf(t *testing.T, c engine.Archive) []string {
	t.Helper()
	names := map[string]int{}
	require.NoError(t, c.Each(t.Context(), func(r engine.Record) error { names[r.Name]++; return nil }))
	for name, n := range names {
		require.Equal(t, 1, n, "%x", name)
	}
	return slices.Sorted(maps.Keys(names))
}

// Accounts are found among whatever else there is, also where what begins the names has bytes that a pattern has.
func TestAccountsAreFoundAmongOtherKeys(t *testing.T) {
	s := startServer(t)
	p := exactkit.PerYear(t, 10)
	for _, prefix := range []string{"", "a", `a*[b]?\:`} {
		c := kit.Must(redis.Open(s.url(), redis.Config{Prefix: prefix}))(t)
		defer c.Close() //nolint:errcheck // of a test
		connected(t, c)
		var want []string
		for n := range 30 {
			exactkit.Take(t, c, exact.Call{Key: strconv.Itoa(n), Cost: 1, Policy: p, ID: strconv.Itoa(n)})
			want = append(want, p.AccountName(strconv.Itoa(n)))
		}
		s.do("SET", c.(*redis.Counter).Account(p, "7")+":t:x", "1")
		s.do("SET", "a{0123456789012345678901", "1")
		s.do("SET", prefix+"{!!!!!!!!!!!!!!!!!!!!!!}", "1")
		require.Equal(t, slices.Sorted(slices.Values(want)), namesOf(t, c))

		m := memory.New(0, nil)
		copied, kept, err := engine.Copy(t.Context(), m, c)
		require.NoError(t, err)
		require.Equal(t, [2]int{30, 0}, [2]int{copied, kept})
		for key, remaining := range map[string]int64{"7": 9, "none": 10} {
			require.Equal(t, remaining, exactkit.Left(t, m, exact.Call{Key: key, Cost: 1, Policy: p}), key)
		}
	}
}

// What has come back of many charges, in any order, is known to the server when an account was
// moved there, and to the next when it was moved on.
func TestMovedAccountKnowsWhatCameBack(t *testing.T) {
	c := open(t, startServer(t).url())
	p := exactkit.PerYear(t, 1<<20)
	now, a := time.Now(), new(engine.Account)
	var receipts []exact.Receipt
	for n := range 9_000 {
		v := a.Take(now, &exact.Call{Key: "k", Cost: 1, Policy: p})
		if receipts = append(receipts, v.Receipt); n%3 == 0 {
			require.NoError(t, a.Refund(now, &v.Receipt))
		}
	}
	name := p.AccountName("k")
	require.NoError(t, c.Restore(t.Context(), engine.Record{Name: name, Account: a}))
	require.ErrorIs(t, c.Restore(t.Context(), engine.Record{Name: name, Account: a}), engine.ErrKept)
	for i := 0; i < len(receipts); i += 7 {
		want := a.Refund(now, &receipts[i])
		got := c.Refund(t.Context(), receipts[i])
		require.Equal(t, want == nil, got == nil, "%d: %v, %v", i, want, got)
		require.Equal(t, errors.Is(want, exact.ErrLateRefund), errors.Is(got, exact.ErrLateRefund), i)
	}
	m := memory.New(0, nil)
	copied, _, err := engine.Copy(t.Context(), m, c)
	require.NoError(t, err)
	require.Equal(t, 1, copied)
	for i := range receipts {
		want := a.Refund(now, &receipts[i])
		got := m.Refund(t.Context(), receipts[i])
		require.Equal(t, want == nil, got == nil, "%d: %v, %v", i, want, got)
	}
	require.NoError(t, c.Forget(t.Context(), name))
	require.Empty(t, namesOf(t, c))
}
