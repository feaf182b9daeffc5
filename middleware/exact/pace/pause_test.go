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

// A longer pause stays, and many who are told the same tell the counter once.
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
		require.Equal(t, calls, counter.calls.Load(), "nobody is asked what is known")

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
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() { require.NoError(t, went.call(t.Context(), p, "")) })
		}
		wg.Wait()
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
			gate, err := exact.Compile("models-pause", meter(1, time.Second))
			require.NoError(t, err)
			_, err = memory.Take(t.Context(), exact.Call{Key: "models", Policy: gate, Pause: pause})
			require.NoError(t, err)
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
