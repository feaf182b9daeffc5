// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
	"context"
	"os"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tallystick/tallystick/internal/faults"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/nats"
)

func TestMain(m *testing.M) {
	if port := os.Getenv(serverChild); port != "" {
		os.Exit(serve(port))
	}
	faults.Process(openAt)
	os.Exit(m.Run())
}

// openAt opens a counter for good: its process ends before its connection.
func openAt(url string) (exact.Counter, error) {
	conn, err := natsgo.Connect(url, natsgo.ReconnectWait(5*time.Millisecond), natsgo.MaxReconnects(-1))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
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
	if testing.Short() {
		t.Skip("-short: starts processes for half a minute")
	}
	s := startServer(t)
	store, _ := connect(t, s.url())
	t.Run("directly", func(t *testing.T) { faults.Processes(t, 5, s.url(), count(t, store), nil) })
	t.Run("with lost answers", func(t *testing.T) {
		lossy := faults.StartProxy(t, s.addr())
		lossy.Set(faults.Ways{LoseEvery: 100})
		faults.Processes(t, 5, "nats://"+lossy.Addr().String(), count(t, store), lossy)
	})
}
