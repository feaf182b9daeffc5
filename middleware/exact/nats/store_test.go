// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/cas/castest"
	"github.com/tallystick/tallystick/middleware/exact/nats"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

func TestStore(t *testing.T) {
	store, _ := connect(t, startServer(t).Addr())
	require.NoError(t, castest.TestStore(store, 700<<10)) // of 1 MB that a server takes by default
}

func TestCounter(t *testing.T) {
	store, _ := connect(t, startServer(t).Addr())
	exactkit.OnAStore(t, store)
}

// A value is gone when its time is over, by the server's clock; its name is free, and a
// client that read it before does not win.
func TestValuesExpire(t *testing.T) {
	store, js := connect(t, startServer(t).Addr())
	require.NoError(t, store.Swap(t.Context(), "n", "0", []byte("for a minute"), time.Minute))
	_, before, err := store.Load(t.Context(), "n")
	require.NoError(t, err)
	require.NoError(t, store.Swap(t.Context(), "n", before, []byte("for a moment, in which a busy machine looks twice"), 3*time.Second))
	_, last, err := store.Load(t.Context(), "n")
	require.NoError(t, err)
	stream := kit.Must(js.Stream(t.Context(), "KV_tallystick"))(t)
	m := kit.Must(stream.GetLastMsgForSubject(t.Context(), "$KV.tallystick.n"))(t)
	require.Equal(t, "3s", m.Header.Get(jetstream.MsgTTLHeader))
	var revision string
	require.Eventually(t, func() bool {
		var value []byte
		value, revision, err = store.Load(t.Context(), "n")
		return err == nil && len(value) == 0
	}, exactkit.Patient, 50*time.Millisecond)
	require.ErrorIs(t, store.Swap(t.Context(), "n", last, []byte("late"), time.Minute), cas.ErrChanged)
	require.NoError(t, store.Swap(t.Context(), "n", revision, []byte("anew"), time.Minute))

	// What a tool of NATS deletes is not there, and is replaced like anything else.
	kv := kit.Must(js.KeyValue(t.Context(), "tallystick"))(t)
	require.NoError(t, kv.Delete(t.Context(), "n"))
	value, revision, err := store.Load(t.Context(), "n")
	require.NoError(t, err)
	require.Empty(t, value)
	require.NoError(t, store.Swap(t.Context(), "n", revision, []byte("anew"), time.Minute))
}

// A bucket that is full, and a value that is too large, are load: a client that makes up keys must
// not be able to have the server taken for dead.
func TestFullIsLoad(t *testing.T) {
	s := startServer(t)
	_, js := connect(t, s.Addr())
	store, err := nats.Open(t.Context(), js, nats.Config{Bucket: "small", MaxBytes: 10_000})
	require.NoError(t, err)
	value := make([]byte, 3000)
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, store.Swap(t.Context(), name, "0", value, time.Hour))
	}
	err = store.Swap(t.Context(), "d", "0", value, time.Hour)
	require.ErrorIs(t, err, exact.ErrFull)
	require.ErrorIs(t, store.Swap(t.Context(), "e", "0", make([]byte, 2<<20), time.Hour), exact.ErrFull)
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	s := startServer(t)
	_, js := connect(t, s.Addr())
	_, err := nats.Open(t.Context(), js, nats.Config{Bucket: "a.b", Replicas: 6, MaxBytes: -1})
	for _, said := range []string{"Bucket: must be of letters, digits, _ and -", "Replicas: must be from 1 to 5, or 0 for 1, not 6", "MaxBytes: must not be negative"} {
		require.ErrorContains(t, err, said)
	}
	_, err = nats.Open(t.Context(), nil, nats.Config{})
	require.ErrorContains(t, err, "js: is nil")
	for name, tc := range map[string]struct {
		cfg  jetstream.KeyValueConfig
		said string
	}{
		"forever": {jetstream.KeyValueConfig{}, "set allow_msg_ttl"},
		"aging":   {jetstream.KeyValueConfig{TTL: time.Hour, LimitMarkerTTL: time.Second}, "set that to 0"},
		"history": {jetstream.KeyValueConfig{History: 5, LimitMarkerTTL: time.Second}, "set max_msgs_per_subject to 1"},
	} {
		tc.cfg.Bucket = name
		_, err := js.CreateKeyValue(t.Context(), tc.cfg)
		require.NoError(t, err)
		_, err = nats.Open(t.Context(), js, nats.Config{Bucket: name})
		require.ErrorContains(t, err, tc.said)
	}
	// One that expires, with the markers of the tools, is counted in.
	kit.Must(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "theirs", LimitMarkerTTL: time.Second}))(t)
	theirs := kit.Must(nats.Open(t.Context(), js, nats.Config{Bucket: "theirs"}))(t)
	require.NoError(t, castest.TestStore(theirs, 1000))
}

// Instances that start at once make one bucket.
func TestOpenAtOnce(t *testing.T) {
	s := startServer(t)
	_, js := connect(t, s.Addr())
	kit.Together(8, func(int) {
		if _, err := nats.Open(context.Background(), js, nats.Config{Bucket: "at-once"}); err != nil {
			t.Error(err)
		}
	})
}

// What a server answers: one replica and several name a lost race by different codes.
func TestAnswers(t *testing.T) {
	for _, tc := range []struct {
		code    jetstream.ErrorCode
		says    string
		is, not error
	}{
		{10071, "wrong last sequence: 7", cas.ErrChanged, exact.ErrNotCounted},
		{10164, "wrong last sequence", cas.ErrChanged, exact.ErrNotCounted},
		{10077, "maximum bytes exceeded", exact.ErrFull, exact.ErrMaybeCounted},
		{10077, "write KV_x: input/output error", nil, exact.ErrNotCounted},
		{10047, "insufficient storage resources available", exact.ErrFull, cas.ErrChanged},
		{10008, "JetStream system temporarily unavailable", exact.ErrNotCounted, exact.ErrFull},
	} {
		err := nats.Classify(fmt.Errorf("nats: %w", &jetstream.APIError{ErrorCode: tc.code, Description: tc.says}))
		require.Error(t, err)
		if tc.is != nil {
			require.ErrorIs(t, err, tc.is, tc.says)
		}
		require.NotErrorIs(t, err, tc.not, tc.says)
	}
	require.ErrorIs(t, nats.Classify(jetstream.ErrNoStreamResponse), exact.ErrNotCounted)
	require.NoError(t, nats.Classify(nil))
}

func TestErrorsHoldNoNames(t *testing.T) {
	store, _ := connect(t, startServer(t).Addr())
	name := strings.Repeat("0123456789abcdef", 2)
	require.NoError(t, store.Swap(t.Context(), name, "0", []byte("secret"), time.Hour))
	err := store.Swap(t.Context(), name, "0", []byte("secret"), time.Hour)
	require.ErrorIs(t, err, cas.ErrChanged)
	require.NotContains(t, err.Error(), name)
	require.ErrorIs(t, store.Swap(t.Context(), name, "no number", nil, time.Hour), exact.ErrNotCounted)
}

func TestMain(m *testing.M) {
	if port := os.Getenv(serverChild); port != "" {
		os.Exit(serve(port))
	}
	exactkit.Process(openAt)
	os.Exit(m.Run())
}

// openAt opens a counter for good: its process ends before its connection.
func openAt(addr string) (exact.Counter, error) {
	_, js, err := dial(addr)
	if err != nil {
		return nil, err
	}
	var store cas.ListedStore
	for range 20 { // the answer may be lost
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		store, err = nats.Open(ctx, js, nats.Config{})
		cancel()
		if err == nil {
			return cas.New(store, cas.Config{})
		}
	}
	return nil, err
}

// TestExactAcrossProcesses has four processes make 5000 attempts at a limit of 1000: exactly
// 1000 pass, and exactly 1000 are counted also when the way back loses answers.
func TestExactAcrossProcesses(t *testing.T) {
	kit.OnlyWhole(t, "starts processes for half a minute")
	s := startServer(t)
	store, _ := connect(t, s.Addr())
	exactkit.AcrossProcesses(t, 5, 100, s.Addr(), func(addr string) string { return addr }, exactkit.Count(t, store))
}

// A fault befalls a server, or the way to it, in the middle of a load, and passes. Meanwhile
// calls fail by their deadlines; what was answered stays counted, nothing is counted twice
// under its ID, and the limit holds.
func TestFaults(t *testing.T) {
	kit.OnlyWhole(t, "takes half a minute")
	s := startServer(t)
	p := exactkit.StartProxy(t, s.Addr())
	exactkit.AmidALoad(t, exactkit.OfAServer(p, s.Kill, s.Start, s.Freeze, s.Thaw), 500*time.Millisecond, func(t *testing.T) exact.Counter {
		store, _ := connect(t, p.Addr().String())
		return exactkit.Count(t, store)
	})
}

// A call to a server that is not there ends at once, and says that it was not counted.
func TestNotConnectedIsNotCounted(t *testing.T) {
	s := startServer(t)
	store, js := connect(t, s.Addr())
	s.Kill()
	require.Eventually(t, func() bool { return !js.Conn().IsConnected() }, exactkit.Patient, time.Millisecond)
	_, err := exactkit.Count(t, store).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5)})
	require.ErrorIs(t, err, exact.ErrNotCounted)
	require.ErrorIs(t, store.Swap(t.Context(), "n", "0", []byte("v"), time.Hour), exact.ErrNotCounted)
}

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

// dial connects, for as long as it takes and lasts. A server has two seconds to say its name if nothing else is said,
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
	store := kit.Must(nats.Open(t.Context(), js, nats.Config{}))(t)
	return store, js
}
