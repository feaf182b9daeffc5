// SPDX-License-Identifier: Apache-2.0

package pace_test

import (
	"context"
	"errors"
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

// A call that would wait too long is refused at once, and told how long; a queue that is full
// takes no other.
func TestWhoMayWait(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		memory := memory.New(0, nil)
		cfg := pace.Config{Counter: memory, Limits: meter(1, time.Second), MaxWait: 10 * time.Second, MaxWaiting: 9}
		p, other := process(t, cfg), process(t, cfg)
		var wg sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		join := func() {
			wg.Go(func() { _ = p.Wait(ctx) })
			synctest.Wait()
		}
		join() // and goes
		for range 4 {
			join()
		}
		began := time.Now()

		short, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		err := p.Wait(short)
		var refused *pace.RefusedError
		require.ErrorAs(t, err, &refused)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, exact.ErrNotCounted)
		require.Equal(t, 5*time.Second, refused.Wait)
		require.Equal(t, 4, refused.Waiting)
		require.False(t, refused.Full)
		require.Equal(t, "pace: models: the call would wait 5s behind 4 others: longer than its context lasts", err.Error())

		for range 5 {
			join()
		}
		err = p.Wait(t.Context())
		require.ErrorAs(t, err, &refused)
		require.True(t, refused.Full)
		require.Equal(t, 9, refused.Waiting)
		require.Equal(t, 10*time.Second, refused.Wait)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, "pace: models: the call would wait 10s behind 9 others: the queue is full", err.Error())

		// In another process, without waiters, the counter says how long: not behind all
		// nine, but behind the two that are booked.
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = other.Wait(brief)
		require.ErrorAs(t, err, &refused)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 3*time.Second, refused.Wait)
		require.Zero(t, refused.Waiting)
		require.Zero(t, time.Since(began), "nobody was kept waiting for a refusal")
		leave()
		wg.Wait()
		synctest.Wait()
		require.Zero(t, time.Since(began))
	})
}

// MaxWait bounds what a call waits by its process's estimate, by the counter's, and in the end
// by the clock, when others come in between.
func TestNobodyWaitsLongerThanMaxWait(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		memory := memory.New(0, nil)
		cfg := pace.Config{Counter: memory, Limits: meter(1, time.Second), MaxWait: 10 * time.Second}
		var wg sync.WaitGroup
		var mu sync.Mutex
		went, refused, longest := 0, 0, time.Duration(0)
		for range 5 {
			p := process(t, cfg)
			for range 8 {
				wg.Go(func() {
					began := time.Now()
					err := p.Wait(t.Context())
					mu.Lock()
					defer mu.Unlock()
					longest = max(longest, time.Since(began))
					var of *pace.RefusedError
					switch {
					case err == nil:
						went++
					case errors.As(err, &of):
						refused++
						require.NotErrorIs(t, err, context.DeadlineExceeded)
						require.Contains(t, err.Error(), "longer than it may")
						require.Positive(t, of.Wait)
					}
				})
			}
		}
		wg.Wait()
		require.LessOrEqual(t, longest, 10*time.Second)
		require.Equal(t, 40, went+refused)
		require.Equal(t, 11, went, "at 0, and at each of ten seconds")
		time.Sleep(time.Second)
		require.EqualValues(t, 1, left(t, memory, "", cfg.Limits))
	})
}

// An ended context makes no call.
func TestAContextThatHasEnded(t *testing.T) {
	counter := &wire{Counter: memory.New(0, nil)}
	p := process(t, pace.Config{Counter: counter, Limits: meter(1, time.Second)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := p.Wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, exact.ErrNotCounted)
	called := false
	require.ErrorIs(t, p.Schedule(ctx, func(context.Context) error { called = true; return nil }), context.Canceled)
	require.False(t, called)
	require.Zero(t, counter.calls.Load())
}

func TestSchedule(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		p := process(t, pace.Config{Counter: memory.New(0, nil), Limits: meter(1, time.Second)})
		broken := errors.New("broken")
		began := time.Now()
		type mine struct{}
		ctx := context.WithValue(t.Context(), mine{}, 7)
		for i := range 3 {
			err := p.Schedule(ctx, func(ctx context.Context) error {
				require.Equal(t, 7, ctx.Value(mine{}))
				require.Equal(t, time.Duration(i)*time.Second, time.Since(began))
				return broken
			})
			require.Equal(t, broken, err)
		}
	})
}
