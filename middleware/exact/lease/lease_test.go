// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/lease"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

func leased(t testing.TB, engine exact.Counter, l lease.Config) engine.ArchiveCloser {
	t.Helper()
	c := kit.Must(lease.New(engine, l))(t)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// afar is a lease of an engine that counts its round trips.
func afar(t testing.TB, l lease.Config) (*distant, engine.ArchiveCloser) {
	t.Helper()
	d := &distant{Archive: memory.New(0, nil)}
	return d, leased(t, d, l)
}

func TestLeasedCounterIsACounter(t *testing.T) {
	for range 5 {
		clock := exacttest.NewClock()
		require.NoError(t, exacttest.TestCounter(func() (exact.Counter, error) {
			return lease.New(memory.New(0, clock.Now), lease.Config{Now: clock.Now})
		}, clock))
	}
}

// A block that is on its way has counted what is left: a call that the engine refuses meanwhile waits for it, no longer than
// its context.
func TestACallWaitsForTheBlockThatHasTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, l := afar(t, lease.Config{})
		call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerHour(t, 41)}
		require.True(t, exactkit.Take(t, l, call).Admitted) // 40 are left: a block of two
		d.trip = time.Second
		go func() { _, _ = l.Take(t.Context(), call) }() // asks for it
		synctest.Wait()
		d.trip = 0
		for n := range 38 {
			require.True(t, exactkit.Take(t, l, call).Admitted, n)
		}
		hasty, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		v := kit.Must(l.Take(hasty, call))(t)
		require.False(t, v.Admitted, "it cannot wait")
		require.Equal(t, time.Second, v.Wait, "the block may come back")
		require.True(t, exactkit.Take(t, l, call).Admitted, "the second of the block")
		require.False(t, exactkit.Take(t, l, call).Admitted)
		require.NoError(t, l.Close())
	})
}

// The block may arrive just before its call begins to wait. It has room all the same, and counts an ID once.
func TestACallFindsTheBlockThatHasJustArrived(t *testing.T) {
	_, l := afar(t, lease.Config{})
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerHour(t, 1000)}
	for range 2 { // the second brings a block
		require.True(t, exactkit.Take(t, l, call).Admitted)
	}
	call.ID = "id"
	v := lease.AwaitBlock(l, t.Context(), call, exact.Verdict{})
	require.True(t, v.Admitted)
	again := lease.AwaitBlock(l, t.Context(), call, exact.Verdict{})
	require.True(t, again.Replayed)
	require.Equal(t, v.Receipt.Serial, again.Receipt.Serial)

	ended, end := context.WithCancel(t.Context())
	end()
	call.ID = "another"
	require.False(t, lease.AwaitBlock(l, ended, call, exact.Verdict{}).Admitted)
}

// What is charged whether there is room or not, and a pause, is for the engine to know at once:
// a block is no place for it, and does not outlive a pause.
func TestLeaseLetsThroughWhatIsNotForNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, l := afar(t, lease.Config{})
		call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerHour(t, 1000)}
		take := func(call exact.Call) exact.Verdict { return exactkit.Take(t, l, call) }
		for range 10 {
			take(call)
		}
		trips := d.trips.Load()
		require.Less(t, trips, int64(10), "a block is held")
		past := call
		past.Past = true
		take(past)
		require.Equal(t, trips+1, d.trips.Load())
		require.True(t, take(exact.Call{Key: "k", Policy: call.Policy, Pause: time.Minute}).Admitted)
		require.False(t, take(call).Admitted)
		time.Sleep(time.Minute)
		v := take(call)
		require.True(t, v.Admitted)
		require.EqualValues(t, 1000-12, v.Limits[0].Remaining, "10, 1 and 1")
	})
}

func TestLeaseReportsEveryProblem(t *testing.T) {
	_, err := lease.New(nil, lease.Config{Block: 1, Instances: -1, Idle: time.Millisecond})
	require.EqualError(t, err, `counter: is required
Block: must be from 2 to 65536, or 0 for 64, not 1
Instances: must be from 1 to 1048576, or 0 for 1, not -1
Idle: must be from 10 ms to 1 h, or 0 for 1 s, not 1 ms`)
}

// Four instances share a quota of 1000. Three make a few calls and fall silent, one
// does the rest: nothing is stranded once blocks have come back, nothing is over, and
// most calls make no round trip.
func TestLeaseStrandsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &distant{Archive: memory.New(0, nil)}
		p := exactkit.PerHour(t, 1000)
		var instances [4]engine.ArchiveCloser
		for i := range instances {
			instances[i] = leased(t, d, lease.Config{Instances: 4})
		}
		admitted, early := 0, 0
		take := func(l engine.ArchiveCloser) bool {
			v := exactkit.Take(t, l, exact.Call{Key: "k", Cost: 1, Policy: p})
			if v.Admitted {
				admitted++
			} else {
				early++
				require.LessOrEqual(t, v.Wait, 2*time.Second, "blocks may come back")
			}
			return v.Admitted
		}
		for _, l := range instances[1:] {
			take(l)
			take(l)
		}
		for take(instances[0]) {
		}
		require.Greater(t, admitted, 930)
		time.Sleep(3 * time.Second)
		for take(instances[0]) {
		}
		require.Equal(t, 1000, admitted)
		require.Less(t, d.trips.Load(), int64(600))
	})
}

// However many lease, of whatever sizes, no window has more than its quota.
func TestLeaseIsNeverOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quota = 500
		p := exactkit.Compile(t, storeless.Limit{Name: "hour", Algorithm: storeless.FixedWindow, Quota: quota, Window: time.Minute},
			storeless.Limit{Name: "sliding", Quota: 2 * quota, Window: 7 * time.Minute})
		m := memory.New(0, nil)
		rng := rand.New(rand.NewPCG(3, 4))
		var instances [5]engine.ArchiveCloser
		for i := range instances {
			instances[i] = leased(t, m, lease.Config{Block: 200, Instances: 1})
		}
		fixed, sliding := make(map[int64]int64), make(map[int64]int64)
		for range 30_000 {
			time.Sleep(time.Duration(rng.Int64N(int64(80 * time.Millisecond))))
			cost := 1 + rng.Int64N(3)
			v := kit.Must(instances[rng.IntN(5)].Take(t.Context(), exact.Call{Key: "k", Cost: cost, Policy: p}))(t)
			if v.Admitted {
				now := time.Now().Unix()
				fixed[now/60] += cost
				sliding[now/420] += cost
				require.LessOrEqual(t, fixed[now/60], int64(quota))
				require.LessOrEqual(t, sliding[now/420], int64(2*quota))
			}
		}
	})
}

// What was taken ahead at the end of a window is not for the next one.
func TestBlocksEndWithTheirWindow(t *testing.T) {
	minute := storeless.Limit{Name: "minute", Algorithm: storeless.FixedWindow, Quota: 1000, Window: time.Minute}
	for _, limits := range [][]storeless.Limit{{minute}, {minute, exactkit.Hourly(100_000)}, {exactkit.Hourly(100_000), minute}, {{Quota: 1000, Calendar: "day"}}} {
		window := time.Minute
		if limits[0].Calendar != "" {
			window = 24 * time.Hour
		}
		synctest.Test(t, func(t *testing.T) {
			p := exactkit.Compile(t, limits...)
			m := memory.New(0, nil)
			l := leased(t, m, lease.Config{Block: 50, Idle: time.Hour})
			take := func() bool { return exactkit.Take(t, l, exact.Call{Key: "k", Cost: 1, Policy: p}).Admitted }
			time.Sleep(window - time.Duration(time.Now().UnixNano()%int64(window)) - time.Second)
			for range 3 {
				require.True(t, take())
			}
			time.Sleep(time.Second)
			admitted := 0
			for range 1200 {
				if take() {
					admitted++
				}
			}
			require.Equal(t, 1000, admitted)
			require.NoError(t, l.Close())
		})
	}
}

// What is charged early would have leaked out of a bucket, or slid out of a log: such
// policies go through.
func TestLeaseOfABucketGoesThrough(t *testing.T) {
	for _, a := range []storeless.Algorithm{storeless.TokenBucket, storeless.LeakyBucket, storeless.SlidingLog} {
		d, l := afar(t, lease.Config{})
		p := exactkit.Compile(t, exactkit.Hourly(9000), storeless.Limit{Name: "bucket", Algorithm: a, Quota: 5000, Window: time.Hour})
		for range 20 {
			exactkit.Take(t, l, exact.Call{Key: "k", Cost: 1, Policy: p})
		}
		require.EqualValues(t, 20, d.trips.Load(), a)
	}
}

// Far from the limit a hundred calls are three of the engine, where a block may be held: the figures of docs/counters.md.
func TestFarFromTheLimit(t *testing.T) {
	day := storeless.Limit{Name: "day", Algorithm: storeless.RollingDay, Quota: 100_000, Window: 24 * time.Hour}
	for name, c := range map[string]struct {
		limits []storeless.Limit
		apart  time.Duration
		idle   time.Duration
		trips  int64
	}{
		"a sliding window":                  {[]storeless.Limit{exactkit.Hourly(100_000)}, 0, 0, 3},
		"a rolling day":                     {[]storeless.Limit{day}, 0, 0, 3},
		"a rolling day, five a second":      {[]storeless.Limit{day}, 200 * time.Millisecond, 0, 3},
		"a rolling day, one each 3 s":       {[]storeless.Limit{day}, 2900 * time.Millisecond, 0, 100},
		"a rolling day, one each 3 s, kept": {[]storeless.Limit{day}, 2900 * time.Millisecond, time.Minute, 6},
		"a rolling day of two hundred":      {[]storeless.Limit{{Algorithm: storeless.RollingDay, Quota: 200, Window: 24 * time.Hour}}, 0, 0, 16},
		"a rolling day and a token bucket":  {[]storeless.Limit{day, {Algorithm: storeless.TokenBucket, Quota: 50, Window: time.Second, Burst: 200}}, 0, 0, 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, l := afar(t, lease.Config{Idle: c.idle})
				call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, c.limits...)}
				for range 100 {
					require.True(t, exactkit.Take(t, l, call).Admitted)
					time.Sleep(c.apart)
				}
				require.Equal(t, c.trips, d.trips.Load())
				require.NoError(t, l.Close())
				require.EqualValues(t, call.Policy.Limit(0).Quota-100, exactkit.Left(t, d, call), "what was not used is back")
			})
		})
	}
}

// A block of a rolling day ends with its minute: a counter that is asked for each call admits all that is admitted by blocks, also
// when the first minute of them ceases to count.
func TestBlocksEndWithTheirMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		day := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.RollingDay, Quota: 1000, Window: 24 * time.Hour})
		oracle := memory.New(0, nil)
		l := leased(t, memory.New(0, nil), lease.Config{Idle: time.Hour})
		take := func(calls int) (admitted int) {
			for range calls {
				call := exact.Call{Key: "k", Cost: 1, Policy: day}
				if exactkit.Take(t, l, call).Admitted {
					admitted++
					require.True(t, exactkit.Take(t, oracle, call).Admitted)
				}
			}
			return admitted
		}
		time.Sleep(59 * time.Second)
		require.Equal(t, 3, take(3))
		time.Sleep(time.Second)
		require.Greater(t, take(1200), 900)
		time.Sleep(24 * time.Hour)
		require.LessOrEqual(t, take(1200), 100)
		require.NoError(t, l.Close())
	})
}

// A call within a block can be refunded once while the block is held.
func TestLeaseRefunds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New(0, nil)
		l := leased(t, m, lease.Config{})
		call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerHour(t, 1000)}
		var verdicts []exact.Verdict
		for range 10 {
			verdicts = append(verdicts, exactkit.Take(t, l, call))
		}
		for _, v := range verdicts {
			require.NoError(t, l.Refund(t.Context(), v.Receipt))
			require.ErrorIs(t, l.Refund(t.Context(), v.Receipt), exact.ErrNoRefund)
		}
		require.EqualValues(t, 1000, exactkit.Left(t, l, call))
		time.Sleep(5 * time.Second) // the block goes back
		require.EqualValues(t, 1000, exactkit.Left(t, m, call))
		require.ErrorIs(t, l.Refund(t.Context(), verdicts[5].Receipt), exact.ErrNoRefund)
	})
}

// A lost answer is asked for again on the engine, and never counted within a block
// as well.
func TestLeaseAsksAgainWhereItAsked(t *testing.T) {
	d, l := afar(t, lease.Config{})
	p := exactkit.PerYear(t, 1000)
	d.fault = exact.ErrMaybeCounted
	call := exact.Call{Key: "k", Cost: 1, Policy: p, ID: "id"}
	_, err := l.Take(t.Context(), call)
	require.ErrorIs(t, err, exact.ErrMaybeCounted)
	d.fault = nil
	for range 2 { // other calls take a block
		exactkit.Take(t, l, exact.Call{Key: "k", Cost: 1, Policy: p})
	}
	for range 3 {
		v := exactkit.Take(t, l, call)
		require.True(t, v.Admitted && v.Replayed)
		require.EqualValues(t, 997, v.Limits[0].Remaining)
	}
	require.NoError(t, l.Close())
	require.EqualValues(t, 997, exactkit.Left(t, d, call))
}

// Many at once, with IDs, half of them twice: each is counted once.
func TestLeaseAtOnce(t *testing.T) {
	d, l := afar(t, lease.Config{Block: 16})
	p := exactkit.PerYear(t, 1000)
	require.EqualValues(t, 800, exactkit.Admitted(t, 16, 50, func(w, i int) (exact.Counter, exact.Call) {
		return l, exact.Call{Key: "k", Cost: 1, Policy: p, ID: strconv.Itoa(w/2*50 + i)}
	}))
	require.NoError(t, l.Close())
	require.EqualValues(t, 1000-400, exactkit.Left(t, d, exact.Call{Key: "k", Cost: 1, Policy: p}))
	exactkit.Take(t, l, exact.Call{Key: "k", Cost: 1, Policy: p})
}

// A block is for calls under the very limits it was taken under.
func TestBlocksAreOfTheirLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, l := afar(t, lease.Config{})
		large, small := exactkit.PerHour(t, 1000), exactkit.PerHour(t, 2)
		for range 2 { // the second takes a block
			require.True(t, exactkit.Take(t, l, exact.Call{Key: "k", Cost: 1, Policy: large}).Admitted)
		}
		require.False(t, exactkit.Take(t, l, exact.Call{Key: "k", Cost: 1, Policy: small}).Admitted)
		trips := d.trips.Load()
		require.True(t, exactkit.Take(t, l, exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerHour(t, 1000)}).Admitted, "equal limits are the same, wherever they were compiled")
		require.Equal(t, trips, d.trips.Load())
	})
}

// Calls that wait for a block do not ask for one when the engine fails.
func TestLeaseHandsOnErrors(t *testing.T) {
	d := &distant{Archive: memory.New(0, nil), fault: errors.New("broken")}
	l := leased(t, d, lease.Config{})
	_, err := l.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerHour(t, 1000)})
	require.ErrorIs(t, err, d.fault)
	_, err = l.Peek(t.Context(), exact.Call{Policy: exactkit.PerHour(t, 5)})
	require.ErrorIs(t, err, exact.ErrNotCounted)
}

// What wraps a counter that is no archive is none either.
func TestLeaseOfNoArchive(t *testing.T) {
	l := kit.Must(lease.New(struct{ exact.Counter }{memory.New(0, nil)}, lease.Config{}))(t)
	require.ErrorIs(t, l.Each(t.Context(), nil), exact.ErrNoArchive)
	require.ErrorIs(t, l.Restore(t.Context(), engine.Record{}), exact.ErrNoArchive)
	require.ErrorIs(t, l.Forget(t.Context(), ""), exact.ErrNoArchive)
	require.NoError(t, l.Close())
}

// A distant counter is a memory that a call takes time to reach.
type distant struct {
	engine.Archive
	trip  time.Duration
	trips atomic.Int64
	fault error // after the call was counted
}

func (d *distant) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	d.trips.Add(1)
	v, err := d.Archive.Take(ctx, call)
	if err != nil {
		return exact.Verdict{}, err
	}
	if d.trip > 0 {
		select {
		case <-time.After(d.trip):
		case <-ctx.Done():
			return exact.Verdict{}, fmt.Errorf("%w: %w", exact.ErrMaybeCounted, ctx.Err())
		}
	}
	return v, d.fault
}
