// SPDX-License-Identifier: Apache-2.0

package cas_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
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
		kit.Together(100, func(int) {
			v, err := c.Take(context.Background(), exact.Call{Key: "k", Cost: 1, Policy: p})
			if err != nil || !v.Admitted {
				t.Error(v, err)
			}
		})
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

// ahead is the clock of an instance that differs from the store's.
func ahead(by time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(by) }
}

// spend returns how many of ten calls are admitted.
func spend(t *testing.T, c exact.Counter, p *exact.Policy, key string) (admitted int) {
	t.Helper()
	for range 10 {
		if exactkit.Take(t, c, exact.Call{Key: key, Cost: 1, Policy: p}).Admitted {
			admitted++
		}
	}
	return admitted
}

// Two instances whose clocks differ, by less than the window and less than a minute, never
// admit more than the quota in a window of the account, whichever is asked, also after a
// while without calls.
func TestSkewNeverExceeds(t *testing.T) {
	for _, window := range []time.Duration{10 * time.Second, time.Minute, time.Hour} {
		for _, skew := range []time.Duration{time.Second, 9 * time.Second, 59 * time.Second} {
			if skew >= window {
				continue
			}
			for _, idle := range []time.Duration{500 * time.Millisecond, 3 * time.Second, 17 * time.Second, 70 * time.Second} {
				kit.Bubble(t, func(t *testing.T) {
					s := newShelf(time.Now)
					instances := []*cas.Counter{open(t, s, cas.Config{}), open(t, s, cas.Config{Now: ahead(skew)})}
					p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.FixedWindow, Quota: 5, Window: window})
					inWindow := map[int64]int{} // of the instance that leads
					admitted := 0
					for turn := range 60 {
						c := instances[turn%7%2]
						v := exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
						if v.Admitted {
							admitted++
							inWindow[v.Receipt.At.Unix()/int64(window.Seconds())]++
						}
						time.Sleep(idle)
					}
					require.Positive(t, admitted)
					for at, n := range inWindow {
						require.LessOrEqual(t, n, 5, "window %s, skew %s, idle %s: in the one that begins at %d", window, skew, idle, at)
					}
				})
			}
		}
	}
}

// What is said of clocks that are further apart than a policy's longest window: they give
// its quota to each other again. Beside a longer window they do not.
func TestClocksFurtherApartThanTheWindow(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := newShelf(time.Now)
		right, wrong := open(t, s, cas.Config{}), open(t, s, cas.Config{Now: ahead(3 * time.Second)})
		second := storeless.Limit{Name: "second", Algorithm: storeless.FixedWindow, Quota: 5, Window: time.Second}
		day := storeless.Limit{Name: "day", Algorithm: storeless.FixedWindow, Quota: 1000, Window: 24 * time.Hour}
		for what, admitted := range map[string]int{"alone": 4 * 5, "beside a day": 2 * 5} {
			p := exactkit.Compile(t, second)
			if admitted == 10 {
				p = exactkit.Compile(t, second, day)
			}
			got := 0
			for range 2 {
				got += spend(t, right, p, what) + spend(t, wrong, p, what)
			}
			require.Equal(t, admitted, got, what)
		}
	})
}

// An account is kept as long as it counts, and a minute: also when what it is charged
// makes that shorter or longer than before. Then it is gone, and its name is free.
func TestAccountsExpire(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := newShelf(time.Now)
		c := open(t, s, cas.Config{})
		at := time.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)
		time.Sleep(time.Until(at) + 250*time.Millisecond)
		minute := storeless.Limit{Name: "minute", Algorithm: storeless.FixedWindow, Quota: 9, Window: time.Minute}
		hour := storeless.Limit{Name: "hour", Algorithm: storeless.FixedWindow, Quota: 9, Window: time.Hour}
		call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, minute)}
		v := exactkit.Take(t, c, call)
		call.Policy = exactkit.Compile(t, minute, hour)
		exactkit.Take(t, c, call)
		require.NoError(t, c.Refund(t.Context(), v.Receipt))
		require.Equal(t, []time.Duration{4*time.Minute + cas.Margin, 3*time.Hour + cas.Margin, 3*time.Hour + cas.Margin}, s.keeps,
			"two windows, as long again or an hour, and in whole seconds, rounded up")
		time.Sleep(3*time.Hour + cas.Margin + time.Second)
		value, revision, err := s.Load(t.Context(), cas.StoreName(call.Policy.AccountName("k")))
		require.NoError(t, err)
		require.Empty(t, value)
		require.Empty(t, revision)
		require.Equal(t, 9, spend(t, c, call.Policy, "k"))
	})
}

// A repeated refusal stays, though there is room by now: a process retries because an answer
// was lost, not to get another one.
func TestARefusalIsThatOfItsTime(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := open(t, newShelf(time.Now), cas.Config{})
		p := exactkit.PerHour(t, 1)
		v := exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
		call := exact.Call{Key: "k", Cost: 1, Policy: p, ID: "refused"}
		require.False(t, exactkit.Take(t, c, call).Admitted)
		require.NoError(t, c.Refund(t.Context(), v.Receipt))
		again := exactkit.Take(t, c, call)
		require.True(t, !again.Admitted && again.Replayed)
	})
}

// A refund that was given is not given twice, also if nothing else of the account is left.
func TestARefundOutlivesWhatItLeaves(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := newShelf(time.Now)
		c := open(t, s, cas.Config{})
		p := exactkit.PerHour(t, 5)
		at := time.Now().Truncate(time.Hour).Add(time.Hour)
		time.Sleep(time.Until(at))
		v := exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
		require.NoError(t, c.Refund(t.Context(), v.Receipt))
		time.Sleep(59 * time.Minute)
		exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
		require.ErrorIs(t, c.Refund(t.Context(), v.Receipt), exact.ErrNoRefund)
	})
}

// timed is a shelf whose server has a clock.
type timed struct {
	*shelf
	says func() time.Time
}

func (s timed) LoadAt(ctx context.Context, name string) ([]byte, string, time.Time, error) {
	value, revision, err := s.Load(ctx, name)
	return value, revision, s.says(), err
}

// Where the store says what time it is, instances go by that, whatever their own clocks say, for
// charges, looks and refunds; but by the one that they were told to go by.
func TestTheStoresClock(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		server := time.Now().Add(1000 * time.Hour).Truncate(24 * time.Hour)
		clock := func() time.Time { return server }
		s := timed{newShelf(clock), clock}
		a, b := open(t, s, cas.Config{}), open(t, s, cas.Config{})
		p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.FixedWindow, Quota: 5, Window: time.Minute})
		call := exact.Call{Key: "k", Cost: 1, Policy: p}
		v := exactkit.Take(t, a, call)
		require.Equal(t, server, v.Receipt.At)
		require.Equal(t, time.Minute, v.Limits[0].Reset)
		time.Sleep(time.Hour) // of the instances
		require.Equal(t, 4, spend(t, b, p, "k"), "it is the same minute")
		require.NoError(t, b.Refund(t.Context(), v.Receipt))
		require.Equal(t, 1, spend(t, b, p, "k"))

		server = server.Add(time.Minute)
		require.EqualValues(t, 5, exactkit.Left(t, a, call))
		require.ErrorIs(t, a.Refund(t.Context(), exact.Receipt{Key: "k", Cost: 1, Policy: p, At: server.Add(-time.Minute), Serial: "2"}), exact.ErrNoRefund)

		own := open(t, s, cas.Config{Now: time.Now})
		require.Equal(t, time.Now(), exactkit.Take(t, own, exact.Call{Key: "own", Cost: 1, Policy: p}).Receipt.At)
	})
}
