// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/lease"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

func TestCounter(t *testing.T) {
	s := startServer(t)
	test := func(suite exacttest.Suite) {
		t.Helper()
		require.NoError(t, suite.Test())
	}
	test(exacttest.Suite{Open: func() (exact.Counter, error) { return dialed(t, s.url()) }})
	test(exacttest.Suite{Open: func() (exact.Counter, error) {
		return open(t, s.url()).Engine(), nil // each call by itself, and in batches
	}})
	test(exacttest.Suite{OneProcess: true, Open: func() (exact.Counter, error) {
		return lease.New(open(t, s.url()), lease.Config{Instances: 2})
	}})
	// Answers that are lost: the proxy cuts the connection instead of passing the next one on.
	p := exactkit.StartProxy(t, s.Addr())
	test(exacttest.Suite{Open: func() (exact.Counter, error) { return dialed(t, throughProxy(p)) }, LoseAnswer: func(c exact.Counter) {
		p.LoseNext("EVALSHA")
	}})
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}})
	require.NoError(t, err)
	defer client.Close()
	c, err := redis.New(client, redis.Config{Prefix: "mine:"})
	require.NoError(t, err)
	connected(t, c)
	test(exacttest.Suite{Open: func() (exact.Counter, error) { return c.(*redis.Counter).Engine(), nil }})
	require.NoError(t, c.Close())
	require.NoError(t, client.Do(t.Context(), client.B().Ping().Build()).Error(), "the client is the caller's")
}

// Time passes, and steps back: the script and the arithmetic of package exact agree.
func TestCounterByAClock(t *testing.T) {
	s, clock := startServer(t), ahead()
	suite := exacttest.Suite{Clock: clock, Open: func() (exact.Counter, error) {
		return timed{s.byKey(redis.Config{}), s, clock}, nil
	}}
	require.NoError(t, suite.Test())
}

// TestScriptIsTheArithmetic runs random traces on the server and in memory: every
// verdict is the same, of all algorithms, with numbers at their bounds.
func TestScriptIsTheArithmetic(t *testing.T) {
	b := newBoth(t)
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 9))
		quota := []int64{3, 50, 9999, storeless.MaxQuota}[seed%4]
		window := []time.Duration{time.Second, time.Minute, 17 * time.Hour, storeless.MaxWindow}[seed/4%4]
		if seed >= 8 {
			window = storeless.MaxWindow - time.Duration(rng.Int64N(1000))*time.Second
		}
		p := exactkit.Compile(t,
			storeless.Limit{Name: "sliding", Quota: quota, Window: window},
			storeless.Limit{Name: "fixed", Algorithm: storeless.FixedWindow, Quota: quota, Window: window},
			storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: quota, Window: window, Burst: 1 + quota/2},
			storeless.Limit{Name: "log", Algorithm: storeless.SlidingLog, Quota: min(quota, exact.MaxLog), Window: window},
			storeless.Limit{Name: "day", Algorithm: storeless.RollingDay, Quota: quota, Window: 24 * time.Hour},
			storeless.Limit{Name: "calendar", Calendar: []string{"day", "week", "month"}[seed%3], Zone: "Europe/Berlin", Quota: quota})
		one := exactkit.Compile(t, p.Limit(int(seed)%3))
		var receipts []exact.Receipt
		admitted := 0
		for step := range 500 {
			of := fmt.Sprintf("seed %d, step %d", seed, step)
			b.clock.Advance(time.Duration(rng.Float64() * rng.Float64() * float64(min(window, 24*time.Hour)) / 20).Truncate(time.Microsecond))
			call := exact.Call{Key: strconv.FormatUint(seed, 10), Cost: 1 + rng.Int64N(1+quota/5), Policy: p}
			if call.Cost > 10_000 && seed%2 == 0 {
				call.Cost = 1 + rng.Int64N(20)
			}
			if rng.IntN(3) == 0 {
				call.Policy, call.Key = one, call.Key+"-one"
			}
			call.Past = rng.IntN(12) == 0
			if rng.IntN(40) == 0 {
				call.Pause, call.Past = 1+time.Duration(rng.Int64N(int64(min(window, 24*time.Hour)/10))), true
				if rng.IntN(2) == 0 {
					call.Cost, call.Past = 0, false
				}
			}
			v := b.take(call, false, of)
			if v.Admitted && call.Cost > 0 {
				admitted++
				receipts = append(receipts, v.Receipt)
			}
			if rng.IntN(8) == 0 && len(receipts) > 0 {
				b.refund(receipts[rng.IntN(len(receipts))], of)
			}
		}
		require.Positive(t, admitted)
	}
}

// A product that is too large for a double, and comes out even.
func TestProductsBeyondDoubles(t *testing.T) {
	b := newBoth(t)
	const w, keys = storeless.MaxWindow, 16
	third := func(key int) int64 { return 715_827_881 - 2*int64(key) } // odd
	take := func(key int, cost int64) bool {
		return exactkit.Take(t, b.redis, exact.Call{Key: strconv.Itoa(key), Cost: cost, Policy: exactkit.Compile(t, storeless.Limit{Quota: storeless.MaxQuota, Window: w})}).Admitted
	}
	b.clock.Advance(w - time.Duration(b.clock.Now().UnixNano()%int64(w)))
	for key := range keys {
		require.True(t, take(key, 3*third(key)))
	}
	b.clock.Advance(w + w/3)
	for key := range keys {
		room := storeless.MaxQuota - 2*third(key)
		require.False(t, take(key, room+1))
		require.True(t, take(key, room))
	}
}

// Every key has a time to live.
func TestKeysExpire(t *testing.T) {
	s, c := opened(t)
	p := exactkit.Compile(t,
		storeless.Limit{Name: "log", Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Hour},
		storeless.Limit{Name: "day", Algorithm: storeless.RollingDay, Quota: 5, Window: 24 * time.Hour})
	for i := range 7 {
		v := exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p, ID: strconv.Itoa(i)})
		require.Equal(t, i < 5, v.Admitted)
		if i == 0 {
			require.NoError(t, c.Refund(t.Context(), v.Receipt))
			exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
		}
	}
	s.expires(0)
	require.Equal(t, ":3", s.do("DBSIZE"), "an account with its IDs, two logs")
}

// Parts of a log that is refunded keep their time to live, and a log that outlives
// its account, or the other way round, counts nothing.
func TestLogsAndAccountsEndTogether(t *testing.T) {
	s, c := opened(t)
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.SlidingLog, Quota: 10, Window: time.Hour})
	all := func(key string) (admitted int) {
		for range 30 {
			if exactkit.Take(t, c, exact.Call{Key: key, Cost: 1, Policy: p}).Admitted {
				admitted++
			}
		}
		return admitted
	}
	part := exactkit.Take(t, c, exact.Call{Key: "a", Cost: 10, Policy: p}).Receipt
	part.Cost = 1
	require.NoError(t, c.Refund(t.Context(), part))
	s.expires(0)
	require.Equal(t, 1, all("a"))
	for what, pattern := range map[string]string{"its log": "*:t:*", "its account": "*}"} {
		s.do("FLUSHALL")
		require.Equal(t, 10, all("b"))
		require.Equal(t, ":1", s.do("EVAL", `return redis.call('DEL', unpack(redis.call('KEYS', ARGV[1])))`, "0", pattern))
		require.Equal(t, 10, all("b"), "an account without %s is a fresh one", what)
		require.Zero(t, all("b"))
	}
}

// Two configurations of one name share an account, which ends with the longer of them.
func TestLongerWindowKeepsTheAccount(t *testing.T) {
	s, c := opened(t)
	for _, window := range []time.Duration{time.Hour, time.Second} {
		_, err := c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, storeless.Limit{Name: "first", Quota: 10, Window: window})})
		if window == time.Second {
			_, err = c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, storeless.Limit{Name: "second", Quota: 10, Window: window})})
		}
		require.NoError(t, err)
	}
	require.Equal(t, ":1", s.do("EVAL", `return redis.call('TTL', redis.call('KEYS', '*}')[1]) > 3000 and 1 or 0`, "0"))
}

// processes call at once, through lost scripts.
func TestScriptFlushMidLoad(t *testing.T) {
	s := startServer(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50 {
			s.do("SCRIPT", "FLUSH")
		}
	}()
	counters := []exact.Counter{open(t, s.url()), open(t, s.url()), open(t, s.url()), open(t, s.url())}
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 1000)}
	admitted := exactkit.Admitted(t, 32, 100, func(caller, _ int) (exact.Counter, exact.Call) { return counters[caller%4], call })
	<-done
	require.EqualValues(t, 1000, admitted)
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	for _, url := range []string{"", "localhost:6379", "http://secret@localhost", "redis://u:secret@host:port/0", "redis://u:secret@localhost/x"} {
		_, err := redis.Open(url, redis.Config{})
		require.EqualError(t, err, "url: must look like redis://user:password@host:port/0, or rediss:// for TLS", url)
		require.NotContains(t, err.Error(), "secret")
	}
	_, err := redis.Open("redis://localhost", redis.Config{Prefix: "{x}"})
	require.EqualError(t, err, "Prefix: must hold no braces: a cluster makes hash tags of them")
	_, err = redis.New(nil, redis.Config{})
	require.EqualError(t, err, "client: is nil")
}
