// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/ring"
)

// Instances that are the counter themselves hold to L who sends no token: whichever is asked, and once more for each
// new owner of its key. Who echoes keeps L, though its owner be another each time.
func TestRingOfInstances(t *testing.T) {
	const L, N = 5, 3
	var listeners []net.Listener
	var all []string
	for range N {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		listeners, all = append(listeners, l), append(all, l.Addr().String())
	}
	var mu sync.Mutex
	list := all
	find := func(context.Context) ([]string, error) {
		mu.Lock()
		defer mu.Unlock()
		return list, nil
	}
	var rings []*ring.Ring
	var instances []http.Handler
	now := new(clock)
	for i, l := range listeners {
		r, err := ring.Open(ring.Config{
			Self: all[i], Find: find, Every: 100 * time.Millisecond, Linger: 1, Secrets: [][]byte{secret("ring")},
			Listener: l, Logger: slog.New(slog.DiscardHandler), Now: now.Now,
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, r.Close()) })
		h, _ := limited(t, paid(now, r))
		rings, instances = append(rings, r), append(instances, h)
	}
	owned := func(by ...string) {
		mu.Lock()
		list = by
		mu.Unlock()
		slices.Sort(by)
		for _, r := range rings {
			require.Eventually(t, func() bool { return slices.Equal(by, r.Stats().Members) }, patient, time.Millisecond)
		}
	}
	drops := func(addr string) (passed int) {
		for i := range 20 * N {
			passed += admitted(instances[i%N], 1, from(addr))
		}
		return passed
	}
	require.Equal(t, L, drops("198.51.100.1"), "in quiet")

	got, echoed, tok := 0, 0, ""
	for _, owner := range all {
		owned(owner)
		got += drops("198.51.100.2")
		for i := range N {
			resp := send(instances[i], from("198.51.100.3"), showing(tok))
			if resp.StatusCode == http.StatusOK {
				echoed++
			}
			if next := tokenIn(resp); next != "" {
				tok = next
			}
		}
		now.Advance(11 * time.Second) // a refusal is remembered for ten
	}
	require.Equal(t, L, echoed, "who echoes")
	require.Greater(t, got, L, "the owners know what three instances saw, each by itself")
	require.LessOrEqual(t, got, 3*L)
}
