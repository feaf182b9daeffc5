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
		require.Equal(t, "pace: models: the call would wait 5 s behind 4 others: longer than its context lasts", err.Error())

		for range 5 {
			join()
		}
		err = p.Wait(t.Context())
		require.ErrorAs(t, err, &refused)
		require.True(t, refused.Full)
		require.Equal(t, 9, refused.Waiting)
		require.Equal(t, 10*time.Second, refused.Wait)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, "pace: models: the call would wait 10 s behind 9 others: the queue is full", err.Error())

		// In another process, without waiters, the counter says how long: not behind all
		// nine, but behind the two that are booked.
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = other.Wait(brief)
		require.ErrorAs(t, err, &refused)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 3*time.Second, refused.Wait)
		require.Zero(t, refused.Waiting)
		require.Zero(t, time.Since(began), "no caller was kept waiting for a refusal")
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

// One process is told to wait: within a second no other goes, though places were booked; and
// afterwards all go on at the pace of the limit.
func TestAPauseStopsAllWithinASecond(t *testing.T) {
	for name, c := range map[string]struct {
		processes, workers int
		trip, pause        time.Duration
		limits             limits
	}{
		"50 of 1":              {50, 1, 0, 10 * time.Second, meter(10, time.Second)},
		"5 of 10":              {5, 10, 0, 10 * time.Second, meter(10, time.Second)},
		"5 of 10, 40 ms away":  {5, 10, 40 * time.Millisecond, 3 * time.Second, meter(10, time.Second)},
		"50 of 1, 200 ms away": {50, 1, 200 * time.Millisecond, 20 * time.Second, meter(10, time.Second)},
		"bucket":               {5, 10, 10 * time.Millisecond, 5 * time.Second, bucket(10, time.Second, 5)},
		"slow":                 {20, 1, 10 * time.Millisecond, 30 * time.Second, meter(20, time.Minute)},
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			counter := &wire{Counter: memory.New(0, nil), trip: c.trip}
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			var went log
			var wg sync.WaitGroup
			var all []*pace.Pacer
			for range c.processes {
				p := process(t, pace.Config{Counter: counter, Limits: c.limits, MaxWait: 5 * time.Minute})
				all = append(all, p)
				for range c.workers {
					wg.Go(func() {
						for went.call(ctx, p, "") == nil {
						}
					})
				}
			}
			time.Sleep(20*time.Second + 30*time.Millisecond)
			told := time.Now()
			require.NoError(t, all[0].Pause(t.Context(), c.pause))
			wg.Wait()
			late, after, first := 0, 0, time.Hour
			for _, at := range went.went {
				switch since := at.Sub(told); {
				case since > time.Second && since < c.pause:
					late++
				case since >= c.pause:
					first, after = min(first, since), after+1
				}
			}
			t.Logf("the first %s after the pause was asked for, %d in all behind it, %d calls of the counter", first, after, counter.calls.Load())
			require.Zero(t, late)
			require.Less(t, first, c.pause+c.pause/10+time.Second+3*c.trip)
			l := c.limits[0]
			require.LessOrEqual(t, went.most(l.Window), l.Quota+max(0, l.Burst-1))
			rest := 70*time.Second - c.pause - c.pause/10 - time.Second
			require.GreaterOrEqual(t, int64(after), int64(rest)*l.Quota/int64(l.Window)-1)
			time.Sleep(5 * time.Second)
		})
	}
}

// What was booked before a pause goes in the same order behind it.
func TestOrderIsKeptThroughAPause(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		p := process(t, pace.Config{Counter: memory.New(0, nil), Limits: meter(10, time.Second)})
		var went log
		var wg sync.WaitGroup
		for _, name := range []string{"1", "2", "3", "4", "5", "6"} {
			wg.Go(func() { require.NoError(t, went.call(t.Context(), p, name)) })
			synctest.Wait()
		}
		time.Sleep(50 * time.Millisecond)
		began := time.Now()
		require.NoError(t, p.Pause(t.Context(), 2*time.Second))
		wg.Wait()
		require.Equal(t, []string{"1", "2", "3", "4", "5", "6"}, went.names)
		require.GreaterOrEqual(t, went.went[1].Sub(began), 2*time.Second)
		require.LessOrEqual(t, went.went[1].Sub(began), 2200*time.Millisecond)
	})
}

// A longer pause stays, and many callers that are told the same tell the counter once.
func TestPauses(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		counter := &wire{Counter: memory.New(0, nil)}
		cfg := pace.Config{Counter: counter, Limits: meter(10, time.Second), MaxWait: time.Hour}
		p, other := process(t, cfg), process(t, cfg)
		began := time.Now()
		require.NoError(t, p.Pause(t.Context(), 0))
		require.NoError(t, p.Pause(t.Context(), -time.Second))
		require.Zero(t, counter.calls.Load())
		require.NoError(t, p.Pause(t.Context(), 20*time.Minute))
		calls := counter.calls.Load()
		require.EqualValues(t, 2, calls)
		for range 50 {
			require.NoError(t, p.Pause(t.Context(), time.Minute))
		}
		require.Equal(t, calls, counter.calls.Load())
		require.NoError(t, other.Pause(t.Context(), time.Second))
		require.NoError(t, other.Wait(t.Context()))
		require.GreaterOrEqual(t, time.Since(began), 20*time.Minute)
		require.LessOrEqual(t, time.Since(began), 20*time.Minute+4*time.Second)
	})
}

// A pause that is longer than a call may wait refuses it at once, and those that wait.
func TestAPauseThatIsTooLong(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		counter := &wire{Counter: memory.New(0, nil)}
		cfg := pace.Config{Counter: counter, Limits: meter(1, time.Second)}
		p := process(t, cfg)
		require.NoError(t, p.Wait(t.Context()))
		began := time.Now()
		var refused *pace.RefusedError
		var wg sync.WaitGroup
		wg.Go(func() { require.ErrorAs(t, p.Wait(t.Context()), &refused) })
		synctest.Wait()
		require.NoError(t, p.Pause(t.Context(), 2*time.Hour))
		wg.Wait()
		require.Zero(t, time.Since(began))
		require.GreaterOrEqual(t, refused.Wait, 2*time.Hour)
		synctest.Wait()
		calls := counter.calls.Load()
		require.ErrorAs(t, p.Wait(t.Context()), &refused)
		require.GreaterOrEqual(t, refused.Wait, 2*time.Hour)
		require.Less(t, refused.Wait, 2*time.Hour+5*time.Second)
		require.Equal(t, calls, counter.calls.Load(), "no counter is asked what is known")

		other := process(t, cfg)
		for _, n := range []int64{0, 1} {
			require.ErrorAs(t, other.Wait(t.Context(), pace.Cost{N: n}), &refused)
			require.GreaterOrEqual(t, refused.Wait, 2*time.Hour)
			require.Less(t, refused.Wait, 2*time.Hour+5*time.Second)
		}
	})
}

// While the counter cannot be told of a pause, this process pauses still, and asks no more
// often than before.
func TestAPauseThatTheCounterDoesNotHear(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		counter := &wire{Counter: memory.New(0, nil)}
		p := process(t, pace.Config{Counter: counter, Limits: meter(10, time.Second)})
		down := errors.New("down")
		counter.set(func(w *wire) { w.fail = down })
		began := time.Now()
		require.ErrorIs(t, p.Pause(t.Context(), 5*time.Second), down)
		counter.set(func(w *wire) { w.fail = nil })
		var went log
		kit.Together(30, func(int) { require.NoError(t, went.call(t.Context(), p, "")) })
		require.GreaterOrEqual(t, went.went[0].Sub(began), 5*time.Second)
		require.LessOrEqual(t, counter.calls.Load(), int64(30+2+10))
	})
}

// A pause that the counter was told of in part, by a process that was killed meanwhile, is
// kept by those that ask for it, and none goes twice as fast behind it.
func TestAPauseThatTheCounterWasToldOfInPart(t *testing.T) {
	for _, pause := range []time.Duration{1100 * time.Millisecond, 3 * time.Second} { // a little behind the place, and long
		kit.Bubble(t, func(t *testing.T) {
			memory := memory.New(0, nil)
			p := process(t, pace.Config{Counter: memory, Limits: meter(1, time.Second)})
			require.NoError(t, p.Wait(t.Context()))
			began := time.Now()
			var went log
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() { require.NoError(t, went.call(t.Context(), p, "")) })
			}
			time.Sleep(100 * time.Millisecond)
			gate := kit.Must(exact.Compile("models-pause", meter(1, time.Second)))(t)
			kit.Must(memory.Take(t.Context(), exact.Call{Key: "models", Policy: gate, Pause: pause}))(t)
			wg.Wait()
			require.GreaterOrEqual(t, went.went[0].Sub(began), pause+100*time.Millisecond)
			require.LessOrEqual(t, went.went[0].Sub(began), pause+time.Second)
			require.GreaterOrEqual(t, went.went[1].Sub(went.went[0]), 750*time.Millisecond)
			require.GreaterOrEqual(t, went.went[2].Sub(went.went[1]), time.Second)
		})
	}
}

// What is being booked when a pause is asked for is booked anew, behind it, at the pace of the
// limit; and what comes while the counter is told waits for that, and is booked once.
func TestBookingsThatMeetAPause(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		counter := &wire{Counter: memory.New(0, nil), trip: 60 * time.Millisecond}
		p := process(t, pace.Config{Counter: counter, Limits: meter(10, time.Second)})
		var went log
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { require.NoError(t, went.call(t.Context(), p, "")) })
		}
		time.Sleep(50 * time.Millisecond)
		told := time.Now()
		wg.Go(func() { require.NoError(t, p.Pause(t.Context(), 250*time.Millisecond)) })
		wg.Wait()
		require.GreaterOrEqual(t, went.went[0].Sub(told), 250*time.Millisecond)
		for i := 1; i < len(went.went); i++ {
			require.GreaterOrEqual(t, went.went[i].Sub(went.went[i-1]), 100*time.Millisecond-time.Microsecond)
		}

		time.Sleep(5 * time.Second)
		p = process(t, pace.Config{Counter: counter, Limits: meter(10, time.Second), Units: map[string]limits{"tokens": bucket(10, time.Second, 5)}})
		takes, refunds := counter.takes.Load(), counter.refunds.Load()
		wg.Go(func() { require.NoError(t, p.Pause(t.Context(), 2*time.Second)) })
		time.Sleep(10 * time.Millisecond)
		wg.Go(func() { require.NoError(t, p.Wait(t.Context(), pace.Cost{N: 0}, pace.Cost{Unit: "tokens", N: 1})) })
		wg.Wait()
		require.Equal(t, refunds, counter.refunds.Load())
		require.Equal(t, takes+4, counter.takes.Load(), "three for the pause, and one for the call")
	})
}
