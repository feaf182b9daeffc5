// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// A distant engine is a memory that a call takes time to reach.
type distant struct {
	engine.Archive
	trip  time.Duration
	trips atomic.Int64
	calls atomic.Int64
	fault error // after the call was counted

	panics    atomic.Bool
	out, most atomic.Int64 // calls at once
}

func (d *distant) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	v, err := d.TakeAll(ctx, []exact.Call{call})
	if err != nil {
		return exact.Verdict{}, err
	}
	return v[0], nil
}

func (d *distant) TakeAll(ctx context.Context, calls []exact.Call) ([]exact.Verdict, error) {
	d.trips.Add(1)
	out := d.out.Add(1)
	defer d.out.Add(-1)
	for most := d.most.Load(); out > most && !d.most.CompareAndSwap(most, out); most = d.most.Load() {
	}
	if d.panics.Load() {
		panic("engine")
	}
	d.calls.Add(int64(len(calls)))
	verdicts := make([]exact.Verdict, len(calls))
	for i, call := range calls {
		v, err := d.Archive.Take(ctx, call)
		if err != nil {
			return nil, err
		}
		verdicts[i] = v
	}
	if d.trip > 0 {
		select {
		case <-time.After(d.trip):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", exact.ErrMaybeCounted, ctx.Err())
		}
	}
	return verdicts, d.fault
}

// merging merges calls to an engine that a trip takes to reach.
func merging(trip time.Duration) (*distant, exact.Counter) {
	d := &distant{Archive: memory.New(0, nil), trip: trip}
	return d, engine.Merge(d)
}

func TestMergedCounterIsACounter(t *testing.T) {
	clock := exacttest.NewClock()
	require.NoError(t, exacttest.TestCounter(func() (exact.Counter, error) {
		return engine.Merge(&distant{Archive: memory.New(0, clock.Now)}), nil
	}, clock))
}

// 1000 calls for one key at once are a handful of round trips, and exact.
func TestMergeMakesOneCallOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := merging(time.Millisecond)
		call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerHour(t, 700)}
		require.EqualValues(t, 700, exactkit.Admitted(t, 1000, 1, func(int, int) (exact.Counter, exact.Call) { return m, call }))
		require.EqualValues(t, 1000, d.calls.Load())
		require.EqualValues(t, 1+(999+255)/256, d.trips.Load(), "at most 256 of them travel together")
	})
}

// Calls that differ in what they ask for are not made one.
func TestMergeKeepsApartWhatDiffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := merging(time.Millisecond)
		limit := storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 1000, Window: time.Hour}
		p, q := exactkit.Compile(t, limit), exactkit.Compile(t, limit)
		var wg sync.WaitGroup
		for range 2 {
			for _, call := range []exact.Call{
				{Key: "a", Cost: 1, Policy: p}, {Key: "b", Cost: 1, Policy: p}, {Key: "a", Cost: 2, Policy: p}, {Key: "a", Cost: 1, Policy: q},
				{Key: "a", Cost: 1, Policy: p, Past: true}, {Key: "a", Cost: 1, Policy: p, Ahead: 1}, {Key: "a", Cost: 1, Policy: p, Ahead: 2},
				{Key: "c", Cost: 1, Policy: p, Past: true}, {Key: "c", Cost: 1, Policy: p, Past: true, Pause: 1},
			} {
				wg.Go(func() {
					v, err := m.Take(t.Context(), call)
					if err != nil || v.Receipt.Cost != call.Cost || v.Receipt.Key != call.Key {
						t.Errorf("%v, %+v", err, v)
					}
				})
			}
		}
		wg.Wait()
		require.EqualValues(t, 18, d.trips.Load())
	})
}

// A waiter that leaves the queue was not counted. A waiter that leaves a call that is out may have
// been. Neither takes others along.
func TestMergeKeepsEachContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := merging(time.Second)
		p := exactkit.Compile(t, storeless.Limit{Quota: 1000, Window: time.Hour})
		errs := make(map[string]error)
		var mu sync.Mutex
		var wg sync.WaitGroup
		call := func(name string, after, patience time.Duration) {
			wg.Go(func() {
				time.Sleep(after)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				_, err := m.Take(ctx, exact.Call{Key: "k", Cost: 1, Policy: p})
				mu.Lock()
				defer mu.Unlock()
				errs[name] = err
			})
		}
		call("first", 0, time.Hour)
		call("leaves the queue", 100*time.Millisecond, 200*time.Millisecond)
		call("leaves when it is out", 100*time.Millisecond, 1500*time.Millisecond)
		call("stays", 100*time.Millisecond, time.Hour)
		wg.Wait()
		require.NoError(t, errs["first"])
		require.ErrorIs(t, errs["leaves the queue"], exact.ErrNotCounted)
		require.ErrorIs(t, errs["leaves the queue"], context.DeadlineExceeded)
		require.ErrorIs(t, errs["leaves when it is out"], exact.ErrMaybeCounted)
		require.NoError(t, errs["stays"])
		require.EqualValues(t, 3, d.calls.Load())
		require.EqualValues(t, 997, exactkit.Left(t, m, exact.Call{Key: "k", Cost: 1, Policy: p}))
	})
}

// A batch is as patient as its most patient waiter.
func TestMergedCallsEndWithTheirDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, m := merging(time.Hour)
		p := exactkit.Compile(t, storeless.Limit{Quota: 1000, Window: time.Hour})
		began := time.Now()
		kit.Together(50, func(int) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := m.Take(ctx, exact.Call{Key: "k", Cost: 1, Policy: p}); err == nil {
				t.Error("an answer, in an hour's less")
			}
		})
		require.LessOrEqual(t, time.Since(began), time.Second)
	})
}

// Callers without a deadline take their batch with them when the last of them goes: an engine that
// hangs would hold their key for good.
func TestABatchEndsWithItsLastCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := merging(24 * time.Hour)
		p := exactkit.Compile(t, storeless.Limit{Quota: 1000, Window: time.Hour})
		out := func() int64 {
			synctest.Wait()
			return d.out.Load()
		}
		ask := func(patience time.Duration) context.CancelFunc {
			ctx, cancel := context.WithCancel(t.Context())
			if patience > 0 {
				ctx, cancel = context.WithTimeout(t.Context(), patience)
			}
			go func() { _, _ = m.Take(ctx, exact.Call{Key: "k", Cost: 1, Policy: p}) }()
			synctest.Wait()
			return cancel
		}
		first, hasty, slow, last := ask(0), ask(time.Second), ask(0), ask(0)
		defer hasty()
		first() // the others leave
		last()
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 1, out(), "one still waits")
		slow()
		require.Zero(t, out())
	})
}

func TestMergeHandsOnErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		d, m := merging(time.Millisecond)
		d.fault = broken
		p := exactkit.Compile(t, storeless.Limit{Quota: 1000, Window: time.Hour})
		kit.Together(10, func(int) {
			if _, err := m.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p}); !errors.Is(err, broken) {
				t.Error(err)
			}
		})
	})
}

func TestMergeOutlivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := merging(time.Millisecond)
		p := exactkit.Compile(t, storeless.Limit{Quota: 1000, Window: time.Hour})
		take := func(ctx context.Context) error {
			_, err := m.Take(ctx, exact.Call{Key: "k", Cost: 1, Policy: p})
			return err
		}
		var wg sync.WaitGroup
		wg.Go(func() { _ = take(t.Context()) })
		synctest.Wait()
		d.panics.Store(true)
		for range 3 {
			wg.Go(func() {
				if err := take(t.Context()); !errors.Is(err, exact.ErrMaybeCounted) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		d.panics.Store(false)
		require.NoError(t, take(t.Context()))
	})
}

// A deadline of one round trip and a half is kept: what comes while a call is out does not
// wait for all of it. An engine that hangs holds four calls of a key, and no more.
func TestMergeKeepsADeadlineOfARoundTripAndAHalf(t *testing.T) {
	const deadline = 50 * time.Millisecond
	for _, tt := range []struct {
		name   string
		trip   time.Duration
		failed bool
		apart  int64
	}{
		{"a third of the deadline", 16 * time.Millisecond, false, 1},
		{"half of it", 25 * time.Millisecond, false, 4},
		{"two thirds of it", 33 * time.Millisecond, false, 4},
		{"longer than it", time.Minute, true, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, m := merging(tt.trip)
				p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.FixedWindow, Quota: 1 << 20, Window: 24 * time.Hour})
				var failed, all atomic.Int64
				var wg sync.WaitGroup
				for range 3200 {
					wg.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), deadline)
						defer cancel()
						all.Add(1)
						if _, err := m.Take(ctx, exact.Call{Key: "k", Cost: 1, Policy: p}); err != nil {
							failed.Add(1)
						}
					})
					time.Sleep(400 * time.Microsecond)
				}
				wg.Wait()
				synctest.Wait()
				t.Logf("%d of %d failed; %d trips, %d at once", failed.Load(), all.Load(), d.trips.Load(), d.most.Load())
				if tt.failed {
					require.Equal(t, all.Load(), failed.Load())
				} else {
					require.Zero(t, failed.Load())
				}
				require.LessOrEqual(t, d.most.Load(), tt.apart, "calls of one key at once")
			})
		})
	}
}
