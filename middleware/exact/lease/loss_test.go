// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/lease"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

// What lease loses, and what it does not.

// What is left of a block when its shortest window ends comes back to the longer ones.
func TestShortWindowDoesNotEatTheLongOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New(0, nil)
		l := leased(t, m, lease.Config{})
		p := exactkit.Compile(t, storeless.Limit{Name: "second", Algorithm: storeless.FixedWindow, Quota: 100, Window: time.Second}, exactkit.Hourly(2000))
		admitted := 0
		for range 2200 {
			if exactkit.Take(t, l, exact.Call{Key: "k", Cost: 1, Policy: p}).Admitted {
				admitted++
			}
			time.Sleep(time.Second)
		}
		require.Equal(t, 2000, admitted)
	})
}

// Leftovers that are smaller than a call come back too.
func TestLeftoversComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := leased(t, memory.New(0, nil), lease.Config{})
		p := exactkit.PerHour(t, 100_000)
		admitted := int64(0)
		for n := range 10_000 {
			cost := int64(22 + n%3)
			if exactkit.Take(t, l, exact.Call{Key: "k", Cost: cost, Policy: p}).Admitted {
				admitted += cost
			}
			time.Sleep(100 * time.Millisecond)
		}
		require.Greater(t, admitted, int64(100_000-100))
	})
}

// An engine that answers too late is not drained by blocks that are lost.
func TestLostBlocksAreFew(t *testing.T) {
	d, l := afar(t, lease.Config{})
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerHour(t, 1000)}
	exactkit.Take(t, l, call)
	d.fault = exact.ErrMaybeCounted
	for range 50 {
		_, err := l.Take(t.Context(), call)
		require.ErrorIs(t, err, exact.ErrMaybeCounted)
	}
	require.Greater(t, exactkit.Left(t, d, call), int64(1000-1-49-50))
}

// panicking is an engine that panics when a block is asked of it.
type panicking struct {
	engine.Archive
	armed bool
}

func (p *panicking) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if p.armed && call.Cost > 1 {
		panic("engine")
	}
	return p.Archive.Take(ctx, call)
}

func TestPanicLeavesALeaseInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &panicking{Archive: memory.New(0, nil), armed: true}
		l := leased(t, engine, lease.Config{})
		call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerHour(t, 1000)}
		exactkit.Take(t, l, call)
		require.Panics(t, func() { _, _ = l.Take(t.Context(), call) })
		engine.armed = false
		_, err := l.Take(t.Context(), call) // takes a block again
		require.NoError(t, err)
		require.Less(t, exactkit.Left(t, engine, call), int64(990))
	})
}

// slowRefunds is an engine to which it takes time to give back.
type slowRefunds struct {
	engine.Archive
	mu    sync.Mutex
	given int64
	most  int
	under int
}

func (s *slowRefunds) Refund(ctx context.Context, r exact.Receipt) error {
	s.mu.Lock()
	s.under++
	s.most = max(s.most, s.under)
	s.mu.Unlock()
	time.Sleep(20 * time.Millisecond)
	s.mu.Lock()
	s.under--
	s.given += r.Cost
	s.mu.Unlock()
	return s.Archive.Refund(ctx, r)
}

// Close returns when all is given back, also what the timer had begun to.
func TestCloseWaitsForWhatIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &slowRefunds{Archive: memory.New(0, nil)}
		l := leased(t, engine, lease.Config{})
		p := exactkit.PerHour(t, 1000)
		for key := range 100 {
			for range 2 {
				exactkit.Take(t, l, exact.Call{Key: strconv.Itoa(key), Cost: 1, Policy: p})
			}
		}
		time.Sleep(2*time.Second + time.Millisecond) // the timer gives back
		require.NoError(t, l.Close())
		require.EqualValues(t, 100*48, engine.given)
		require.LessOrEqual(t, engine.most, 16)
		for key := range 100 {
			require.EqualValues(t, 998, exactkit.Left(t, engine, exact.Call{Key: strconv.Itoa(key), Cost: 1, Policy: p}))
		}
	})
}

// A block that comes after the lease was closed goes back at once.
func TestBlockAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &distant{Archive: memory.New(0, nil), trip: time.Second}
		l := leased(t, d, lease.Config{})
		call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerHour(t, 1000)}
		exactkit.Take(t, l, call)
		done := make(chan bool, 1)
		go func() {
			v, err := l.Take(t.Context(), call)
			done <- err == nil && v.Admitted
		}()
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, l.Close())
		require.True(t, <-done)
		require.EqualValues(t, 998, exactkit.Left(t, d, call))
		exactkit.Take(t, l, call)
	})
}

// A machine that sleeps stops one clock and not the other; a clock on the wall may
// step back. Neither makes a block good again.
func TestBlocksOfAMachineThatSlept(t *testing.T) {
	engineNow := time.Unix(20_000*86_400, 0)
	local := time.Now()
	l := leased(t, memory.New(0, func() time.Time { return engineNow }), lease.Config{Now: func() time.Time { return local }})
	p := exactkit.PerHour(t, 1000)
	for range 2 {
		exactkit.Take(t, l, exact.Call{Key: "k", Cost: 1, Policy: p})
	}
	engineNow = engineNow.Add(2 * time.Hour)
	local = asleep(local, 2*time.Hour)
	admitted := 0
	for range 1200 {
		if exactkit.Take(t, l, exact.Call{Key: "k", Cost: 1, Policy: p}).Admitted {
			admitted++
		}
	}
	require.Equal(t, 1000, admitted)
}

// asleep moves the clock on the wall and leaves the one that runs evenly where it was:
// no machine can be put to sleep in a test. In a time that has both, the seconds on the
// wall begin at bit 30 of the first word.
func asleep(t time.Time, d time.Duration) time.Time {
	was := t
	(*[2]uint64)(unsafe.Pointer(&t))[0] += uint64(d/time.Second) << 30
	if t.Sub(was) != 0 || t.Round(0).Sub(was.Round(0)) != d {
		panic("a time looks different by now")
	}
	return t
}

// gated is an engine that holds its answers back.
type gated struct {
	engine.Archive
	gates map[int64]chan struct{} // by cost
	taken atomic.Int64
}

func (g *gated) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	v, err := g.Archive.Take(ctx, call)
	g.taken.Add(1)
	if gate := g.gates[call.Cost]; gate != nil {
		<-gate
	}
	return v, err
}

// One ID that is counted within a block and, at the same time, by the engine alone, is
// given back there.
func TestSameIDWithinABlockAndWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &gated{Archive: memory.New(0, nil)}
		l := leased(t, engine, lease.Config{})
		p := exactkit.PerHour(t, 1000)
		take := func(id string) chan bool {
			done := make(chan bool, 1)
			before := engine.taken.Load()
			go func() {
				v, err := l.Take(context.Background(), exact.Call{Key: "k", Cost: 1, Policy: p, ID: id})
				done <- err == nil && v.Admitted
			}()
			synctest.Wait()
			require.Equal(t, before+1, engine.taken.Load())
			return done
		}
		require.True(t, <-take("first"))
		engine.gates = map[int64]chan struct{}{1: make(chan struct{}), 49: make(chan struct{})}
		within := take("id")
		without := take("id")
		close(engine.gates[49])
		require.True(t, <-within)
		close(engine.gates[1])
		require.True(t, <-without)
		require.EqualValues(t, 1000-1-49, exactkit.Left(t, engine, exact.Call{Key: "k", Cost: 1, Policy: p}))
	})
}

// A full engine is not full of memory here.
func TestKeysThatAreNotCountedAreForgotten(t *testing.T) {
	full := &distant{Archive: memory.New(0, nil), fault: exact.ErrFull}
	l := leased(t, full, lease.Config{})
	p := exactkit.PerHour(t, 1000)
	for n := range 1000 {
		_, err := l.Take(t.Context(), exact.Call{Key: strconv.Itoa(n), Cost: 1, Policy: p, ID: "id"})
		require.ErrorIs(t, err, exact.ErrFull)
	}
	require.Zero(t, lease.Keys(l))
}

// The same ID at once under one policy that two have compiled is one charge; and one
// that was counted within a block and without is given back.
func TestSameIDUnderTwoCompiledPolicies(t *testing.T) {
	compiled := &recompiling{Archive: memory.New(0, nil)}
	l := leased(t, compiled, lease.Config{})
	p, q := exactkit.PerYear(t, 30), exactkit.PerYear(t, 30) // too small for blocks
	for n := range 10 {
		var wg sync.WaitGroup
		for _, policy := range []*exact.Policy{p, q, p, q} {
			wg.Go(func() {
				v, err := l.Take(context.Background(), exact.Call{Key: "k", Cost: 1, Policy: policy, ID: strconv.Itoa(n)})
				if err != nil || !v.Admitted {
					t.Error(errors.Join(err, errors.New("not admitted")))
				}
			})
		}
		wg.Wait()
	}
	require.EqualValues(t, 20, exactkit.Left(t, compiled, exact.Call{Key: "k", Cost: 1, Policy: p}))
}

// recompiling is an engine that fills in receipts with the policy of each call, as one
// does that keeps no policies.
type recompiling struct{ engine.Archive }

func (r *recompiling) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	v, err := r.Archive.Take(ctx, call)
	time.Sleep(100 * time.Microsecond)
	if v.Admitted {
		v.Receipt.Policy = call.Policy
	}
	return v, err
}

// What processes hold when they are killed stays counted: the figures of docs/counters.md and
// of the documentation of Leased.
func TestKilledProcessesStrandTheirBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, row := range []struct{ quota, instances, percent int64 }{{1000, 1, 59}, {1000, 4, 17}, {10_000, 1, 12}} {
			engine, p := memory.New(0, nil), exactkit.PerHour(t, row.quota)
			used := int64(0)
			for range 20 {
				l := leased(t, engine, lease.Config{Instances: row.instances})
				for range 3 {
					require.True(t, exactkit.Take(t, l, exact.Call{Key: "k", Cost: 1, Policy: p}).Admitted)
					used++
				}
				// It is killed: what it holds is not given back.
			}
			v := exactkit.Peek(t, engine, exact.Call{Key: "k", Cost: 1, Policy: p})
			stranded := row.quota - v.Limits[0].Remaining - used
			require.InDelta(t, row.percent, 100*float64(stranded)/float64(row.quota), 0.5, "%+v", row)
		}
	})
}
