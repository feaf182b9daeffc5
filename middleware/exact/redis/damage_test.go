// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/proof/exactkit"
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
		"a hash, alike":   func() { s.do("HSET", account, "a", "1") },
		"half a hash":     func() { s.do("HSET", account, ".t", "1", ".n", "2", ".e", "3", "a", "1 2") },
		"a list":          func() { s.do("RPUSH", account, "x") },
		"a head of later": func() { s.do("SET", account, "\x05"+strings.Repeat("\x00", 30)) },
		"a hash of text":  func() { s.do("HSET", account, ".t", "now", ".n", "2", ".e", "3", "a", "1 2 3") },
	} {
		t.Run(name, func(t *testing.T) {
			s.do("DEL", account)
			put()
			before := s.do("DUMP", account)
			for _, call := range []exact.Call{call, booked} {
				_, err := c.Take(t.Context(), call)
				require.ErrorIs(t, err, redis.ErrUnreadable)
				require.ErrorIs(t, err, exact.ErrNotCounted)
				for part, said := range map[string]string{"a head of later": "of a later version of this package", "a list": "WRONGTYPE"} {
					require.Equal(t, name == part, strings.Contains(err.Error(), said))
				}
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

// An account of any kind that has lost a byte, or more at an end, is never taken for maybe counted; and it
// is refused, but for the few that nobody could tell: one whose last entry is gone is an account.
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
