// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/faults"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/storeless"
)

func TestCounter(t *testing.T) {
	s := startServer(t)
	test := func(suite exacttest.Suite) {
		t.Helper()
		require.NoError(t, suite.Test())
	}
	test(exacttest.Suite{Open: func() (exact.Counter, error) { return redis.Open(s.url(), redis.Config{}) }})
	test(exacttest.Suite{Open: func() (exact.Counter, error) {
		return open(t, s.url()).Engine(), nil // each call by itself, and in batches
	}})
	test(exacttest.Suite{OneProcess: true, Open: func() (exact.Counter, error) {
		return exact.Lease(open(t, s.url()), exact.LeaseConfig{Instances: 2})
	}})
	// Answers that are lost: the proxy cuts the connection instead of passing the next one on.
	p := faults.StartProxy(t, s.addr())
	test(exacttest.Suite{Open: func() (exact.Counter, error) { return redis.Open(throughProxy(p), redis.Config{}) }, LoseAnswer: func(c exact.Counter) {
		_, err := c.Peek(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: compile(t, yearly(1))})
		require.NoError(t, err, "it is connected")
		p.LoseNext("EVALSHA")
	}})
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.addr()}})
	require.NoError(t, err)
	defer client.Close()
	c, err := redis.New(client, redis.Config{Prefix: "mine:"})
	require.NoError(t, err)
	test(exacttest.Suite{Open: func() (exact.Counter, error) { return c.(*redis.Counter).Engine(), nil }})
	require.NoError(t, c.Close())
	require.NoError(t, client.Do(t.Context(), client.B().Ping().Build()).Error(), "the client is the caller's")
}

// timed is a counter whose server goes by a clock of the test.
type timed struct {
	*redis.Counter
	clock *exacttest.Clock
	set   func(time.Time) error
}

func (c timed) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := c.set(c.clock.Now()); err != nil {
		return exact.Verdict{}, err
	}
	return c.Counter.Take(ctx, call)
}

func (c timed) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := c.set(c.clock.Now()); err != nil {
		return exact.Verdict{}, err
	}
	return c.Counter.Peek(ctx, call)
}

func (c timed) Refund(ctx context.Context, r exact.Receipt) error {
	if err := c.set(c.clock.Now()); err != nil {
		return err
	}
	return c.Counter.Refund(ctx, r)
}

// byClock opens counters that go by a clock that begins in the future of the server's
// own, by which keys expire.
func byClock(t *testing.T, s *server) (*exacttest.Clock, func() (exact.Counter, error)) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.addr()}, DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	clock := exacttest.NewClock()
	clock.Advance(time.Until(clock.Now()).Abs().Truncate(24*time.Hour) + 48*time.Hour)
	set := func(now time.Time) error {
		return client.Do(context.Background(), client.B().Hset().Key("clock").FieldValue().
			FieldValue("s", strconv.FormatInt(now.Unix(), 10)).FieldValue("us", strconv.Itoa(now.Nanosecond()/1000)).Build()).Error()
	}
	return clock, func() (exact.Counter, error) {
		c, err := redis.OpenByKey(s.url(), redis.Config{})
		return timed{c, clock, set}, err
	}
}

// Time passes, and steps back: the script and the arithmetic of package exact agree.
func TestCounterByAClock(t *testing.T) {
	s := startServer(t)
	clock, open := byClock(t, s)
	suite := exacttest.Suite{Open: open, Clock: clock}
	require.NoError(t, suite.Test())
}

// TestScriptIsTheArithmetic runs random traces on the server and in memory: every
// verdict is the same, of all algorithms, with numbers at their bounds.
func TestScriptIsTheArithmetic(t *testing.T) {
	s := startServer(t)
	clock, open := byClock(t, s)
	c, err := open()
	require.NoError(t, err)
	memory := exact.NewMemory(0, clock.Now)
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 9))
		quota := []int64{3, 50, 9999, storeless.MaxQuota}[seed%4]
		window := []time.Duration{time.Second, time.Minute, 17 * time.Hour, storeless.MaxWindow}[seed/4%4]
		if seed >= 8 {
			window = storeless.MaxWindow - time.Duration(rng.Int64N(1000))*time.Second
		}
		p := compile(t,
			storeless.Limit{Name: "sliding", Quota: quota, Window: window},
			storeless.Limit{Name: "fixed", Algorithm: storeless.FixedWindow, Quota: quota, Window: window},
			storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: quota, Window: window, Burst: 1 + quota/2},
			storeless.Limit{Name: "log", Algorithm: storeless.SlidingLog, Quota: min(quota, exact.MaxLog), Window: window},
			storeless.Limit{Name: "day", Algorithm: storeless.RollingDay, Quota: quota, Window: 24 * time.Hour})
		one := compile(t, p.Limit(int(seed)%3))
		var receipts [][2]exact.Receipt
		admitted := 0
		for step := range 500 {
			clock.Advance(time.Duration(rng.Float64() * rng.Float64() * float64(min(window, 24*time.Hour)) / 20).Truncate(time.Microsecond))
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
			got, err := c.Take(t.Context(), call)
			require.NoError(t, err)
			want, err := memory.Take(t.Context(), call)
			require.NoError(t, err)
			require.Equal(t, want.Verdict, got.Verdict, "seed %d, step %d", seed, step)
			if got.Admitted && call.Cost > 0 {
				admitted++
				receipts = append(receipts, [2]exact.Receipt{got.Receipt, want.Receipt})
			}
			if rng.IntN(8) == 0 && len(receipts) > 0 {
				i := rng.IntN(len(receipts))
				require.Equal(t, memory.Refund(t.Context(), receipts[i][1]), c.Refund(t.Context(), receipts[i][0]))
			}
		}
		require.Positive(t, admitted)
	}
}

// A product that is too large for a double, and comes out even.
func TestProductsBeyondDoubles(t *testing.T) {
	s := startServer(t)
	clock, open := byClock(t, s)
	c, err := open()
	require.NoError(t, err)
	const w, keys = storeless.MaxWindow, 16
	third := func(key int) int64 { return 715_827_881 - 2*int64(key) } // odd
	take := func(key int, cost int64) bool {
		v, err := c.Take(t.Context(), exact.Call{Key: strconv.Itoa(key), Cost: cost, Policy: compile(t, storeless.Limit{Quota: storeless.MaxQuota, Window: w})})
		require.NoError(t, err)
		return v.Admitted
	}
	clock.Advance(w - time.Duration(clock.Now().UnixNano()%int64(w)))
	for key := range keys {
		require.True(t, take(key, 3*third(key)))
	}
	clock.Advance(w + w/3)
	for key := range keys {
		room := storeless.MaxQuota - 2*third(key)
		require.False(t, take(key, room+1))
		require.True(t, take(key, room))
	}
}

// Every key has a time to live.
func TestKeysExpire(t *testing.T) {
	s := startServer(t)
	c := open(t, s.url())
	p := compile(t,
		storeless.Limit{Name: "log", Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Hour},
		storeless.Limit{Name: "day", Algorithm: storeless.RollingDay, Quota: 5, Window: 24 * time.Hour})
	for i := range 7 {
		v, err := c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p, ID: strconv.Itoa(i)})
		require.NoError(t, err)
		require.Equal(t, i < 5, v.Admitted)
		if i == 0 {
			require.NoError(t, c.Refund(t.Context(), v.Receipt))
			_, err := c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
			require.NoError(t, err)
		}
	}
	keys := s.do("EVAL", `local n = 0
		for _, k in ipairs(redis.call('KEYS', '*')) do
			if redis.call('TTL', k) < 1 then return k .. ' does not expire' end
			n = n + 1
		end
		return tostring(n)`, "0")
	require.Equal(t, strconv.Itoa(1+2), keys, "an account with its IDs, two logs")
}

// Parts of a log that is refunded keep their time to live, and a log that outlives
// its account, or the other way round, counts nothing.
func TestLogsAndAccountsEndTogether(t *testing.T) {
	s := startServer(t)
	c := open(t, s.url())
	p := compile(t, storeless.Limit{Algorithm: storeless.SlidingLog, Quota: 10, Window: time.Hour})
	all := func(key string) (admitted int) {
		for range 30 {
			v, err := c.Take(t.Context(), exact.Call{Key: key, Cost: 1, Policy: p})
			require.NoError(t, err)
			if v.Admitted {
				admitted++
			}
		}
		return admitted
	}
	ten, err := c.Take(t.Context(), exact.Call{Key: "a", Cost: 10, Policy: p})
	require.NoError(t, err)
	part := ten.Receipt
	part.Cost = 1
	require.NoError(t, c.Refund(t.Context(), part))
	require.Equal(t, "0", s.do("EVAL", `local n = 0
		for _, k in ipairs(redis.call('KEYS', '*')) do if redis.call('TTL', k) < 1 then n = n + 1 end end
		return tostring(n)`, "0"), "every key expires")
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
	s := startServer(t)
	c := open(t, s.url())
	for _, window := range []time.Duration{time.Hour, time.Second} {
		_, err := c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: compile(t, storeless.Limit{Name: "first", Quota: 10, Window: window})})
		if window == time.Second {
			_, err = c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: compile(t, storeless.Limit{Name: "second", Quota: 10, Window: window})})
		}
		require.NoError(t, err)
	}
	require.Equal(t, ":1", s.do("EVAL", `return redis.call('TTL', redis.call('KEYS', '*}')[1]) > 3000 and 1 or 0`, "0"))
}

// processes call at once, through lost scripts.
func TestScriptFlushMidLoad(t *testing.T) {
	s := startServer(t)
	p := compile(t, yearly(1000))
	var admitted atomic.Int64
	var wg sync.WaitGroup
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50 {
			s.do("SCRIPT", "FLUSH")
		}
	}()
	for range 4 {
		c := open(t, s.url())
		for range 8 {
			wg.Go(func() {
				for range 100 {
					v, err := c.Take(context.Background(), exact.Call{Key: "k", Cost: 1, Policy: p})
					if err != nil {
						t.Error(err)
					}
					if v.Admitted {
						admitted.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	<-done
	require.EqualValues(t, 1000, admitted.Load())
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	for _, url := range []string{"", "localhost:6379", "http://secret@localhost", "redis://u:secret@host:port/0", "redis://u:secret@localhost/x"} {
		_, err := redis.Open(url, redis.Config{})
		require.EqualError(t, err, "url: must look like redis://user:password@host:port/0, or rediss:// for TLS", url)
		require.NotContains(t, err.Error(), "secret")
	}
	_, err := redis.Open("redis://localhost", redis.Config{Prefix: "{x}"})
	require.EqualError(t, err, "Prefix: must hold no braces, of which a cluster makes hash tags")
	_, err = redis.New(nil, redis.Config{})
	require.EqualError(t, err, "client: is nil")
}
