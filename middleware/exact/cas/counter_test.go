// SPDX-License-Identifier: Apache-2.0

package cas_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/cas/castest"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/lease"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

func open(t testing.TB, s cas.Store, cfg cas.Config) *cas.Counter {
	t.Helper()
	c := kit.Must(cas.New(s, cfg))(t)
	return c.(*cas.Counter)
}

// The store of these tests keeps what a store promises.
func TestShelfIsAStore(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		require.NoError(t, castest.TestStore(newShelf(time.Now), 400<<10))
	})
}

// A store of small values takes a key with many refunds.
func TestRefundsFitIntoASmallStore(t *testing.T) {
	clock := exacttest.NewClock()
	s := newShelf(clock.Now)
	s.most = 1024 + 64
	c := open(t, s, cas.Config{Now: clock.Now})
	call := exact.Call{Key: "k", Cost: 2, Policy: exactkit.PerYear(t, 1<<20)}
	for n := range 20_000 {
		v := exactkit.Take(t, c, call)
		if v.Receipt.Cost = 1; n*n%7 < 4 {
			require.NoError(t, c.Refund(t.Context(), v.Receipt))
		}
	}
}

func TestCounter(t *testing.T) {
	for _, merged := range []bool{true, false} {
		t.Run(fmt.Sprintf("merged is %t", merged), func(t *testing.T) {
			clock, lose := exacttest.NewClock(), new(atomic.Bool)
			s := newShelf(clock.Now)
			s.answers = func(int) error {
				if lose.CompareAndSwap(true, false) {
					return errors.New("cut")
				}
				return nil
			}
			require.NoError(t, (&exacttest.Suite{
				Open: func() (exact.Counter, error) {
					c, err := cas.New(s, cas.Config{Now: clock.Now})
					if err != nil || merged {
						return c, err
					}
					return patient{c.(*cas.Counter).Engine()}, nil
				},
				Clock:      clock,
				LoseAnswer: func(exact.Counter) { lose.Store(true) },
			}).Test())
		})
	}
}

// patient repeats what has lost all its races: 32 callers of the suite race for one key,
// which is what no caller of this package does, because it merges.
type patient struct{ engine.Batcher }

func (c patient) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	for {
		v, err := c.Batcher.Take(ctx, call)
		if !errors.Is(err, exact.ErrContended) {
			return v, err
		}
	}
}

// Four instances make 5000 attempts at a limit of 1000 through a store that loses answers
// and is slow at random: exactly 1000 pass, and exactly 1000 are counted, under any
// algorithm and whatever the order.
func TestExactFromRacingInstances(t *testing.T) {
	for _, a := range []storeless.Algorithm{storeless.FixedWindow, storeless.SlidingWindow, storeless.TokenBucket, storeless.SlidingLog} {
		seeds := uint64(5)
		if !kit.Whole() {
			seeds = 1
		}
		for seed := range seeds {
			kit.RunBubble(t, fmt.Sprintf("%s, seed %d", a, seed), func(t *testing.T) {
				attack(t, storeless.Limit{Algorithm: a, Quota: 1000, Window: storeless.MaxWindow}, seed)
			})
		}
	}
}

func attack(t *testing.T, limit storeless.Limit, seed uint64) {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 1))
	draw := func(n int64) int64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Int64N(n)
	}
	late := func() time.Duration { return time.Duration(draw(int64(2 * time.Millisecond))) }
	var admitted, lost atomic.Int64
	s := newShelf(time.Now)
	s.loading = func(int) error { time.Sleep(late()); return nil }
	s.swapping = func(context.Context, int) error { time.Sleep(late()); return nil }
	s.answers = func(int) error {
		time.Sleep(late())
		if draw(10) == 0 {
			lost.Add(1)
			return errors.New("the connection was cut")
		}
		return nil
	}
	p := exactkit.Compile(t, limit)
	var wg sync.WaitGroup
	for instance := range 4 {
		c := open(t, s, cas.Config{})
		c.DrawBy(draw)
		for worker := range 10 {
			wg.Go(func() {
				for n := range 125 {
					call := exact.Call{Key: "k", Cost: 1, Policy: p, ID: fmt.Sprint(instance, "-", worker, "-", n)}
					v, err := c.Take(context.Background(), call)
					for ; err != nil; v, err = c.Take(context.Background(), call) {
						if !errors.Is(err, exact.ErrMaybeCounted) && !errors.Is(err, exact.ErrContended) {
							t.Error(err)
							return
						}
					}
					if v.Admitted {
						admitted.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	require.EqualValues(t, 1000, admitted.Load())
	require.Positive(t, lost.Load())
	v := kit.Must(open(t, s, cas.Config{}).Peek(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p}))(t)
	require.Zero(t, v.Limits[0].Remaining)
}

// A call whose answer is lost finds out by itself, where it has an ID.
func TestALostAnswerIsAskedFor(t *testing.T) {
	s := newShelf(time.Now)
	s.answers = func(swap int) error {
		if swap%2 == 1 {
			return errors.New("cut")
		}
		return nil
	}
	c := open(t, s, cas.Config{})
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 2), ID: "one"}
	v := exactkit.Take(t, c, call)
	require.True(t, v.Admitted)
	require.EqualValues(t, 1, v.Limits[0].Remaining, "it is counted once")
	_, swaps, _ := s.figures()
	require.Equal(t, 1, swaps)
}

// A store that answers no swap is asked twice for a call, and no more.
func TestAStoreThatLosesAllAnswersIsNotAskedOn(t *testing.T) {
	s := newShelf(time.Now)
	s.swapping = func(context.Context, int) error { return errors.New("cut") }
	_, err := open(t, s, cas.Config{}).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 2), ID: "one"})
	require.ErrorIs(t, err, exact.ErrMaybeCounted)
	_, swaps, _ := s.figures()
	require.Equal(t, 2, swaps)
}

// An answer that is lost says so, if nothing is heard of the store any more; the same ID
// finds out, on any instance.
func TestALostAnswerIsFoundByItsID(t *testing.T) {
	s := newShelf(time.Now)
	s.loading = func(load int) error {
		if load == 2 {
			return errors.New("still cut")
		}
		return nil
	}
	s.answers = func(swap int) error {
		if swap == 1 {
			return errors.New("cut")
		}
		return nil
	}
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 2), ID: "one"}
	_, err := open(t, s, cas.Config{}).Take(t.Context(), call)
	require.EqualError(t, err, "exact: may have been counted: cut")
	require.ErrorIs(t, err, exact.ErrMaybeCounted)
	require.NotErrorIs(t, err, exact.ErrNotCounted)
	v := kit.Must(open(t, s, cas.Config{}).Take(t.Context(), call))(t)
	require.True(t, v.Admitted && v.Replayed)
	require.EqualValues(t, 1, v.Limits[0].Remaining, "it is counted once")
	require.NoError(t, open(t, s, cas.Config{}).Refund(t.Context(), v.Receipt), "its receipt is good")
}

// What fails for certain is not counted: a load, a swap that says so, and a store that is full.
func TestWhatIsCertainlyNotCounted(t *testing.T) {
	cut := errors.New("cut")
	for _, tc := range []struct {
		name    string
		break_  func(*shelf)
		is, not error
	}{
		{"a load fails", func(s *shelf) { s.loading = func(int) error { return cut } }, exact.ErrNotCounted, exact.ErrContended},
		{"a swap fails", func(s *shelf) { s.swapping = func(context.Context, int) error { return cut } }, exact.ErrMaybeCounted, exact.ErrNotCounted},
		{"a swap was never sent", func(s *shelf) {
			s.swapping = func(context.Context, int) error { return fmt.Errorf("%w: %w", exact.ErrNotCounted, cut) }
		}, exact.ErrNotCounted, exact.ErrMaybeCounted},
		{"the store is full", func(s *shelf) {
			s.swapping = func(context.Context, int) error { return fmt.Errorf("%w: %w", exact.ErrFull, cut) }
		}, exact.ErrFull, exact.ErrMaybeCounted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newShelf(time.Now)
			tc.break_(s)
			c := open(t, s, cas.Config{})
			_, err := c.Take(t.Context(), exact.Call{Key: "secret", Cost: 1, Policy: exactkit.PerYear(t, 2)})
			require.ErrorIs(t, err, tc.is)
			require.NotErrorIs(t, err, tc.not)
			require.ErrorIs(t, err, cut)
			require.NotContains(t, err.Error(), "secret")
			_, swaps, _ := s.figures()
			require.LessOrEqual(t, swaps, 1, "it is not tried again by itself")
		})
	}
}

// A refusal, a peek and a replay cost one load, and change nothing.
func TestRefusalsAreNotWritten(t *testing.T) {
	s := newShelf(time.Now)
	c := open(t, s, cas.Config{})
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 1), ID: "admitted"}
	exactkit.Take(t, c, call)
	for n := range 5 {
		call.ID = strconv.Itoa(n)
		require.False(t, exactkit.Take(t, c, call).Admitted)
		exactkit.Peek(t, c, call)
		call.ID = "admitted"
		require.True(t, exactkit.Take(t, c, call).Replayed)
	}
	require.ErrorIs(t, c.Refund(t.Context(), exact.Receipt{Key: "k", Cost: 1, Policy: call.Policy, Serial: "1"}), exact.ErrNoRefund)
	loads, swaps, _ := s.figures()
	require.Equal(t, 1+3*5+1, loads)
	require.Equal(t, 1, swaps)
}

// Names in a store tell nothing of the key, and hold nothing that a store may not take.
func TestNamesInTheStore(t *testing.T) {
	s := newShelf(time.Now)
	c := open(t, s, cas.Config{})
	for _, key := range []string{"alice@example.org", "\x00\xff/../ *>", strings.Repeat("k", exact.MaxKey)} {
		exactkit.Take(t, c, exact.Call{Key: key, Cost: 1, Policy: exactkit.PerYear(t, 2)})
	}
	require.Len(t, s.values, 3)
	for name := range s.values {
		require.Regexp(t, `^[0-9a-f]{32}$`, name)
	}
}

func TestConfigErrors(t *testing.T) {
	_, err := cas.New(nil, cas.Config{Tries: 65})
	require.ErrorContains(t, err, "store: is nil")
	require.ErrorContains(t, err, "Tries: must be from 1 to 64, or 0 for 16, not 65")
	_, err = cas.New(newShelf(time.Now), cas.Config{Tries: -1})
	require.ErrorContains(t, err, "Tries: ")
}

// A store that has too many calls is asked once more, for a load and for a swap, while there is
// time. One that has them all the time is load.
func TestAThrottledCallIsRepeatedOnce(t *testing.T) {
	for name, row := range map[string]struct {
		loads, swaps int // that are throttled, from the first on
		late         time.Duration
		want         error
		asked        [2]int
	}{
		"a load":               {loads: 1, asked: [2]int{2, 1}},
		"a swap":               {swaps: 1, asked: [2]int{1, 2}},
		"both":                 {loads: 1, swaps: 1, asked: [2]int{2, 2}},
		"loads":                {loads: 9, want: exact.ErrBusy, asked: [2]int{2, 0}},
		"swaps":                {swaps: 9, want: exact.ErrBusy, asked: [2]int{1, 2}},
		"a load, and no time":  {loads: 1, late: 50 * time.Millisecond, want: exact.ErrBusy, asked: [2]int{1, 0}},
		"a swap, and no time":  {swaps: 1, late: 50 * time.Millisecond, want: exact.ErrBusy, asked: [2]int{1, 1}},
		"a load, late at last": {loads: 9, late: 20 * time.Millisecond, want: exact.ErrBusy, asked: [2]int{2, 0}},
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			s := newShelf(time.Now)
			throttle := func(n, most int) error {
				if n > most {
					return nil
				}
				time.Sleep(row.late)
				return exact.ErrBusy
			}
			s.loading = func(load int) error { return throttle(load, row.loads) }
			s.swapping = func(_ context.Context, swap int) error { return throttle(swap, row.swaps) }
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			v, err := open(t, s, cas.Config{}).Take(ctx, exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5), ID: "1"})
			require.ErrorIs(t, err, row.want)
			require.Equal(t, err == nil, v.Admitted)
			require.Equal(t, row.asked, [2]int{s.loads, s.swaps})
		})
	}
}

// Package middleware asks for it by name, also where calls are leased ahead.
func TestDeadline(t *testing.T) {
	c := kit.Must(cas.New(struct{ cas.Store }{}, cas.Config{}))(t)
	leased := kit.Must(lease.New(c, lease.Config{}))(t)
	defer func() { require.NoError(t, leased.Close()) }()
	for _, c := range []exact.Counter{c, leased} {
		slow, ok := c.(interface{ Deadline() time.Duration })
		require.True(t, ok)
		require.Equal(t, 250*time.Millisecond, slow.Deadline())
	}
}

// A shelf is a store in memory, to which everything can happen that happens to stores. It
// forgets a value at the moment from which it may.
type shelf struct {
	now func() time.Time

	mu     sync.Mutex
	values map[string]kept
	serial int
	loads  int
	swaps  int // that were asked for
	done   int // that were done
	keeps  []time.Duration
	most   int // bytes of a value; 0: any number

	loading  func(load int) error                      // before a load
	swapping func(ctx context.Context, swap int) error // before a swap
	answers  func(swap int) error                      // after one that was done
}

type kept struct {
	value    string
	revision string
	ends     time.Time
}

func newShelf(now func() time.Time) *shelf {
	return &shelf{now: now, values: make(map[string]kept)}
}

func (s *shelf) Load(ctx context.Context, name string) ([]byte, string, error) {
	s.mu.Lock()
	s.loads++
	n, loading := s.loads, s.loading
	s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	if loading != nil {
		if err := loading(n); err != nil {
			return nil, "", err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.live(name)
	return []byte(k.value), k.revision, nil
}

// live returns what is kept under a name. s.mu is held.
func (s *shelf) live(name string) kept {
	k := s.values[name]
	if !k.ends.After(s.now()) {
		return kept{}
	}
	return k
}

func (s *shelf) Swap(ctx context.Context, name, revision string, value []byte, keep time.Duration) error {
	s.mu.Lock()
	s.swaps++
	n, swapping, answers := s.swaps, s.swapping, s.answers
	s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return errors.Join(exact.ErrNotCounted, err)
	}
	if s.most > 0 && len(value) > s.most {
		return exact.ErrFull
	}
	if swapping != nil {
		if err := swapping(ctx, n); err != nil {
			return err
		}
	}
	if !s.swap(name, revision, value, keep) {
		return cas.ErrChanged
	}
	if answers != nil {
		return answers(n)
	}
	return nil
}

func (s *shelf) swap(name, revision string, value []byte, keep time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live(name).revision != revision {
		return false
	}
	s.serial++
	s.done++
	s.keeps = append(s.keeps, keep)
	s.values[name] = kept{string(value), strconv.Itoa(s.serial), s.now().Add(keep)}
	return true
}

// figures returns how many loads and swaps were asked for, and how many swaps were done.
func (s *shelf) figures() (loads, swaps, done int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loads, s.swaps, s.done
}

func (s *shelf) Each(ctx context.Context, f func(name string, value []byte) error) error {
	s.mu.Lock()
	values := maps.Clone(s.values)
	s.mu.Unlock()
	for name := range values {
		value, _, err := s.Load(ctx, name)
		if err == nil {
			err = f(name, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// What a later version has written is refused by name, and left as it is: it is never taken for nothing.
func TestAccountsOfLaterVersions(t *testing.T) {
	p := exactkit.Compile(t, storeless.Limit{Name: "fixed", Algorithm: storeless.FixedWindow, Quota: 600, Window: time.Hour})
	name := cas.StoreName(p.AccountName("k"))
	clock := exacttest.NewClock()
	store := newShelf(clock.Now)
	c, err := cas.New(store, cas.Config{Now: clock.Now})
	require.NoError(t, err)
	require.True(t, store.swap(name, "", []byte{5}, time.Hour))
	_, err = c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
	require.ErrorIs(t, err, exact.ErrNotCounted)
	require.ErrorContains(t, err, "an account in format 5, of a later version")
	require.Equal(t, "\x05", store.values[name].value)
}
