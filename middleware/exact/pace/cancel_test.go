// SPDX-License-Identifier: Apache-2.0

package pace_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/pace"
	"github.com/tallystick/tallystick/proof/kit"
)

// A call that leaves hands its place to the next in its process: that one goes when the first
// would have, and the counter hears nothing of it.
func TestACallThatLeavesHandsItsPlaceOn(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		counter := &wire{Counter: memory.New(0, nil)}
		p := process(t, pace.Config{Counter: counter, Limits: meter(1, 10*time.Second)})
		require.NoError(t, p.Wait(t.Context()))
		began := time.Now()
		first, leave := context.WithCancel(t.Context())
		var went log
		var wg sync.WaitGroup
		wg.Go(func() { require.ErrorIs(t, p.Wait(first), context.Canceled) })
		synctest.Wait()
		for _, name := range []string{"second", "third"} {
			wg.Go(func() { require.NoError(t, went.call(t.Context(), p, name)) })
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		takes := counter.takes.Load()
		leave()
		synctest.Wait()
		require.Zero(t, counter.refunds.Load())
		require.Equal(t, takes, counter.takes.Load())
		wg.Wait()
		require.Equal(t, []string{"second", "third"}, went.names)
		require.Equal(t, 10*time.Second, went.went[0].Sub(began))
		require.Equal(t, 20*time.Second, went.went[1].Sub(began))
	})
}

// If no other call waits there, the place is given back, and a call of another process has
// it.
func TestACallThatLeavesIsNotCharged(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		memory := memory.New(0, nil)
		counter := &wire{Counter: memory}
		cfg := pace.Config{Counter: counter, Limits: bucket(6, time.Minute, 3)}
		one, other := process(t, cfg), process(t, cfg)
		for range 3 {
			require.NoError(t, one.Wait(t.Context()))
		}
		began := time.Now()
		ctx, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			err := one.Wait(ctx)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, exact.ErrNotCounted)
		})
		synctest.Wait()
		time.Sleep(time.Second)
		leave()
		wg.Wait()
		synctest.Wait()
		require.EqualValues(t, 1, counter.refunds.Load())
		require.NoError(t, other.Wait(t.Context()))
		require.Equal(t, 10*time.Second, time.Since(began))
		time.Sleep(30 * time.Second)
		require.EqualValues(t, 3, left(t, memory, "", cfg.Limits))
	})
}

// A call that leaves while the counter is asked does so at once; what the answer brings is
// given back.
func TestACallLeavesWhileTheCounterIsAsked(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		counter := &wire{Counter: memory.New(0, nil), trip: 300 * time.Millisecond}
		cfg := pace.Config{Counter: counter, Limits: bucket(5, time.Hour, 5), Units: map[string]limits{"tokens": bucket(100, time.Hour, 100)}}
		p := process(t, cfg)
		for _, after := range []time.Duration{100, 400, 500} { // in the first answer, and in the second
			ctx, cancel := context.WithTimeout(t.Context(), after*time.Millisecond)
			defer cancel()
			began := time.Now()
			err := p.Wait(ctx, pace.Cost{Unit: "tokens", N: 60})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, after*time.Millisecond, time.Since(began))
			time.Sleep(2 * time.Second)
			require.EqualValues(t, 5, left(t, counter.Counter, "", cfg.Limits))
			require.EqualValues(t, 100, left(t, counter.Counter, "tokens", cfg.Units["tokens"]))
		}
		require.EqualValues(t, 1+2+2, counter.refunds.Load(), "each once")
	})
}

// A hundred that wait leave: nothing stays charged, on no unit.
func TestAllLeave(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		memory := memory.New(0, nil)
		cfg := pace.Config{Counter: memory, Limits: bucket(10, time.Hour, 10), Units: map[string]limits{"tokens": bucket(10_000, time.Hour, 1000)}, MaxWait: time.Hour}
		ctx, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var went log
		for i := range 20 {
			p := process(t, cfg)
			for j := range 5 {
				wg.Go(func() { _ = went.call(ctx, p, "", pace.Cost{Unit: "tokens", N: int64(60 + i + j%2)}) })
			}
		}
		time.Sleep(time.Second)
		leave()
		wg.Wait()
		require.Len(t, went.went, 10)
		used := int64(0)
		for _, n := range went.costs {
			used += n
		}
		time.Sleep(time.Second) // the refunds; two seconds of the hour are five tokens
		require.InDelta(t, 1000-used, left(t, memory, "tokens", cfg.Units["tokens"]), 7)
		time.Sleep(6 * time.Minute)
		require.EqualValues(t, 1, left(t, memory, "", cfg.Limits))
	})
}
