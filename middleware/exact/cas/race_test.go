// SPDX-License-Identifier: Apache-2.0

package cas_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

// A call that always loses ends as load, after its tries, and has written nothing. Its pauses
// grow to at most eight times a try.
func TestRacesAreBounded(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := newShelf(time.Now)
		s.loading = func(int) error { time.Sleep(3 * time.Millisecond); return nil }
		s.swapping = func(context.Context, int) error { time.Sleep(2 * time.Millisecond); return cas.ErrChanged }
		c := open(t, s, cas.Config{Tries: 64})
		var bounds []time.Duration
		c.DrawBy(func(n int64) int64 { bounds = append(bounds, time.Duration(n)); return n - 1 })
		began := time.Now()
		_, err := c.Take(context.Background(), exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5)})
		require.ErrorIs(t, err, exact.ErrContended)
		require.ErrorIs(t, err, exact.ErrNotCounted)
		require.NotErrorIs(t, err, exact.ErrMaybeCounted)
		require.EqualError(t, err, "exact: not counted: too many others change this key at once: cas: lost 64")
		loads, swaps, done := s.figures()
		require.Equal(t, []int{64, 64, 0}, []int{loads, swaps, done})
		const try = 5 * time.Millisecond
		want := []time.Duration{try, 2 * try, 4 * try}
		total := 7*try + 64*try
		for len(want) < 63 {
			want = append(want, 8*try)
			total += 8 * try
		}
		require.Equal(t, want, bounds)
		require.Equal(t, total-63, time.Since(began), "each pause is as drawn: 1 ns less than its bound")
	})
}

// A call ends as load when there is no time for another try, and does not wait for its
// deadline: a call that runs into it would be taken for one that the store did not answer.
func TestRacesEndBeforeTheDeadline(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := newShelf(time.Now)
		s.swapping = func(context.Context, int) error { time.Sleep(6 * time.Millisecond); return cas.ErrChanged }
		c := open(t, s, cas.Config{})
		c.DrawBy(func(n int64) int64 { return n - 1 })
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err := c.Take(ctx, exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5)})
		require.ErrorIs(t, err, exact.ErrContended)
		require.NoError(t, ctx.Err(), "three tries of 6 ms and pauses of 6 and 12; the next would be of 24")
		_, swaps, _ := s.figures()
		require.Equal(t, 3, swaps)
	})
}

// A deadline in a load after a lost race is load: the store has answered. In a swap the
// outcome is unknown. In the first load the store is late.
func TestDeadlinesAfterALostRace(t *testing.T) {
	for _, tc := range []struct {
		name        string
		slow        int // the load, or the swap if negative, that takes too long
		is, another error
	}{
		{"in the first load", 1, context.DeadlineExceeded, exact.ErrContended},
		{"in a later load", 2, exact.ErrContended, context.DeadlineExceeded},
		{"in a later swap", -2, exact.ErrMaybeCounted, exact.ErrContended},
	} {
		kit.RunBubble(t, tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			s := newShelf(time.Now)
			s.loading = func(load int) error {
				if load == tc.slow {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
			s.swapping = func(ctx context.Context, swap int) error {
				if swap == -tc.slow {
					<-ctx.Done()
					return ctx.Err()
				}
				return cas.ErrChanged
			}
			c := open(t, s, cas.Config{})
			c.DrawBy(func(int64) int64 { return 0 })
			_, err := c.Take(ctx, exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5)})
			require.ErrorIs(t, err, tc.is)
			require.NotErrorIs(t, err, tc.another)
		})
	}
}

// Where a context ends in a pause, the call does.
func TestAPauseEndsWithItsContext(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := newShelf(time.Now)
		s.swapping = func(context.Context, int) error { time.Sleep(time.Hour); return cas.ErrChanged }
		c := open(t, s, cas.Config{})
		c.DrawBy(func(n int64) int64 { return n - 1 })
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(90*time.Minute, cancel)
		began := time.Now()
		_, err := c.Take(ctx, exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5)})
		require.ErrorIs(t, err, exact.ErrContended)
		require.Equal(t, 90*time.Minute, time.Since(began))
	})
}

// One instance makes one swap of what comes for a key while another is under way, so that it
// does not race against itself.
func TestCallsOfOneInstanceTravelTogether(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := newShelf(time.Now)
		s.swapping = func(context.Context, int) error { time.Sleep(10 * time.Millisecond); return nil }
		c := open(t, s, cas.Config{})
		p := exactkit.PerYear(t, 1000)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				v, err := c.Take(context.Background(), exact.Call{Key: "k", Cost: 1, Policy: p})
				if err != nil || !v.Admitted {
					t.Error(v, err)
				}
			})
		}
		wg.Wait()
		_, swaps, done := s.figures()
		require.Equal(t, []int{2, 2}, []int{swaps, done})
	})
}

// What a race does to a refund: it is given once.
func TestRefundsRace(t *testing.T) {
	s := newShelf(time.Now)
	a, b := open(t, s, cas.Config{}), open(t, s, cas.Config{})
	call := exact.Call{Key: "k", Cost: 3, Policy: exactkit.PerYear(t, 5)}
	v := exactkit.Take(t, a, call)
	between := false
	s.swapping = func(context.Context, int) error {
		if !between {
			between = true
			return b.Refund(context.Background(), v.Receipt)
		}
		return nil
	}
	require.ErrorIs(t, a.Refund(t.Context(), v.Receipt), exact.ErrNoRefund)
	s.swapping = nil
	require.EqualValues(t, 5, exactkit.Left(t, a, call))

	v = exactkit.Take(t, a, call)
	s.answers = func(int) error { return errors.New("cut") }
	require.ErrorIs(t, a.Refund(t.Context(), v.Receipt), exact.ErrMaybeCounted)
	s.answers = nil
	require.ErrorIs(t, a.Refund(t.Context(), v.Receipt), exact.ErrNoRefund, "asked again, it finds out")
}
