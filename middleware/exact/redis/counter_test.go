// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/lease"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
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
	client := kit.Must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}}))(t)
	defer client.Close()
	c := kit.Must(redis.New(client, redis.Config{Prefix: "mine:"}))(t)
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

func TestMain(m *testing.M) {
	exactkit.Process(func(where string) (exact.Counter, error) { return redis.Open(where, redis.Config{}) })
	os.Exit(m.Run())
}

// TestExactAcrossProcesses has four processes make 5000 attempts at a limit of 1000, 20
// times: exactly 1000 pass, also when the way back loses answers.
func TestExactAcrossProcesses(t *testing.T) {
	kit.OnlyWhole(t, "takes most of a minute")
	s := startServer(t)
	require.Zero(t, exactkit.AcrossProcesses(t, 20, 40, s.Addr(), redisAt, open(t, s.url())), "no call is charged twice")
}

// A flood that meets a server which hardly answers is load: 503, and never the fallback.
func TestFloodIsNoOutage(t *testing.T) {
	s := startServer(t)
	p := exactkit.StartProxy(t, s.Addr())
	counter := open(t, throughProxy(p))
	site := newSite(t, counter, middleware.FailOpen, limit, deadline)
	site.ask("warm")
	p.Set(exactkit.Ways{Delay: deadline / 4})
	var overloaded, degraded, admitted atomic.Int64
	kit.Together(2000, func(n int) {
		status, fallback := site.ask(fmt.Sprint("flood", n))
		if status == http.StatusServiceUnavailable {
			overloaded.Add(1)
		}
		if status == http.StatusOK {
			admitted.Add(1)
		}
		if fallback {
			degraded.Add(1)
		}
	})
	require.Positive(t, overloaded.Load())
	require.Zero(t, degraded.Load())
	require.Zero(t, site.logged.count("does not answer"))
	p.Set(exactkit.Ways{})
	site.recovers(t)
	t.Logf("%d overloaded, %d admitted, %d degraded", overloaded.Load(), admitted.Load(), degraded.Load())
}

// A flood on a server that is frozen keeps its deadlines too, though the client has no
// more places for what is unanswered.
func TestFloodOnAFrozenServerKeepsDeadlines(t *testing.T) {
	s, counter := opened(t)
	site := newSite(t, counter, middleware.FailOpen, limit, deadline)
	site.ask("warm")
	s.Freeze()
	defer s.Thaw()
	before := runtime.NumGoroutine()
	var degraded, most atomic.Int64
	var wg sync.WaitGroup
	for w := range 250 {
		wg.Go(func() {
			// After a second it is an outage.
			for n := 0; n < 20 || degraded.Load() == 0; n++ {
				if _, fallback := site.ask(fmt.Sprint("flood", w, "-", n)); fallback {
					degraded.Add(1)
				}
				now := int64(runtime.NumGoroutine())
				for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	ends(t, &wg)
	t.Logf("%d degraded, %d goroutines", degraded.Load(), most.Load())
	require.Less(t, most.Load(), int64(before+2*250+2*512))
}

// A silent server holds a fixed number of calls: the next one is told at once that it
// was not counted.
func TestUnansweredCallsHaveABound(t *testing.T) {
	s := startServer(t)
	p := exactkit.StartProxy(t, s.Addr())
	counter := open(t, throughProxy(p))
	policy := exactkit.PerYear(t, 5)
	exactkit.Peek(t, counter, exact.Call{Key: "k", Cost: 1, Policy: policy})
	p.Set(exactkit.Ways{Swallow: true})
	var busy atomic.Int64
	var wg sync.WaitGroup
	for n := range 2048 {
		wg.Go(func() {
			call := exact.Call{Key: fmt.Sprint("k", n), Cost: 1, Policy: policy}
			if _, err := counter.Take(t.Context(), call); errors.Is(err, exact.ErrBusy) {
				busy.Add(1)
			}
		})
	}
	ends(t, &wg)
	t.Logf("%d of 2048 calls found no place", busy.Load())
	require.Positive(t, busy.Load())
}

// spent is what the commands of a kind have cost the server: how many, and the time of all.
func (s *server) spent(command string) (calls, usec int) {
	stats := s.do("INFO", "commandstats")
	m := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+),usec=(\d+)`).FindStringSubmatch(stats)
	if m == nil {
		return 0, 0
	}
	calls, _ = strconv.Atoi(m[1])
	usec, _ = strconv.Atoi(m[2])
	return calls, usec
}

// A dear refusal of a full sliding log looks at as many marks as a cheap one, within a
// bound, and says the same as the memory does: never a wait that is too short.
func TestDearRefusalCostsNoMoreThanACheapOne(t *testing.T) {
	b := newBoth(t)
	s, c, clock, memory := b.server, b.redis, b.clock, b.memory
	const quota = 4000
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.SlidingLog, Quota: quota, Window: time.Hour})
	rng := rand.New(rand.NewPCG(1, 1))
	both := func(cost int64, p *exact.Policy) exact.Verdict {
		return b.take(exact.Call{Key: "k", Cost: cost, Policy: p}, false, fmt.Sprint("cost ", cost))
	}
	marks := 0
	var some []exact.Receipt
	for {
		clock.Advance(100 * time.Millisecond)
		v := both(1+rng.Int64N(3), p)
		if !v.Admitted {
			break
		}
		marks++
		some = append(some, v.Receipt)
	}
	require.Greater(t, marks, 1500)
	for n := 0; n < len(some); n += 7 { // holes, which are no marks
		r := some[n]
		require.NoError(t, c.Refund(t.Context(), r))
		require.NoError(t, memory.Refund(t.Context(), r))
	}
	for v := both(1, p); v.Admitted; v = both(1, p) {
	}
	for range 200 {
		clock.Advance(time.Duration(rng.Int64N(int64(200 * time.Millisecond))))
		cost := 1 + rng.Int64N(quota)
		if v := both(cost, p); !v.Admitted {
			require.LessOrEqual(t, v.Wait, time.Hour)
		}
	}
	lowered := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.SlidingLog, Quota: quota / 3, Window: time.Hour})
	for _, cost := range []int64{1, 10, quota / 6, quota / 3, quota / 2} {
		require.False(t, both(cost, lowered).Admitted)
	}

	refuse := func(cost int64) (pages, usec int) {
		const times = 20
		before, _ := s.spent("zrangebyscore")
		_, from := s.spent("evalsha")
		for range times {
			require.False(t, exactkit.Peek(t, c, exact.Call{Key: "k", Cost: cost, Policy: p}).Admitted)
		}
		after, _ := s.spent("zrangebyscore")
		_, to := s.spent("evalsha")
		return (after - before) / times, (to - from) / times
	}
	both(quota, p) // what has ended is gone
	cheap, cheapTime := refuse(quota - 1)
	t.Logf("a refusal at cost %d of %d, %d marks: %d pages, %d us of the server", quota-1, quota, marks, cheap, cheapTime)
	require.LessOrEqual(t, cheap, 5)
}
