// SPDX-License-Identifier: Apache-2.0

package pace_test

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// An answer that is lost is asked for again, and charges once.
func TestALostAnswerChargesOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		memory := memory.New(0, nil)
		counter := &wire{Counter: memory}
		limit := bucket(10, time.Hour, 10)
		p := process(t, pace.Config{Counter: counter, Limits: limit})
		counter.set(func(w *wire) { w.lose = 1 })
		require.NoError(t, p.Wait(t.Context()))
		require.EqualValues(t, 9, left(t, memory, "", limit))
		require.EqualValues(t, 2, counter.takes.Load())
		counter.set(func(w *wire) { w.lose = 2 })
		err := p.Wait(t.Context())
		require.ErrorIs(t, err, errLost)
		require.NotErrorIs(t, err, exact.ErrNotCounted, "nobody knows")
		require.EqualValues(t, 4, counter.takes.Load())
	})
}

// A counter that is down is no reason to wait: all that wait learn of it, and when it is back
// the next go.
func TestACounterThatIsDown(t *testing.T) {
	for name, c := range map[string]struct {
		ill  func(*wire)
		most time.Duration
	}{
		"down":  {func(w *wire) { w.fail = errLost }, 0},
		"hangs": {func(w *wire) { w.hang = true }, 2 * time.Second},
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			counter := &wire{Counter: memory.New(0, nil)}
			p := process(t, pace.Config{Counter: counter, Limits: meter(1, time.Second)})
			counter.set(c.ill)
			began := time.Now()
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() { require.ErrorIs(t, p.Wait(t.Context()), errLost) })
			}
			wg.Wait()
			require.LessOrEqual(t, time.Since(began), c.most)
			counter.set(func(w *wire) { w.fail, w.hang = nil, false })
			require.NoError(t, p.Wait(t.Context()))

			// It fails while a call waits with its place.
			wg.Go(func() {
				err := p.Wait(t.Context())
				require.ErrorIs(t, err, errLost)
				require.ErrorIs(t, err, exact.ErrNotCounted)
			})
			synctest.Wait()
			time.Sleep(10 * time.Millisecond)
			counter.set(c.ill)
			wg.Wait()
			counter.set(func(w *wire) { w.fail, w.hang = nil, false })
			time.Sleep(5 * time.Second)
			require.NoError(t, p.Wait(t.Context()))
			short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			var refused *pace.RefusedError
			require.ErrorAs(t, p.Wait(short), &refused)
			require.Zero(t, refused.Waiting, "no waiter is forgotten")
		})
	}
}

// Callers come and go at random, cost this and that, leave while they wait, pause, and the
// counter fails now and then: no limit is ever exceeded, no caller waits longer than it
// may or is forgotten, and in the end none has a place.
func TestAnything(t *testing.T) {
	seeds := uint64(20)
	if kit.Brief() {
		seeds = 6
	}
	for seed := range seeds {
		kit.Bubble(t, func(t *testing.T) {
			memory := memory.New(0, nil)
			counter := &wire{Counter: memory, trip: time.Duration(seed%4) * 7 * time.Millisecond}
			if seed%2 == 1 {
				counter.loses = rand.New(rand.NewPCG(seed, 3))
			}
			cfg := pace.Config{Counter: counter, Limits: bucket(20, time.Second, 3), MaxWait: 4 * time.Second, MaxWaiting: 30}
			if seed%3 == 0 {
				cfg.Units = map[string]limits{"tokens": bucket(3000, time.Second, 600)}
			}
			var went log
			var wg sync.WaitGroup
			for i := range 4 {
				p := process(t, cfg)
				for j := range 15 {
					rng := rand.New(rand.NewPCG(seed, uint64(i*100+j)))
					wg.Go(func() {
						for range 30 {
							ctx, cancel := t.Context(), func() {}
							if rng.IntN(3) == 0 {
								ctx, cancel = context.WithCancel(ctx)
								time.AfterFunc(time.Duration(rng.Int64N(int64(3*time.Second))), cancel)
							}
							if rng.IntN(200) == 0 {
								_ = p.Pause(ctx, time.Duration(rng.Int64N(int64(2*time.Second))))
							}
							costs := []pace.Cost{{N: 1 + rng.Int64N(2)}}
							if cfg.Units != nil {
								costs = append([]pace.Cost{{Unit: "tokens", N: rng.Int64N(600)}}, costs...)
							}
							began := time.Now()
							_ = went.call(ctx, p, "", costs...)
							require.LessOrEqual(t, time.Since(began), 4*time.Second+100*time.Millisecond)
							cancel()
							if rng.IntN(4) == 0 {
								time.Sleep(time.Duration(rng.Int64N(int64(time.Second))))
							}
						}
					})
				}
			}
			wg.Wait()
			counter.set(func(w *wire) { w.loses = nil })
			time.Sleep(10 * time.Second)
			require.NotEmpty(t, went.went)
			slack := int64(1) // of a round trip
			switch {
			case cfg.Units != nil:
				slack = 20 // a unit that is used up to a second after it was booked
			case seed%2 == 1:
				slack = 6 // a pause that the counter was told of in part
			}
			require.LessOrEqual(t, went.most(time.Second), 20+3+slack, "seed %d", seed)
			require.EqualValues(t, 3, left(t, memory, "", cfg.Limits))
		})
	}
}

// uneven is a counter whose answers overtake each other: every other one takes long.
type uneven struct {
	exact.Counter
	mu sync.Mutex
	n  int
}

func (u *uneven) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	v, err := u.Counter.Take(ctx, call)
	u.mu.Lock()
	u.n++
	slow := u.n%2 == 1
	u.mu.Unlock()
	if slow {
		time.Sleep(40 * time.Millisecond)
	}
	return v, err
}

// First come, first served: also where the answers of the counter are not.
func TestFirstComeFirstServed(t *testing.T) {
	for name, cfg := range map[string]pace.Config{
		"meter":  {Counter: memory.New(0, nil), Limits: meter(10, time.Second)},
		"bucket": {Counter: memory.New(0, nil), Limits: bucket(10, time.Second, 5)},
		"uneven": {Counter: &uneven{Counter: memory.New(0, nil)}, Limits: meter(20, time.Second)},
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			p := process(t, cfg)
			var went log
			var wg sync.WaitGroup
			var came []string
			for i := range 60 {
				came = append(came, fmt.Sprint(i))
				wg.Go(func() { require.NoError(t, went.call(t.Context(), p, fmt.Sprint(i))) })
				synctest.Wait()
				if i%7 == 0 {
					time.Sleep(30 * time.Millisecond)
				}
			}
			wg.Wait()
			if name == "bucket" { // what goes at one moment goes in no order
				require.ElementsMatch(t, came[:4], went.names[:4])
				came, went.names = came[6:], went.names[6:]
			}
			require.Equal(t, came, went.names)
		})
	}
}

// A process in which forty wait goes in turn with one in which one does: that one waits no
// longer than what is booked already.
func TestFairBetweenProcesses(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		counter := memory.New(0, nil)
		cfg := pace.Config{Counter: counter, Limits: meter(10, time.Second)}
		busy, lonely := process(t, cfg), process(t, cfg)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var many, few log
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				for many.call(ctx, busy, "") == nil {
				}
			})
		}
		wg.Go(func() {
			for few.call(ctx, lonely, "") == nil {
			}
		})
		wg.Wait()
		t.Logf("the forty: %d, mean %s; the one: %d, longest %s", len(many.went), many.mean(), len(few.went), few.longest())
		// Mostly 1.1 or 1.2 s. Calls that come at one moment have no order: some of the forty may
		// book first.
		require.LessOrEqual(t, few.longest(), many.mean()/2)
		require.GreaterOrEqual(t, len(few.went), 25)
		require.LessOrEqual(t, many.longest(), 2*many.mean())
		time.Sleep(time.Second)
	})
}

// With room no call waits for another, and each is one call of the counter.
func TestRoomForAll(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		counter := &wire{Counter: memory.New(0, nil), trip: 5 * time.Millisecond}
		p := process(t, pace.Config{Counter: counter, Limits: bucket(600, time.Minute, 64)})
		var went log
		kit.Together(64, func(int) { require.NoError(t, went.call(t.Context(), p, "")) })
		require.LessOrEqual(t, went.longest(), 64/8*5*time.Millisecond, "eight at a time")
		require.EqualValues(t, 64, counter.calls.Load())
	})
}
