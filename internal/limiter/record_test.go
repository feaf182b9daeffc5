// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// TestRecordCountsWithoutAsking records beyond the quota, and finds the limit shut
// by exactly that afterwards, for each algorithm, with and without a memory.
func TestRecordCountsWithoutAsking(t *testing.T) {
	now := opening // at a boundary of all windows here
	for _, a := range []limiter.Algorithm{limiter.SlidingWindow, limiter.FixedWindow, limiter.TokenBucket, limiter.LeakyBucket} {
		for _, m := range []*limiter.Memory{nil, limiter.NewMemory(64, 2)} {
			p := compile(t,
				limiter.Limit{Algorithm: a, Quota: 10, Window: time.Minute},
				limiter.Limit{Quota: 100, Window: time.Hour},
			)
			f := limiter.Candidate{Key: 7}
			for range 12 {
				f.Shown = m.Record(now, p, &f, 1)
			}
			v := m.Peek(now, p, &f, 1)
			require.False(t, v.Admitted, a)
			require.Zero(t, v.Limits[0].Remaining)
			require.EqualValues(t, 88, v.Limits[1].Remaining)
			if m != nil { // what the memory holds needs no token
				v = m.Peek(now, p, &limiter.Candidate{Key: 7}, 1)
				require.EqualValues(t, 88, v.Limits[1].Remaining)
			}
		}
	}
}

func TestRecordDoesNotOverflow(t *testing.T) {
	now := opening
	for _, a := range []limiter.Algorithm{limiter.SlidingWindow, limiter.TokenBucket} {
		p := compile(t, limiter.Limit{Algorithm: a, Quota: limiter.MaxQuota, Window: 366 * 24 * time.Hour})
		f := limiter.Candidate{}
		for range 3 {
			f.Shown = (*limiter.Memory)(nil).Record(now, p, &f, 1<<62)
		}
		v := (*limiter.Memory)(nil).Peek(now, p, &f, 1)
		require.Zero(t, v.Limits[0].Remaining, a)
		require.False(t, v.Admitted)
		require.LessOrEqual(t, v.Wait, 2*366*24*time.Hour+time.Hour) // rounded up, T is longer
	}
}

// TestRecordBehindAnotherClock records in the window before the one that is known: there it counts, and there it is
// found again.
func TestRecordBehindAnotherClock(t *testing.T) {
	ahead, behind := opening, opening.Add(-time.Second) // of a boundary
	p := compile(t, limiter.Limit{Quota: 10, Window: time.Minute})
	shown := (*limiter.Memory)(nil).Record(ahead, p, &limiter.Candidate{}, 1)
	for _, m := range []*limiter.Memory{nil, limiter.NewMemory(64, 1)} {
		f := limiter.Candidate{Key: 7, Shown: shown}
		f.Shown = m.Record(behind, p, &f, 2)
		require.Equal(t, limiter.State{At: shown[0].At, Cur: 1, Prev: 2}, f.Shown[0])
		require.Equal(t, shown, m.Restore(behind, behind, p, &limiter.Candidate{Key: 7, Shown: f.Shown}, 2))
	}
}

// TestRestoreIsTheInverseWithinAWindow gives back what was counted, in its own
// window and in the next; after that there is nothing to give back.
func TestRestoreIsTheInverseWithinAWindow(t *testing.T) {
	start := opening
	p := compile(t, limiter.Limit{Quota: 10, Window: time.Minute})
	for _, test := range []struct {
		name  string
		after time.Duration
		left  int64 // of 10, 6 having been counted at the start and 4 of them restored
		other int64 // the same, counted once more in the window of the refund
	}{
		{"at once", 0, 8, 7},
		{"at the end of the window", 59 * time.Second, 8, 7},
		{"in the next window, at its beginning", time.Minute, 8, 7},
		{"two windows on", 2 * time.Minute, 10, 9},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := limiter.NewMemory(64, 1)
			wide := []limiter.Network{{Key: 9, Policy: p}}
			f := limiter.Candidate{Key: 7, Networks: wide}
			m.Record(start, p, &f, 6)
			now := start.Add(test.after)
			f.Shown = m.Restore(now, start, p, &f, 4)
			require.Equal(t, test.left, m.Peek(now, p, &f, 1).Limits[0].Remaining)
			require.Equal(t, test.left, m.Peek(now, p, &limiter.Candidate{Key: 9}, 1).Limits[0].Remaining, "the network")
			m.Record(now, p, &f, 1)
			require.Equal(t, test.other, m.Peek(now, p, &f, 1).Limits[0].Remaining)
			m.Restore(now, start.Add(-time.Hour), p, &f, 100)
			require.Equal(t, test.other, m.Peek(now, p, &f, 1).Limits[0].Remaining, "of a window long past")
		})
	}
}

func TestRestoreOfABucketPaysItsDebt(t *testing.T) {
	now := opening
	p := compile(t, limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 60, Window: time.Minute, Burst: 10})
	m, f := limiter.NewMemory(64, 1), limiter.Candidate{Key: 7}
	m.Record(now, p, &f, 6)
	m.Restore(now, now, p, &f, 2)
	require.EqualValues(t, 6, m.Peek(now, p, &f, 1).Limits[0].Remaining)
	m.Restore(now.Add(time.Second), now, p, &f, 1000)
	require.EqualValues(t, 10, m.Peek(now.Add(time.Second), p, &f, 1).Limits[0].Remaining, "never more than full")
}

func TestShare(t *testing.T) {
	p := compile(t,
		limiter.Limit{Quota: 100, Window: time.Hour},
		limiter.Limit{Name: "few", Quota: 3, Window: time.Minute},
		limiter.Limit{Name: "burst", Algorithm: limiter.TokenBucket, Quota: 10, Burst: 30, Window: time.Second},
		limiter.Limit{Name: "slow", Algorithm: limiter.TokenBucket, Quota: 1, Burst: 1, Window: limiter.MaxWindow},
	)
	s := p.Share(7)
	require.True(t, p.SameShape(s))
	for i, want := range []struct{ quota, burst int64 }{{14, 0}, {1, 0}, {1, 4}, {1, 1}} {
		require.Equal(t, want.quota, s.Limit(i).Quota, i)
		require.Equal(t, want.burst, s.Limit(i).Burst, i)
	}
	require.Equal(t, p.Limit(0), p.Share(1).Limit(0))
	require.Panics(t, func() { p.Share(0) })
}

// A bucket that is refunded what has leaked out already would hold more than its burst.
func TestRestoreOfABucketKeepsItsBurst(t *testing.T) {
	p := compile(t, limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 60, Window: minute, Burst: 10})
	now := opening
	var f limiter.Candidate
	var v limiter.Verdict
	var charged []time.Time
	for range 5 {
		f.Shown, v = p.Step(now, f.Shown, 10)
		require.True(t, v.Admitted)
		charged = append(charged, now)
		now = now.Add(10 * time.Second)
	}
	admitted := 0
	for _, then := range charged {
		for {
			var v limiter.Verdict
			if f.Shown, v = p.Step(now, f.Shown, 1); !v.Admitted {
				break
			}
			admitted++
		}
		f.Shown = (*limiter.Memory)(nil).Restore(now, then, p, &f, 10)
	}
	require.Equal(t, 10, admitted)
	// What has not leaked out comes back.
	f.Shown, _ = p.Step(now, limiter.Tally{}, 10)
	f.Shown = (*limiter.Memory)(nil).Restore(now.Add(3*time.Second), now, p, &f, 10)
	_, v = p.Step(now.Add(3*time.Second), f.Shown, 10)
	require.True(t, v.Admitted)
}

// What is refunded after its windows have passed was never in the window before this one, and
// makes no room there: 10 at once, 10 more three minutes later, and none at the first instant after that.
func TestRestoreOfALongPastChangesNothing(t *testing.T) {
	for _, a := range algorithms[:2] {
		p := compile(t, limiter.Limit{Algorithm: a, Quota: 10, Window: minute})
		for name, m := range map[string]*limiter.Memory{"the memory": limiter.NewMemory(8, 1), "the token": nil} {
			f := limiter.Candidate{Key: 1}
			take := func(now time.Time, want bool) {
				tally, v := m.Take(now, p, &f, 10)
				require.Equal(t, want, v.Admitted, "%s, by %s", a, name)
				f.Shown = tally
			}
			take(midnight, true)
			take(midnight.Add(3*minute), true)
			next := midnight.Add(4 * minute)
			f.Shown = m.Restore(next, midnight, p, &f, 10)
			take(next, a == limiter.FixedWindow)
			f.Shown = m.Restore(next, midnight, p, &f, 10)
			take(next.Add(second), false)
		}
	}
}

// What is settled of many tallies at once is all in the count of the network that they share.
func TestSettledInParallel(t *testing.T) {
	const workers, rounds, quota = 8, 5000, 1 << 20
	m := limiter.NewMemory(8000, 1)
	p := compile(t, limiter.Limit{Quota: quota, Window: hour})
	wide := p.Scale(workers)
	kit.Together(workers, func(n int) {
		f := limiter.Candidate{Key: numbered(m, 'f', n), Networks: []limiter.Network{{Key: numbered(m, 'n', 0), Policy: wide}}}
		for range rounds {
			m.Record(opening, p, &f, 2)
			m.Restore(opening.Add(time.Second), opening, p, &f, 1)
		}
	})
	for n := range workers {
		require.EqualValues(t, quota-rounds, take(m, p, opening, numbered(m, 'f', n), 0).Limits[0].Remaining)
	}
	require.EqualValues(t, workers*(quota-rounds), take(m, wide, opening, numbered(m, 'n', 0), 0).Limits[0].Remaining)
}
