// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

// Calls that are on their way when a counter closes may be counted.
func TestCloseLeavesItOpenWhatWasCounted(t *testing.T) {
	s := startServer(t)
	p := exactkit.StartProxy(t, s.Addr())
	c := open(t, throughProxy(p))
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5)}
	exactkit.Peek(t, c, call)
	p.Set(exactkit.Ways{Swallow: true})
	done := make(chan error, 1)
	go func() {
		_, err := c.Take(context.Background(), call)
		done <- err
	}()
	require.Eventually(t, func() bool { return p.Lost.Load() > 0 }, patient, time.Millisecond)
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	require.ErrorIs(t, <-done, exact.ErrMaybeCounted)
	require.NoError(t, <-closed)
	_, err := c.Take(t.Context(), call)
	require.ErrorIs(t, err, exact.ErrNotCounted)
}

// Whose context ends while a counter connects waits no longer.
func TestConnectingKeepsDeadlines(t *testing.T) {
	s := startServer(t)
	s.Freeze()
	defer s.Thaw()
	c := unconnected(t, s.url())
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	_, err := c.Take(ctx, exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5)})
	require.ErrorIs(t, err, exact.ErrNotCounted)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A server does not count a call after its deadline, and says so.
func TestStaleCallsAreNotCounted(t *testing.T) {
	s, c := opened(t)
	p := exactkit.PerYear(t, 1000)
	taken := int64(0)
	sentInTime(t, func() []error {
		for range 3 { // it learns the server's time
			exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
			taken++
		}
		s.Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		errs := make([]error, 100)
		kit.Together(len(errs), func(n int) {
			_, errs[n] = c.Take(ctx, exact.Call{Key: fmt.Sprint("k", n), Cost: 1, Policy: p})
		})
		s.Thaw()
		connected(t, c) // where it froze for a second, the client has given the connections up
		return errs
	})
	require.EqualValues(t, 1000-taken, exactkit.Left(t, c, exact.Call{Key: "k", Cost: 1, Policy: p}))
	// The calls before it on the same connection have been answered.
	require.Equal(t, ":1", s.do("DBSIZE"), "only the key of before is there")
}

// A server whose clock is set refuses no call: a call that it takes for stale is retried.
func TestServerClockMayBeSet(t *testing.T) {
	s := startServer(t)
	c := s.byKey(redis.Config{})
	p := exactkit.PerYear(t, 1000)
	for n, second := range []int64{2000000000, 2000003600, 2000000000, 2000003600} {
		s.at(time.Unix(second, 0))
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), patient)
			_, err := c.Take(ctx, exact.Call{Key: fmt.Sprint("k", n), Cost: 1, Policy: p})
			cancel()
			require.NoError(t, err, second)
		}
		require.EqualValues(t, 997, exactkit.Left(t, c, exact.Call{Key: fmt.Sprint("k", n), Cost: 1, Policy: p}), "each is counted once")
	}
}
