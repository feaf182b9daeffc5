// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
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

func TestMemory(t *testing.T) {
	clock := exacttest.NewClock()
	for range 5 {
		require.NoError(t, exacttest.TestCounter(func() (exact.Counter, error) { return memory.New(0, clock.Now), nil }, clock))
	}
	require.NoError(t, exacttest.TestCounter(func() (exact.Counter, error) { return memory.New(0, nil), nil }, nil))
}

func TestMemoryFullOfLiveKeysRefusesNewOnesAndForgetsNobody(t *testing.T) {
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.FixedWindow, Quota: 1, Window: time.Minute})
	clock := exacttest.NewClock()
	m := memory.New(100, clock.Now)
	take := func(n int) (exact.Verdict, error) {
		return m.Take(t.Context(), exact.Call{Key: strconv.Itoa(n), Cost: 1, Policy: p})
	}
	var live []int
	for n := range 5000 {
		v, err := take(n)
		if err == nil {
			require.True(t, v.Admitted)
			live = append(live, n)
			continue
		}
		require.ErrorIs(t, err, exact.ErrFull)
		require.ErrorIs(t, err, exact.ErrNotCounted)
	}
	require.GreaterOrEqual(t, len(live), 100)
	require.Less(t, len(live), 1000, "64 shards of some ten keys")
	for _, n := range live {
		v := kit.Must(take(n))(t)
		require.False(t, v.Admitted, "no fresh quota")
	}
	clock.Advance(2 * time.Minute)
	_, err := take(9999)
	require.ErrorIs(t, err, exact.ErrFull, "one moment is not believed")
	clock.Advance(time.Minute)
	v := kit.Must(take(9999))(t)
	require.True(t, v.Admitted, "what counts no more makes room")
}

// A full memory says when there will be room, and there is, neither before nor
// after, with calls all the time.
func TestAFullMemorySaysWhenThereIsRoom(t *testing.T) {
	for name, limit := range map[string]storeless.Limit{
		"seconds":  {Algorithm: storeless.FixedWindow, Quota: 5, Window: 5 * time.Second},
		"minutes":  {Algorithm: storeless.FixedWindow, Quota: 5, Window: 10 * time.Minute},
		"a day":    {Quota: 5, Window: 24 * time.Hour},
		"a bucket": {Algorithm: storeless.TokenBucket, Quota: 60, Window: time.Hour, Burst: 1},
		"a log":    {Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			clock := exacttest.NewClock()
			m := memory.New(1, clock.Now)
			call := exact.Call{Cost: 1, Policy: exactkit.Compile(t, limit)}
			var v exact.Verdict
			var err error
			for n := 0; err == nil; n++ {
				call.Key = strconv.Itoa(n)
				v, err = m.Take(t.Context(), call)
			}
			require.ErrorIs(t, err, exact.ErrFull)
			said, waited := v.Wait, time.Duration(0)
			require.GreaterOrEqual(t, said, time.Second)
			for err != nil && waited < said+time.Minute {
				clock.Advance(time.Second)
				waited += time.Second
				v, err = m.Take(t.Context(), call)
			}
			require.NoError(t, err)
			require.True(t, v.Admitted)
			require.InDelta(t, said.Seconds(), waited.Seconds(), 1)
		})
	}
}

// broken breaks a memory in one way.
type broken struct {
	engine.Archive
	changes func(*exact.Call) // before it is taken
	take    func(engine.Archive, context.Context, exact.Call) (exact.Verdict, error)
	peek    func(engine.Archive, context.Context, exact.Call) (exact.Verdict, error)
	refund  func(engine.Archive, context.Context, exact.Receipt) error
}

func (b broken) Take(ctx context.Context, c exact.Call) (exact.Verdict, error) {
	if b.changes != nil {
		b.changes(&c)
	}
	if b.take != nil {
		return b.take(b.Archive, ctx, c)
	}
	return b.Archive.Take(ctx, c)
}

func (b broken) Peek(ctx context.Context, c exact.Call) (exact.Verdict, error) {
	if b.peek != nil {
		return b.peek(b.Archive, ctx, c)
	}
	return b.Archive.Peek(ctx, c)
}

func (b broken) Refund(ctx context.Context, r exact.Receipt) error {
	if b.refund != nil {
		return b.refund(b.Archive, ctx, r)
	}
	return b.Archive.Refund(ctx, r)
}

// TestSuiteCatchesBrokenCounters breaks a counter in one way after the other, and
// has the suite name what is wrong.
func TestSuiteCatchesBrokenCounters(t *testing.T) {
	for want, b := range map[string]broken{
		"exact on a hot key": {take: func(m engine.Archive, ctx context.Context, c exact.Call) (exact.Verdict, error) {
			v, err := m.Peek(ctx, c) // read, compare, write
			for range 100 {
				runtime.Gosched() // all read before any writes
			}
			if err == nil && v.Admitted {
				_, err = m.Take(ctx, c)
			}
			v.Admitted = v.Admitted && err == nil
			return v, err
		}},
		"peek charges nothing": {peek: engine.Archive.Take},
		"policies count apart": {changes: func(c *exact.Call) {
			if c.Policy != nil {
				l := c.Policy.Limit(0)
				l.Name = "one"
				c.Policy, _ = exact.Compile("one", []storeless.Limit{l})
			}
		}},
		"an ID is counted once": {changes: func(c *exact.Call) {
			if len(c.ID) <= 64 {
				c.ID = ""
			}
		}},
		"a refund is given once": {refund: func(m engine.Archive, ctx context.Context, r exact.Receipt) error {
			if err := m.Refund(ctx, r); err != nil && !errors.Is(err, exact.ErrNoRefund) {
				return err
			}
			return nil
		}},
		"mistaken calls": {changes: func(c *exact.Call) { c.Cost = max(1, c.Cost) }},
		"a context that has ended": {take: func(m engine.Archive, ctx context.Context, c exact.Call) (exact.Verdict, error) {
			return m.Take(context.WithoutCancel(ctx), c)
		}},
		"costs":                       {changes: func(c *exact.Call) { c.Cost = min(1, c.Cost) }},
		"past the limit":              {changes: func(c *exact.Call) { c.Past = c.Past && c.Cost < 10 }},
		"booked one behind the other": {changes: func(c *exact.Call) { c.Ahead = min(c.Ahead, 1) }},
		"a booking that is given back": {refund: func(m engine.Archive, ctx context.Context, r exact.Receipt) error {
			r.Serial, _, _ = strings.Cut(r.Serial, "_") // as what was charged now is
			return m.Refund(ctx, r)
		}},
		"a pause":                  {changes: func(c *exact.Call) { c.Pause = min(c.Pause, time.Minute) }},
		"mistaken calls for later": {changes: func(c *exact.Call) { c.Pause = min(c.Pause, exact.MaxPause) }},
	} {
		clock := exacttest.NewClock()
		err := exacttest.TestCounter(func() (exact.Counter, error) {
			b := b
			b.Archive = memory.New(0, clock.Now)
			return b, nil
		}, clock)
		require.ErrorContains(t, err, want+": ", want)
	}
	clock := exacttest.NewClock()
	// A counter by a clock that follows every step.
	err := exacttest.TestCounter(func() (exact.Counter, error) { return forgetful{clock, memory.New(0, clock.Now)}, nil }, clock)
	require.ErrorContains(t, err, "a clock that steps back: ")
	require.ErrorContains(t, exacttest.TestCounter(func() (exact.Counter, error) { return nil, errors.New("no disk") }, clock), "no disk")
}

// forgetful counts every minute by itself, whichever came before.
type forgetful struct {
	clock *exacttest.Clock
	engine.Archive
}

func (f forgetful) Take(ctx context.Context, c exact.Call) (exact.Verdict, error) {
	if c.Key != "" && len(c.Key) < exact.MaxKey {
		c.Key += strconv.FormatInt(f.clock.Now().Unix()/60, 36)
	}
	return f.Archive.Take(ctx, c)
}

func BenchmarkMemory(b *testing.B) {
	p := exactkit.Compile(b, storeless.Limit{Quota: storeless.MaxQuota, Window: time.Hour})
	for _, keys := range []int{1, 10_000} {
		for _, callers := range []int{1, 16, 128} {
			b.Run("keys="+strconv.Itoa(keys)+"/callers="+strconv.Itoa(callers), func(b *testing.B) {
				m := memory.New(0, nil)
				names := make([]string, keys)
				for i := range names {
					names[i] = strconv.Itoa(i)
				}
				b.SetParallelism(callers)
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for i := 0; pb.Next(); i++ {
						if _, err := m.Take(context.Background(), exact.Call{Key: names[i%keys], Cost: 1, Policy: p}); err != nil {
							b.Error(err)
						}
					}
				})
			})
		}
	}
}

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// A memory that was filled while its clock was ahead has room when the clock is back, and
// remembers IDs for no longer than ever.
func TestMemoryOfAWrongClockMakesRoom(t *testing.T) {
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.FixedWindow, Quota: 5, Window: time.Minute})
	clock := exacttest.NewClock()
	m := memory.New(64, clock.Now)
	fill := func() (last error) {
		for n := range 5000 {
			_, last = m.Take(t.Context(), exact.Call{Key: strconv.Itoa(n), Cost: 1, Policy: p, ID: "there"})
		}
		return last
	}
	clock.Advance(year)
	require.ErrorIs(t, fill(), exact.ErrFull)
	clock.Advance(-year)
	for range 4 { // one moment is not believed
		_, err := m.Take(t.Context(), exact.Call{Key: "new", Cost: 1, Policy: p})
		require.ErrorIs(t, err, exact.ErrFull)
		clock.Advance(20 * time.Second)
	}
	clock.Advance(time.Minute)
	require.True(t, exactkit.Take(t, m, exact.Call{Key: "new", Cost: 1, Policy: p}).Admitted)

	call := exact.Call{Key: "0", Cost: 1, Policy: p, ID: "there"}
	require.True(t, exactkit.Take(t, m, call).Replayed)
	clock.Advance(2 * exact.IDLife)
	require.False(t, exactkit.Take(t, m, call).Replayed)
}

// A memory that is full while its clock is ahead gives no key a fresh quota.
func TestFullMemoryOfAClockThatIsAheadForAMoment(t *testing.T) {
	clock := exacttest.NewClock()
	m := memory.New(100, clock.Now)
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.FixedWindow, Quota: 1, Window: day})
	take := func(key string) (exact.Verdict, error) {
		return m.Take(t.Context(), exact.Call{Key: key, Cost: 1, Policy: p})
	}
	var spent []string
	for n := range 5000 {
		if _, err := take(strconv.Itoa(n)); err == nil {
			spent = append(spent, strconv.Itoa(n))
		}
	}
	clock.Advance(3 * day)
	for n := range 3000 {
		_, err := take("other " + strconv.Itoa(n))
		require.ErrorIs(t, err, exact.ErrFull)
		clock.Advance(time.Second)
	}
	clock.Advance(-3 * day)
	for _, key := range spent {
		v := kit.Must(take(key))(t)
		require.False(t, v.Admitted, "a fresh quota")
	}
}
