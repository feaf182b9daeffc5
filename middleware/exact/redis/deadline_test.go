// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/faults"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/redis"
)

// Calls that are on their way when a counter closes may be counted.
func TestCloseLeavesItOpenWhatWasCounted(t *testing.T) {
	s := startServer(t)
	p := faults.StartProxy(t, s.addr())
	c := open(t, throughProxy(p))
	call := exact.Call{Key: "k", Cost: 1, Policy: compile(t, yearly(5))}
	_, err := c.Peek(t.Context(), call)
	require.NoError(t, err)
	p.Set(faults.Ways{Swallow: true})
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
	_, err = c.Take(t.Context(), call)
	require.ErrorIs(t, err, exact.ErrNotCounted)
}

// Whose context ends while a counter connects waits no longer.
func TestConnectingKeepsDeadlines(t *testing.T) {
	s := startServer(t)
	s.signal(syscall.SIGSTOP)
	defer s.signal(syscall.SIGCONT)
	c := open(t, s.url())
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	_, err := c.Take(ctx, exact.Call{Key: "k", Cost: 1, Policy: compile(t, yearly(5))})
	require.ErrorIs(t, err, exact.ErrNotCounted)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// What a server finds when nobody waits for it any more, it does not count, and says so.
func TestStaleCallsAreNotCounted(t *testing.T) {
	s := startServer(t)
	c := open(t, s.url())
	p := compile(t, yearly(1000))
	for range 3 { // it learns the server's time
		_, err := c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
		require.NoError(t, err)
	}
	s.signal(syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for n := range 100 {
		wg.Go(func() {
			_, err := c.Take(ctx, exact.Call{Key: fmt.Sprint("k", n), Cost: 1, Policy: p})
			if !errors.Is(err, exact.ErrMaybeCounted) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s.signal(syscall.SIGCONT)
	v, err := c.Peek(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
	require.NoError(t, err)
	require.EqualValues(t, 997, v.Limits[0].Remaining)
	// The calls before it on the same connection have been answered.
	require.Equal(t, ":1", s.do("DBSIZE"), "only the key of before is there")
}

// A server whose clock is set refuses nobody: what it takes for stale is asked once more.
func TestServerClockMayBeSet(t *testing.T) {
	s := startServer(t)
	c, err := redis.OpenByKey(s.url(), redis.Config{})
	require.NoError(t, err)
	defer c.Close()
	p := compile(t, yearly(1000))
	for n, second := range []string{"2000000000", "2000003600", "2000000000", "2000003600"} {
		s.do("HSET", "clock", "s", second, "us", "0")
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), patient)
			_, err := c.Take(ctx, exact.Call{Key: fmt.Sprint("k", n), Cost: 1, Policy: p})
			cancel()
			require.NoError(t, err, second)
		}
		v, err := c.Peek(t.Context(), exact.Call{Key: fmt.Sprint("k", n), Cost: 1, Policy: p})
		require.NoError(t, err)
		require.EqualValues(t, 997, v.Limits[0].Remaining, "each is counted once")
	}
}
