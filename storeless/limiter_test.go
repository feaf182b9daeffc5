// SPDX-License-Identifier: Apache-2.0

package storeless_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

var noon = time.Unix(1_700_000_000, 0)

func fiveAMinute(t *testing.T) *storeless.Limiter {
	l := kit.Must(storeless.New(storeless.Config{
		Policy: "jobs", Limits: []storeless.Limit{{Quota: 5, Window: time.Minute}}, MaxClients: 64,
	}))(t)
	return l
}

func TestTakeCountsWhatIsShownAndWhatIsRemembered(t *testing.T) {
	here, there := fiveAMinute(t), fiveAMinute(t)
	tally, v := here.Take(noon, "alice", storeless.Tally{}, 3)
	require.True(t, v.Admitted)
	require.EqualValues(t, 2, v.Limits[0].Remaining)

	t.Run("remembered", func(t *testing.T) {
		_, v := here.Take(noon, "alice", storeless.Tally{}, 3)
		require.False(t, v.Admitted, "to drop a tally gains nothing")
		require.False(t, v.Impossible)
		require.Positive(t, v.Wait)
		require.True(t, v.Limits[0].Blocked)
	})
	t.Run("shown", func(t *testing.T) {
		require.False(t, there.Peek(noon, "alice", tally, 3).Admitted)
		require.True(t, there.Peek(noon, "alice", storeless.Tally{}, 3).Admitted)
		_, v := there.Take(noon, "alice", tally, 3)
		require.False(t, v.Admitted, "a tally counts where nothing is remembered")
	})
	t.Run("another identity", func(t *testing.T) {
		_, v := here.Take(noon, "bob", storeless.Tally{}, 5)
		require.True(t, v.Admitted)
	})
	t.Run("a peek charges nothing", func(t *testing.T) {
		for range 3 {
			v := here.Peek(noon, "alice", tally, 2)
			require.True(t, v.Admitted)
			require.EqualValues(t, 2, v.Limits[0].Remaining)
		}
	})
	t.Run("never", func(t *testing.T) {
		_, v := here.Take(noon, "carol", storeless.Tally{}, 6)
		require.False(t, v.Admitted)
		require.True(t, v.Impossible)
		require.Zero(t, v.Wait)
	})
}

func TestRefundGivesBackOnce(t *testing.T) {
	l := fiveAMinute(t)
	tally, _ := l.Take(noon, "alice", storeless.Tally{}, 5)
	tally = l.Refund(noon.Add(time.Second), noon, "alice", tally, 2)
	require.EqualValues(t, 3, tally[0].Cur)
	_, v := l.Take(noon.Add(time.Second), "alice", tally, 3)
	require.False(t, v.Admitted)
	_, v = l.Take(noon.Add(time.Second), "alice", tally, 2)
	require.True(t, v.Admitted)

	// What was charged two windows ago counts no more, and cannot come back.
	tally, _ = l.Take(noon.Add(2*time.Minute), "alice", storeless.Tally{}, 5)
	tally = l.Refund(noon.Add(2*time.Minute), noon, "alice", tally, 5)
	require.EqualValues(t, 5, tally[0].Cur)
}

func TestNegativeCostsPanic(t *testing.T) {
	l := fiveAMinute(t)
	require.Panics(t, func() { l.Take(noon, "alice", storeless.Tally{}, -1) })
	require.Panics(t, func() { l.Peek(noon, "alice", storeless.Tally{}, -1) })
	require.Panics(t, func() { l.Refund(noon, noon, "alice", storeless.Tally{}, -1) })
}

// Each limit counts its own cost, in one decision: that middleware does the same, a test of package token says.
func TestACostForEachLimit(t *testing.T) {
	l := kit.Must(storeless.New(storeless.Config{Policy: "model", Limits: []storeless.Limit{
		{Name: "requests", Quota: 3, Window: time.Minute}, {Name: "tokens", Quota: 100, Window: time.Minute},
	}}))(t)
	left := func(v storeless.Verdict) [2]int64 { return [2]int64{v.Limits[0].Remaining, v.Limits[1].Remaining} }
	tally, v := l.Take(noon, "alice", storeless.Tally{}, 1, 80)
	require.True(t, v.Admitted)
	require.Equal(t, [2]int64{2, 20}, left(v))
	_, v = l.Take(noon, "alice", tally, 1, 21)
	require.False(t, v.Admitted || v.Impossible)
	require.True(t, v.Limits[1].Blocked && !v.Limits[0].Blocked)
	require.Equal(t, [2]int64{2, 20}, left(v), "none is charged")
	tally = l.Refund(noon, noon, "alice", tally, 0, 30)
	require.Equal(t, [2]int64{2, 50}, left(l.Peek(noon, "alice", tally, 0)))
	require.True(t, l.Peek(noon, "alice", tally, 2, 50).Admitted)
	require.False(t, l.Peek(noon, "alice", tally, 3, 0).Admitted)
	require.True(t, l.Peek(noon, "alice", tally, 0, 101).Impossible)
	tally, _ = l.Take(noon, "alice", tally, 2)
	require.Equal(t, [2]int64{0, 48}, left(l.Peek(noon, "alice", tally, 0, 0)), "one cost is the cost of all")
	for _, costs := range [][]int64{nil, {1, 2, 3}, {1, -1}} {
		require.Panics(t, func() { l.Take(noon, "alice", tally, costs...) })
		require.Panics(t, func() { l.Peek(noon, "alice", tally, costs...) })
		require.Panics(t, func() { l.Refund(noon, noon, "alice", tally, costs...) })
	}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		tally, _ = l.Take(noon, "alice", tally, 1, 80)
		l.Refund(noon, noon, "alice", tally, 0, 1)
	}))
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, err := storeless.New(storeless.Config{
		Policy:     "No Name",
		Limits:     []storeless.Limit{{Quota: 0, Window: time.Minute}, {Quota: 1, Window: time.Hour, Algorithm: storeless.SlidingLog}},
		MaxClients: 1<<24 + 1,
	})
	var fields []string
	for problem := range storeless.ConfigErrors(err) {
		fields = append(fields, problem.Field)
	}
	require.Equal(t, []string{"Policy", "Limits[0].Quota", "Limits[1].Algorithm", "MaxClients"}, fields)
	var first *storeless.ConfigError
	require.True(t, errors.As(err, &first))
	require.Equal(t, "Policy: must be 1 to 32 of a-z, 0-9 and -", first.Error())
	_, err = storeless.New(storeless.Config{Policy: "jobs", Limits: []storeless.Limit{{Quota: 1, Window: time.Minute}}, MaxClients: -1})
	require.ErrorContains(t, err, "MaxClients")
}

// The algorithms have the same numbers as in the engine, which names them.
func TestAlgorithmsAreThoseOfTheEngine(t *testing.T) {
	require.Equal(t, "sliding-window fixed-window token-bucket leaky-bucket sliding-log rolling-day Algorithm(6)", fmt.Sprint(
		storeless.SlidingWindow, " ", storeless.FixedWindow, " ", storeless.TokenBucket, " ", storeless.LeakyBucket, " ",
		storeless.SlidingLog, " ", storeless.RollingDay, " ", storeless.Algorithm(6)))
}

// A decision leaves nothing for the garbage collector.
func TestAllocations(t *testing.T) {
	l, now, tally := fiveAMinute(t), noon, storeless.Tally{}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		now = now.Add(time.Second)
		shown, _ := l.Take(now, "a tenant of some name", tally, 1)
		l.Peek(now, "a tenant of some name", shown, 1)
		tally = l.Refund(now, now, "a tenant of some name", shown, 1)
	}))
}

func BenchmarkTake(b *testing.B) {
	l := kit.Must(storeless.New(storeless.Config{Policy: "jobs", Limits: []storeless.Limit{{Quota: 1 << 30, Window: time.Minute}}}))(b)
	var tally storeless.Tally
	for b.Loop() {
		tally, _ = l.Take(noon, "acme", tally, 1)
	}
}
