// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/nats"
	"github.com/tallystick/tallystick/storeless"
)

// A serverProcess is a NATS server of one test, in a process of its own, which can be killed
// and frozen: this test binary, which embeds one.
type serverProcess struct {
	t    testing.TB
	port int
	dir  string
	cmd  *exec.Cmd
}

const serverChild = "TALLYSTICK_NATS_PORT"

func startServer(t testing.TB) *serverProcess {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &serverProcess{t: t, port: l.Addr().(*net.TCPAddr).Port, dir: t.TempDir()}
	require.NoError(t, l.Close())
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *serverProcess) start() {
	s.t.Helper()
	s.cmd = exec.Command(os.Args[0])
	s.cmd.Env = append(os.Environ(), serverChild+"="+strconv.Itoa(s.port), "TALLYSTICK_NATS_DIR="+s.dir)
	s.cmd.Stderr = os.Stderr
	require.NoError(s.t, s.cmd.Start())
	require.Eventually(s.t, func() bool {
		c, err := natsgo.Connect(s.url())
		if err != nil {
			return false
		}
		defer c.Close()
		js, err := jetstream.New(c)
		if err != nil {
			return false
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err = js.AccountInfo(ctx)
		return err == nil
	}, patient, 10*time.Millisecond, "it answers")
}

func (s *serverProcess) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *serverProcess) signal(sig syscall.Signal) { require.NoError(s.t, s.cmd.Process.Signal(sig)) }

func (s *serverProcess) addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

func (s *serverProcess) url() string { return "nats://" + s.addr() }

// serve is what the process of a server does, until it is ended.
func serve(port string) int {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	n, err := strconv.Atoi(port)
	if err != nil {
		println(err.Error())
		return 1
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: n, JetStream: true, StoreDir: os.Getenv("TALLYSTICK_NATS_DIR"), NoSigs: true, NoLog: true,
	})
	if err != nil {
		println(err.Error())
		return 1
	}
	s.Start()
	<-ended
	return 0
}

// patient is when a test gives up on what is bound to come: a busy machine may take long, and
// no test judges how long.
const patient = 5 * time.Minute

// connect opens a store on a connection of its own.
func connect(t testing.TB, url string) (cas.ListedStore, jetstream.JetStream) {
	t.Helper()
	c, err := natsgo.Connect(url, natsgo.ReconnectWait(20*time.Millisecond), natsgo.MaxReconnects(-1), natsgo.PingInterval(time.Second))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	js, err := jetstream.New(c)
	require.NoError(t, err)
	store, err := nats.Open(t.Context(), js, nats.Config{})
	require.NoError(t, err)
	return store, js
}

func count(t testing.TB, store cas.Store) exact.Archive {
	t.Helper()
	c, err := cas.New(store, cas.Config{})
	require.NoError(t, err)
	return c
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
