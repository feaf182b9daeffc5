// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/peers"
	"github.com/tallystick/tallystick/proof/kit"
)

// groups opens n groups that hear each other over TCP.
func groups(t *testing.T, n int, log *slog.Logger) []*peers.Group {
	t.Helper()
	listeners, members := make([]net.Listener, n), make([]string, n)
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		listeners[i], members[i] = l, l.Addr().String()
	}
	all := make([]*peers.Group, n)
	var opened sync.WaitGroup
	for i := range n {
		opened.Go(func() {
			g, err := peers.Open(peers.Config{
				Members: members, Self: members[i], Listener: listeners[i], Secrets: [][]byte{secret("peers")}, Logger: log,
			})
			if err == nil {
				all[i] = g
			}
		})
	}
	opened.Wait()
	for _, g := range all {
		require.NotNil(t, g)
		t.Cleanup(func() { _ = g.Close(context.Background()) })
	}
	return all
}

// Three processes that hear each other over TCP admit one quota of a client that asks them all at once and drops its tokens, and
// each of them two requests more at most that the others have not heard of.
func TestPeersOverTCP(t *testing.T) {
	kit.Outside(t)
	cfg := anHour(100)
	cfg.Now = nil
	log := logTo(&cfg)
	fleet := groups(t, 3, cfg.Logger)
	handlers := make([]http.Handler, len(fleet))
	for i, g := range fleet {
		cfg.Peers = g
		handlers[i] = newSite(t, cfg)
	}
	var passed atomic.Int64
	var asking sync.WaitGroup
	for i := range 12 {
		asking.Go(func() {
			for range 100 {
				if send(handlers[i%3]).StatusCode == http.StatusOK {
					passed.Add(1)
				}
			}
		})
	}
	asking.Wait()
	require.GreaterOrEqual(t, passed.Load(), int64(100))
	most := 100 + 2*2
	if log.Count("code=peers-late") > 0 { // on a machine that is busy for longer than 100 ms
		most = 3 * 100
	}
	require.LessOrEqual(t, passed.Load(), int64(most))
}

// A group is for good, and for memories that count alone.
func TestPeersMistakes(t *testing.T) {
	g := groups(t, 1, slog.New(slog.DiscardHandler))[0]
	cfg := anHour(100)
	m := newLimiter(t, cfg)
	cfg.Peers = g
	require.ErrorContains(t, m.Reconfigure(cfg), "Peers: cannot change while serving")
	cfg.InsecureNoMemory = true
	_, err := middleware.New(cfg)
	require.ErrorContains(t, err, "Peers: cannot go with InsecureNoMemory")
	cfg.InsecureNoMemory, cfg.Exact = false, counting(newLedger(new(clock)))
	_, err = middleware.New(cfg)
	require.ErrorContains(t, err, "Peers: cannot go with Exact")
	require.NoError(t, g.Close(context.Background()))
}
