// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
)

// The numbers that the documentation of limiter.Memory states.
func TestFormula(t *testing.T) {
	const tallies = limiter.DefaultClients
	require.InEpsilon(t, 2.6e-8, full(mean(tallies, tallies)), 0.05)
	require.InEpsilon(t, 0.8e-2, full(mean(tallies, 3*tallies)), 0.05)
	require.InDelta(t, 1, full(mean(tallies, 100*tallies)), 1e-9)
	require.Zero(t, full(0))
	require.Zero(t, taken(0))
	require.LessOrEqual(t, taken(1000), 16.0/tags)
	require.InEpsilon(t, 16.0/tags, taken(1000), 1e-6)

	sum, average := 0.0, 0.0
	for k := range 100 {
		sum += poisson(5, k)
		average += float64(k) * poisson(5, k)
	}
	require.InDelta(t, 1, sum, 1e-12)
	require.InDelta(t, 5, average, 1e-9)
	// Both branches of full meet.
	require.InEpsilon(t, full(setSize), full(math.Nextafter(setSize, 100)), 1e-9)
}

// strays returns by how many probes r misses the formula, beyond what chance
// does: six standard deviations, and a handful where next to none is expected.
func strays(r Room) float64 {
	return math.Abs(float64(r.Refused)-r.Expected) - 6*r.Sigma()*float64(r.Probes) - 8
}

func TestRoomFollowsTheFormula(t *testing.T) {
	for _, live := range []int{100, 2000, 4000, 8000, 50_000} {
		r := MeasureRoom(1000, live, 2000)
		require.LessOrEqual(t, strays(r), 0.0, "%+v: measured %g, predicted %g", r, r.Measured(), r.Predicted())
	}
}

// A memory with a third less cells than it says must not pass for a good one.
func TestStraysTells(t *testing.T) {
	r := MeasureRoom(1000, 4000, 10_000)
	r.Tallies = 1500
	r.Expected = float64(r.Probes) * over(mean(1500, 4040))
	require.Positive(t, strays(r))
}

func TestNobodyIsMistaken(t *testing.T) {
	m := MeasureMistaken(1000, 8000, 200_000)
	require.Equal(t, 200_000, m.Looks)
	require.Less(t, m.Expected, 1e-3)
	require.Zero(t, m.Hits)
}

func TestFloodLowersNoCount(t *testing.T) {
	f := MeasureFlood(1000, 100, 50_000)
	f.Raised = 0 // whose cell was taken begins with the floor
	require.Equal(t, Flood{Tallies: 1000, Victims: 100, Strangers: 50_000}, f)
}

func TestParallelRequestsAreCountedExactly(t *testing.T) {
	for _, goroutines := range []int{1, 3, 64} {
		p := MeasureParallel(goroutines, 1000)
		require.Equal(t, 1000, p.Admitted)
		require.GreaterOrEqual(t, p.Requests, 4000)
	}
}

func TestScaling(t *testing.T) {
	for _, s := range MeasureScaling(10, time.Millisecond, 2) {
		require.Positive(t, s.Processors)
		require.Positive(t, s.Nanos.Center)
		require.LessOrEqual(t, s.Nanos.Lo, s.Nanos.Hi)
	}
}
