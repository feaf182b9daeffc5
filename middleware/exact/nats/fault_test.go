// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

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
