// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/nats"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

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
