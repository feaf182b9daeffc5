// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var sink []byte

// Each player has as many turns as the others, in an order that changes, and what it does
// before and after them is not measured.
func TestPlayersTakeTurns(t *testing.T) {
	var order strings.Builder
	var busy [2]int // processors that a player had
	player := func(name string, cores int) Player {
		return Player{
			Name: name, Cores: cores,
			Before: func(n int) error { require.Equal(t, 7, n); sink = make([]byte, 1<<20); return nil },
			Run: func(n int) {
				require.Equal(t, 7, n)
				order.WriteString(name)
				busy[max(1, cores)-1] = runtime.GOMAXPROCS(0)
				for range n {
					sink = make([]byte, 1024)
				}
			},
			After: func(int) error { sink = make([]byte, 1<<20); return nil },
		}
	}
	processors, percent := runtime.GOMAXPROCS(2), debug.SetGCPercent(70)
	defer func() { runtime.GOMAXPROCS(processors); debug.SetGCPercent(percent) }()
	var out strings.Builder
	p := Plan{Kind: "Kind", Players: []Player{player("a", 0), player("b", 1), player("c", 2)}, Slice: 7, Groups: 50, Pace: 1 << 30}
	require.NoError(t, Measure(t.Context(), p, &out, io.Discard))

	require.Equal(t, 2, runtime.GOMAXPROCS(0), "as it was")
	require.Equal(t, 70, debug.SetGCPercent(70), "as it was")
	require.Equal(t, [2]int{1, 2}, busy)
	rounds := 50 * (leastRounds + 1)
	for _, name := range []string{"a", "b", "c"} {
		require.Equal(t, rounds, strings.Count(order.String(), name))
	}
	seen := map[string]bool{}
	for i := 0; i < order.Len(); i += 3 {
		round := order.String()[i : i+3]
		require.True(t, strings.Contains(round, "a") && strings.Contains(round, "b") && strings.Contains(round, "c"), round)
		seen[round] = true
	}
	require.Greater(t, len(seen), 1, "of 200 rounds not all have one order")

	for _, name := range []string{"a", "b", "c-2"} {
		require.Equal(t, 50, strings.Count(out.String(), fmt.Sprintf("BenchmarkKind/player=%s\t%d\t", name, 7*leastRounds)))
	}
	require.Equal(t, 50, strings.Count(out.String(), "BenchmarkCollector/of=Kind\t1\t"))
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "BenchmarkKind") {
			require.Regexp(t, `\t(102[4-9]|10[3-9][0-9]|1[1-9][0-9][0-9]) B/op\t[1-9]`, line, "a KiB an operation, and nothing of what is before and after")
		}
	}
}

func TestWhatIsWrongEndsIt(t *testing.T) {
	good := Player{Name: "good", Run: func(int) {}}
	wrong := errors.New("wrong")
	for _, p := range []Player{
		{Name: "x", Run: func(int) {}, After: func(int) error { return wrong }},
		{Name: "x", Run: func(int) { panic("not reached") }, Before: func(int) error { return wrong }},
	} {
		err := Measure(t.Context(), Plan{Kind: "K", Players: []Player{good, p}, Slice: 1, Groups: 1}, io.Discard, io.Discard)
		require.ErrorIs(t, err, wrong)
		require.ErrorContains(t, err, "x: ")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Measure(ctx, Plan{Kind: "K", Players: []Player{good}, Slice: 1, Groups: 1}, io.Discard, io.Discard), context.Canceled)
	require.ErrorContains(t, Measure(t.Context(), Plan{Kind: "K", Players: []Player{good}, Slice: 1, Groups: 1}, broken{}, io.Discard), "broken")
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

// A collection is charged to those that allocated, in whatever slice it ran, and nothing is
// lost: the means sum up to what was used.
func TestCollectionsAreSharedByBytes(t *testing.T) {
	const us = time.Microsecond
	s := func(cpu time.Duration, bytes uint64, collected bool) slice {
		return slice{cpu: cpu, bytes: bytes, collected: collected}
	}
	group := []record{
		{slices: []slice{s(100*us, 3000, false), s(102*us, 3000, false), s(101*us, 3000, false), s(101*us, 3000, false)}},
		{slices: []slice{s(50*us, 1000, false), s(50*us, 1000, false), s(90*us, 1000, true), s(50*us, 1000, false)}}, // had to collect for both
		{slices: []slice{s(10*us, 0, false), s(10*us, 0, false), s(10*us, 0, false), s(10*us, 0, true)}},
	}
	all, perByte := means(group)
	require.InDelta(t, 40_000.0/16_000, perByte, 1e-9)
	require.InDeltaSlice(t, []float64{101_000 + 7500, 50_000 + 2500, 10_000}, all, 1e-6)
	var sum, used float64
	for i, r := range group {
		sum += all[i] * float64(len(r.slices))
		for _, s := range r.slices {
			used += float64(s.cpu)
		}
	}
	require.InDelta(t, used, sum, 1e-6)

	// Where all slices were disturbed nothing can be told apart; the mean stands.
	all, perByte = means([]record{{slices: []slice{s(100*us, 1, true), s(50*us, 1, true)}}})
	require.Zero(t, perByte)
	require.InDeltaSlice(t, []float64{75_000}, all, 1e-6)

	// A collection that made nothing slower costs nothing, and is no gain.
	_, perByte = means([]record{{slices: []slice{s(100*us, 1, false), s(90*us, 1, true)}}})
	require.Zero(t, perByte)
}

// A collection that runs in a slice is noticed there.
func TestMeterNoticesCollections(t *testing.T) {
	m := newMeter()
	m.start()
	runtime.GC()
	require.True(t, m.stop().collected)

	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC()
	m.start()
	s := m.stop()
	require.False(t, s.collected)
	m.start()
	sink = make([]byte, 1<<20)
	s = m.stop()
	require.False(t, s.collected)
	require.GreaterOrEqual(t, s.bytes, uint64(1<<20))
}

// The collector comes after so many bytes, though the heap is many times as large: the
// percentage is that part of it. When a collection ends on a busy machine is another matter.
func TestPaceIsAPartOfTheHeap(t *testing.T) {
	heap := make([]byte, 64<<20)
	defer debug.SetGCPercent(pace(8 << 20))
	runtime.KeepAlive(heap)
	percent := debug.SetGCPercent(-1)
	require.GreaterOrEqual(t, percent, 10, "8 of 64 MiB and of what else there is")
	require.LessOrEqual(t, percent, 12)

	debug.SetGCPercent(40)
	require.Equal(t, 40, pace(1), "what it was")
	require.Equal(t, 1, debug.SetGCPercent(40), "less than a percent would be none")
}

func TestQuantile(t *testing.T) {
	all := []time.Duration{5, 3, 9, 1, 7, 2, 8, 4, 10, 6}
	require.Equal(t, []time.Duration{2, 6, 10, 1}, []time.Duration{quantile(all, 0.1), quantile(all, 0.5), quantile(all, 0.99), quantile(all, 0)})
	require.Equal(t, time.Duration(5), all[0], "in its order")
	require.Equal(t, time.Duration(3), quantile(all[1:2], 0.1))
}

func TestShareOfOthers(t *testing.T) {
	require.InDelta(t, 0.25, shareOf(time.Second, 4*time.Second), 1e-9)
	require.Zero(t, shareOf(-time.Millisecond, time.Second))
	require.Zero(t, shareOf(time.Second, 0))
}
