// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

// patient is when a test gives up on what is bound to come: a busy machine may take
// long, and no test judges how long.
const patient = exactkit.Patient

const (
	// Ten times the default, because a busy machine is no outage; below the second that
	// an open breaker keeps calls back from the start of the one that failed.
	deadline = 500 * time.Millisecond
	limit    = 300 // each customer's, in exact and in fallback
)

// A server is a redis-server of one test.
type server struct {
	*exactkit.Server
	t         testing.TB
	args      []string
	clock     rueidis.Client // of at
	clockOnce sync.Once
}

func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		kit.Unable(t, "there is no redis-server (Debian: apt-get install redis-server)")
	}
	s, dir := &server{t: t, args: args}, t.TempDir()
	s.Server = exactkit.StartServer(t, func(port string) *exec.Cmd {
		return exec.Command("redis-server", slices.Concat([]string{"--port", port, "--bind", "127.0.0.1", "--dir", dir,
			"--save", "", "--appendonly", "no", "--daemonize", "no", "--loglevel", "warning"}, s.args)...)
	})
	return s
}

func redisAt(addr string) string { return "redis://" + addr + "/0" }

func (s *server) url() string { return redisAt(s.Addr()) }

func throughProxy(p *exactkit.Proxy) string { return redisAt(p.Addr().String()) }

// do sends one command on a connection of its own, and returns what the server says.
func (s *server) do(words ...string) string { return s.authenticated("", words...) }

// authenticated is do, with a password.
func (s *server) authenticated(password string, words ...string) string {
	s.t.Helper()
	c, err := net.Dial("tcp", s.Addr())
	require.NoError(s.t, err)
	defer c.Close()
	require.NoError(s.t, c.SetDeadline(time.Now().Add(patient)))
	send := func(words ...string) {
		fmt.Fprintf(c, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(c, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	r := bufio.NewReader(c)
	if password != "" {
		send("AUTH", password)
		said, err := r.ReadString('\n')
		require.NoError(s.t, err)
		require.Equal(s.t, "+OK", strings.TrimSpace(said))
	}
	send(words...)
	line, err := r.ReadString('\n')
	require.NoError(s.t, err)
	if n, err := strconv.Atoi(strings.TrimSpace(line[1:])); line[0] == '$' && err == nil && n >= 0 {
		b := make([]byte, n)
		for at := 0; at < n; {
			m, err := r.Read(b[at:])
			require.NoError(s.t, err)
			at += m
		}
		return string(b)
	}
	return strings.TrimSpace(line)
}

// open opens a counter that is connected.
func open(t testing.TB, url string) *redis.Counter {
	t.Helper()
	c := unconnected(t, url)
	connected(t, c)
	return c
}

// unconnected opens a counter on a server that does not answer, or is not believed.
func unconnected(t testing.TB, url string) *redis.Counter {
	t.Helper()
	c := kit.Must(redis.Open(url, redis.Config{}))(t)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c.(*redis.Counter)
}

// opened starts a server, and opens a counter on it.
func opened(t testing.TB) (*server, *redis.Counter) {
	t.Helper()
	s := startServer(t)
	return s, open(t, s.url())
}

// connected waits until a counter has all its connections: to each node, and of those to one each key has its own. An
// attempt ends after a second, and that is not long where a machine is busy.
func connected(t testing.TB, c exact.Counter) {
	t.Helper()
	call := exact.Call{Cost: 1, Policy: exactkit.PerYear(t, 1)}
	require.Eventually(t, func() bool {
		var err error
		for n := 0; n < 64 && err == nil; n++ {
			call.Key = strconv.Itoa(n)
			_, err = c.Peek(t.Context(), call)
		}
		return err == nil
	}, patient, time.Millisecond)
}

// dialed opens a counter that is connected, for a suite, which closes it.
func dialed(t testing.TB, url string) (exact.Counter, error) {
	c, err := redis.Open(url, redis.Config{})
	if err == nil {
		connected(t, c)
	}
	return c, err
}

// at sets the clock that the counters of byKey go by.
func (s *server) at(now time.Time) {
	s.clockOnce.Do(func() {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}, DisableCache: true})
		require.NoError(s.t, err)
		s.t.Cleanup(client.Close)
		s.clock = client
	})
	require.NoError(s.t, s.clock.Do(context.Background(), s.clock.B().Hset().Key("clock").FieldValue().
		FieldValue("s", strconv.FormatInt(now.Unix(), 10)).FieldValue("us", strconv.Itoa(now.Nanosecond()/1000)).Build()).Error())
}

// byKey opens a counter that goes by a clock that is a key.
func (s *server) byKey(cfg redis.Config) *redis.Counter {
	s.t.Helper()
	c, err := redis.OpenByKey(s.url(), cfg)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, c.Close()) })
	s.do("HSETNX", "clock", "s", "1")
	s.do("HSETNX", "clock", "us", "0")
	connected(s.t, c)
	return c
}

// timed is a counter whose server goes by a clock of the test.
type timed struct {
	*redis.Counter
	s     *server
	clock *exacttest.Clock
}

func (c timed) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	c.s.at(c.clock.Now())
	return c.Counter.Take(ctx, call)
}

func (c timed) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	c.s.at(c.clock.Now())
	return c.Counter.Peek(ctx, call)
}

func (c timed) Refund(ctx context.Context, r exact.Receipt) error {
	c.s.at(c.clock.Now())
	return c.Counter.Refund(ctx, r)
}

// ahead returns a clock that begins in the future of the server's own, by which keys expire.
func ahead() *exacttest.Clock {
	clock := exacttest.NewClock()
	clock.Advance(time.Until(clock.Now()).Abs().Truncate(24*time.Hour) + 48*time.Hour)
	return clock
}

// eval runs a script that answers with a number or a string.
func (s *server) eval(script string, words ...string) string {
	return s.do(append([]string{"EVAL", script, "0"}, words...)...)
}

// expires fails if a key, but for the clock of at, lives for ever or, where most is above 0, for more seconds than that.
func (s *server) expires(most int) {
	s.t.Helper()
	require.Equal(s.t, "0", s.eval(`local n = 0
		for _, k in ipairs(redis.call('KEYS', '*')) do
			local ttl = redis.call('TTL', k)
			if k ~= 'clock' and (ttl < 1 or tonumber(ARGV[1]) > 0 and ttl > tonumber(ARGV[1])) then n = n + 1 end
		end
		return tostring(n)`, strconv.Itoa(most)), "every key expires in its time")
}

// size is how many bytes an account has.
func (s *server) size(account string) int {
	s.t.Helper()
	n, err := strconv.Atoi(strings.TrimPrefix(s.do("STRLEN", account), ":"))
	require.NoError(s.t, err)
	return n
}

// sentInTime makes calls that a frozen server does not answer. Each of them may be counted. A machine that stands still
// until the deadline has not sent some of them, and knows it: then they are made once more.
func sentInTime(t *testing.T, calls func() []error) {
	t.Helper()
	for tries := 1; ; tries++ {
		unsent := false
		for _, err := range calls() {
			if errors.Is(err, exact.ErrNotCounted) {
				unsent = true
				continue
			}
			require.ErrorIs(t, err, exact.ErrMaybeCounted)
		}
		if !unsent {
			return
		}
		require.Less(t, tries, 10, "calls are never sent")
	}
}

// ends waits for what must not hang while a server hangs.
func ends(t *testing.T, wg *sync.WaitGroup) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); wg.Wait() }()
	select {
	case <-done:
	case <-time.After(patient):
		require.FailNow(t, "a request does not keep its deadline")
	}
}
