// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
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

	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/nats"
	"github.com/tallystick/tallystick/proof/exactkit"
)

const serverChild = "TALLYSTICK_NATS_PORT"

// startServer starts a NATS server of one test, in a process of its own: this test binary, which embeds one.
func startServer(t testing.TB) *exactkit.Server {
	t.Helper()
	dir := t.TempDir()
	return exactkit.StartServer(t, func(port string) *exec.Cmd {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), serverChild+"="+port, "TALLYSTICK_NATS_DIR="+dir)
		c.Stderr = os.Stderr
		return c
	})
}

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

// dial connects, for as long as it takes and lasts. A server has two seconds to say who it is if nothing else is said,
// which a busy machine may need.
func dial(addr string) (*natsgo.Conn, jetstream.JetStream, error) {
	c, err := natsgo.Connect("nats://"+addr, natsgo.ReconnectWait(5*time.Millisecond), natsgo.MaxReconnects(-1), natsgo.PingInterval(time.Second), natsgo.Timeout(time.Minute))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(c)
	return c, js, err
}

// connect opens a store on a connection of its own.
func connect(t testing.TB, addr string) (cas.ListedStore, jetstream.JetStream) {
	t.Helper()
	c, js, err := dial(addr)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	store, err := nats.Open(t.Context(), js, nats.Config{})
	require.NoError(t, err)
	return store, js
}
