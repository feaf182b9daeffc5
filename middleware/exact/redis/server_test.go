// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/faults"
	"github.com/tallystick/tallystick/internal/testkit"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/storeless"
)

// patient is when a test gives up on what is bound to come: a busy machine may take
// long, and no test judges how long.
const patient = 5 * time.Minute

// A server is a redis-server of one test, on a port of its own.
type server struct {
	t    testing.TB
	port string
	args []string
	dir  string
	cmd  *exec.Cmd
}

// startServer starts a server, and ends it with the test by its process id.
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		testkit.Unable(t, "there is no redis-server (Debian: apt-get install redis-server)")
	}
	s := &server{t: t, port: freePort(t), args: args, dir: t.TempDir()}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func (s *server) start(args ...string) {
	s.t.Helper()
	s.cmd = exec.Command("redis-server", slices.Concat([]string{"--port", s.port, "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--loglevel", "warning"}, s.args, args)...)
	require.NoError(s.t, s.cmd.Start())
	require.Eventually(s.t, func() bool {
		c, err := net.Dial("tcp", s.addr())
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, patient, 5*time.Millisecond, "it answers")
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *server) addr() string { return "127.0.0.1:" + s.port }

func (s *server) url() string { return "redis://" + s.addr() + "/0" }

func throughProxy(p *faults.Proxy) string { return "redis://" + p.Addr().String() + "/0" }

// do sends one command on a connection of its own, and returns what the server says.
func (s *server) do(words ...string) string { return s.authenticated("", words...) }

// authenticated is do, with a password.
func (s *server) authenticated(password string, words ...string) string {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr())
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

func open(t testing.TB, url string) *redis.Counter {
	t.Helper()
	c, err := redis.Open(url, redis.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c.(*redis.Counter)
}

func compile(t testing.TB, limits ...storeless.Limit) *exact.Policy {
	t.Helper()
	p, err := exact.Compile("api", limits)
	require.NoError(t, err)
	return p
}

// yearly is a fixed window whose end no test meets.
func yearly(quota int64) storeless.Limit {
	return storeless.Limit{Algorithm: storeless.FixedWindow, Quota: quota, Window: 365 * 24 * time.Hour}
}
