// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// each is a counter in nothing, that fails from so many calls on.
func each(name string, calls *atomic.Int64, failsFrom int64, err error) Counter {
	return Counter{Name: name, Open: func(string) (*Opened, error) {
		return &Opened{Close: func() error { return nil }, Take: func(string) (bool, error) {
			if n := calls.Add(1); failsFrom > 0 && n >= failsFrom {
				return false, err
			}
			return true, nil
		}}, nil
	}}
}

func TestMeasure(t *testing.T) {
	var a, b atomic.Int64
	var out strings.Builder
	p := Plan{Counters: []Counter{each("a", &a, 0, nil), each("b/c", &b, 0, nil)}, Keys: 10, Callers: []int{1, 3}, Rounds: 2, For: 1, Dir: t.TempDir()}
	require.NoError(t, Measure(t.Context(), p, &out, io.Discard))
	for _, want := range []string{
		"BenchmarkCounterKey/counter=a\t10\t",
		"BenchmarkCounter/counter=a/keys=1/callers=1\t",
		"BenchmarkCounter/counter=b:c/keys=10/callers=3\t",
		"BenchmarkAppend\t", "BenchmarkAsking\t",
	} {
		require.Contains(t, out.String(), want)
	}
	require.Equal(t, 2*2*2*2, strings.Count(out.String(), "BenchmarkCounter/"), "loads, counters, rounds")
	require.Greater(t, a.Load(), int64(11), "each key once, and the slices")
}

// A counter that fails, or refuses, is not measured at all: whether one caller asks or
// all do.
func TestFailuresAreNotMeasured(t *testing.T) {
	broken := errors.New("broken")
	for _, fails := range []int64{1, 5, 20, 30} {
		for _, callers := range [][]int{{1}, {16}} {
			var n atomic.Int64
			p := Plan{Counters: []Counter{each("x", &n, fails, broken)}, Keys: 10, Callers: callers, Rounds: 1, For: 1, Dir: t.TempDir()}
			require.ErrorIs(t, Measure(t.Context(), p, io.Discard, io.Discard), broken)
		}
	}
	var n atomic.Int64
	p := Plan{Counters: []Counter{each("x", &n, 3, nil)}, Keys: 10, Callers: []int{1}, Rounds: 1, For: 1, Dir: t.TempDir()}
	require.ErrorContains(t, Measure(t.Context(), p, io.Discard, io.Discard), "passed is false")
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var n atomic.Int64
	p := Plan{Counters: []Counter{each("x", &n, 0, nil)}, Keys: 10, Callers: []int{1}, Rounds: 1, For: time.Hour, Dir: t.TempDir()}
	require.ErrorIs(t, Measure(ctx, p, io.Discard, io.Discard), context.Canceled)
}

// The time of a round is shared by its slices.
func TestShareOut(t *testing.T) {
	r := rotation{all: make([]*seated, 12), loads: make([]load, 6)}
	r.shareOut(time.Minute)
	slices := r.slice * 7 / 6 * 12 * 6
	require.InDelta(t, time.Minute, slices+2*r.slice+6*rest, float64(time.Second))
	r.shareOut(-time.Minute)
	require.Equal(t, 5*time.Millisecond, r.slice)
}

func TestHistogram(t *testing.T) {
	h := new(histogram)
	require.Zero(t, h.quantile(0.5))
	for i := range 10_000 {
		h.add(time.Duration(i+1) * time.Microsecond)
	}
	require.InEpsilon(t, 5*time.Millisecond, h.quantile(0.5), 0.02)
	require.InEpsilon(t, 9900*time.Microsecond, h.quantile(0.99), 0.02)
	for _, d := range []time.Duration{0, 1, 63, 64, 65, 127, 128, time.Second, time.Hour} {
		m := middle(bucketOf(d))
		require.InDelta(t, d, m, max(1, float64(d)/60), d)
		require.Equal(t, bucketOf(d), bucketOf(m), "the middle is in the bucket")
	}
	require.Less(t, bucketOf(time.Hour), len(h.buckets))
	h.add(1 << 62)
	h.add(-time.Second)
	require.EqualValues(t, 10_002, h.n)
}

// lazyServer is one that is not scheduled for a while: its processor time stands still for
// some readings.
type lazyServer struct{ readings int }

func (s *lazyServer) CPU() (time.Duration, error) {
	s.readings--
	return time.Millisecond * time.Duration(max(1, 1-s.readings)), nil
}

func (s *lazyServer) Bytes() (int64, error) { return 0, nil }

// A server that was not scheduled in a slice has no figure then: the slice lasts until it was.
func TestSliceLastsUntilTheServerWasScheduled(t *testing.T) {
	for _, readings := range []int{0, 1, 2, 3, 10} {
		synctest.Test(t, func(t *testing.T) {
			server := &lazyServer{readings}
			o := &Opened{Server: server, Take: func(string) (bool, error) {
				time.Sleep(time.Millisecond)
				return true, nil
			}}
			s, err := load{[]string{"hot"}, 1}.slice(o, 10*time.Millisecond)
			require.NoError(t, err)
			require.Positive(t, s.server, "%d readings", readings)
			require.Positive(t, s.n)
		})
	}
}
