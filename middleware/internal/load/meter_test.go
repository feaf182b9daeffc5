// SPDX-License-Identifier: Apache-2.0

package load_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/internal/load"
	"github.com/tallystick/tallystick/proof/kit"
)

var opening = time.Unix(19800*86400, 0)

// Strangers are a meter to which each request comes from another client of another network. No
// two of 1,024 that are under way share a hash, and so none takes the part of another.
type strangers struct {
	*load.Meter
	admitted, begun atomic.Uint64
	mu              sync.Mutex
	ends            []func() // of what is under way
}

func newStrangers() *strangers { return &strangers{Meter: load.New()} }

func another(n *atomic.Uint64) load.Source {
	number := n.Add(1)
	return load.Source{Client: number, Network: number}
}

func (c *strangers) Admit(now time.Time, at load.Threshold) {
	c.Meter.Admit(now, at, another(&c.admitted))
}

func (c *strangers) Begin(at load.Threshold) {
	end := c.Meter.Begin(at, another(&c.begun))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = append(c.ends, end)
}

func (c *strangers) End() {
	c.mu.Lock()
	end := c.ends[0]
	c.ends = c.ends[1:]
	c.mu.Unlock()
	end()
}

// steadily admits perSecond requests a second, evenly, until the answer changes, and returns how
// long that took. It is not ok if it took an hour.
func steadily(m *strangers, from time.Time, at load.Threshold, perSecond float64) (changed time.Duration, ok bool) {
	began := m.Busy(from, at)
	each := time.Duration(float64(time.Second) / perSecond)
	for after := each; after < time.Hour; after += each {
		if m.Busy(from.Add(after), at) != began {
			return after, true
		}
		m.Admit(from.Add(after), at)
	}
	return 0, false
}

// After how long a steady rate makes an instance busy, and calm again.
func TestMeterAtASteadyRate(t *testing.T) {
	at := load.Threshold{PerSecond: 20}
	for _, row := range []struct {
		rate       float64 // of the threshold
		busy, calm time.Duration
	}{
		{0.01, 0, 10 * time.Second},
		{0.25, 0, 20 * time.Second},
		{0.4, 0, 50 * time.Second},
		{0.45, 0, 100 * time.Second},
		{0.5, 0, 0},
		{0.75, 0, 0},
		{1, 0, 0},
		{1.1, 100 * time.Second, 0},
		{2, 10 * time.Second, 0},
		{11, time.Second, 0},
		{101, 100 * time.Millisecond, 0},
	} {
		t.Run(fmt.Sprint(row.rate), func(t *testing.T) {
			m := newStrangers()
			after, changed := steadily(m, opening, at, 20*row.rate)
			require.Equal(t, row.busy > 0, changed)
			require.InDelta(t, row.busy.Seconds(), after.Seconds(), 1)

			busy := busyMeter(t, opening, at)
			after, changed = steadily(busy, opening, at, 20*row.rate)
			require.Equal(t, row.calm > 0, changed)
			require.InDelta(t, row.calm.Seconds(), after.Seconds(), 5)
		})
	}
}

// busyMeter is one that has become busy just now.
func busyMeter(t testing.TB, now time.Time, at load.Threshold) *strangers {
	m := newStrangers()
	for range 10*at.PerSecond + 1 {
		require.False(t, m.Busy(now, at))
		m.Admit(now, at)
	}
	require.True(t, m.Busy(now, at), "ten seconds' worth, and one")
	return m
}

// A rate that does not divide a second is busy no request too late, and a thousandth early
// at most.
func TestMeterIsNotRoundedUp(t *testing.T) {
	for _, perSecond := range []int64{1, 3, 7, 999, 99_991, 333_331} {
		m := newStrangers()
		at, n := load.Threshold{PerSecond: perSecond}, int64(0)
		for ; !m.Busy(opening, at); n++ {
			m.Admit(opening, at)
		}
		require.LessOrEqual(t, n, 10*perSecond+1, "%d a second", perSecond)
		require.GreaterOrEqual(t, n, 10*perSecond-perSecond/100, "%d a second", perSecond)
	}
}

// Whether an instance is busy depends on what was admitted in all spans that have ended: a
// list of them, counted one by one, says the same.
func TestMeterAgainstAList(t *testing.T) {
	seeds, rushes := uint64(40), 0
	if kit.Brief() {
		seeds = 12
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		perSecond := []int64{1, 2, 5, 20, 50}[rng.IntN(5)]
		at := load.Threshold{PerSecond: perSecond}
		m := newStrangers()
		list, now := spells{perSecond: perSecond}, opening
		pace := 1.0
		for range 1500 {
			if rng.IntN(100) == 0 {
				pace = []float64{0.3, 0.45, 0.55, 0.9, 1.2, 3, 30}[rng.IntN(7)]
			}
			mean := float64(time.Second) / (pace * float64(perSecond))
			now = now.Add(time.Duration(rng.ExpFloat64()*mean/1000) * time.Microsecond)
			was := list.busy
			require.Equal(t, list.at(now), m.Busy(now, at), "seed %d, %v", seed, now.Sub(opening))
			list.admit(now)
			m.Admit(now, at)
			require.Equal(t, list.at(now), m.Busy(now, at), "seed %d, %v", seed, now.Sub(opening))
			if list.busy && !was {
				rushes++
			}
		}
	}
	require.Greater(t, rushes, int(seeds), "the test has something to see")
}

// Spells are the calm and busy ones of an instance, in the plainest words.
type spells struct {
	perSecond int64
	busy      bool
	since     time.Time   // of this spell
	admitted  []time.Time // in it
}

// admit counts a request.
func (s *spells) admit(now time.Time) {
	s.admitted = append(s.admitted, now)
	if s.busy {
		return
	}
	for i, first := range s.admitted { // the span from each to now
		span := now.Sub(first) + 10*time.Second
		if int64(len(s.admitted)-i)*int64(time.Second) > s.perSecond*int64(span) {
			*s = spells{s.perSecond, true, now, nil}
			return
		}
	}
}

// at tells whether the instance is busy: not if in the span from some request of this spell, or
// from its begin, that lasted at least ten seconds, half the rate was not reached.
func (s *spells) at(now time.Time) bool {
	if !s.busy {
		return false
	}
	for i, from := range append([]time.Time{s.since}, s.admitted...) {
		span := now.Sub(from) - 10*time.Second
		if after := int64(len(s.admitted) - i); 2*after*int64(time.Second) <= s.perSecond*int64(span) {
			*s = spells{perSecond: s.perSecond}
			return false
		}
	}
	return true
}

// All that calm spells admit, in any span, is the rate and ten seconds' worth, and one for each
// time that the instance was busy: however the requests are timed. A flood that stops as it
// gets busy, and comes again as it is calm, gains nothing by that.
func TestMeterBoundsWhatCalmSpellsAdmit(t *testing.T) {
	seeds := uint64(40)
	if kit.Brief() {
		seeds = 8
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 2))
		perSecond := []int64{1, 3, 7, 40}[rng.IntN(4)]
		at := load.Threshold{PerSecond: perSecond}
		m := newStrangers()
		type admission struct {
			when   time.Time
			rushes int64 // until then
		}
		var calm []admission
		now, rushes, was := opening, int64(0), time.Time{}
		for len(calm) < 1200 {
			switch {
			case m.Busy(now, at):
				now = now.Add(time.Duration(rng.IntN(3000)) * time.Millisecond)
				if rng.IntN(4) == 0 {
					m.Admit(now, at) // a holder of a tally
				}
				continue
			case rng.IntN(3) == 0: // it waits, and comes in bursts
				now = now.Add(time.Duration(rng.ExpFloat64() * 3 * float64(time.Second)))
			}
			for range rng.IntN(int(10 * perSecond)) {
				if m.Busy(now, at) {
					break
				}
				m.Admit(now, at)
				calm = append(calm, admission{now, rushes})
			}
			if m.Busy(now, at) {
				rushes++
				if !was.IsZero() {
					require.GreaterOrEqual(t, now.Sub(was), 10*time.Second, "seed %d: no sooner busy again", seed)
				}
				was = now
			}
		}
		require.Positive(t, rushes, "seed %d", seed)
		for i, first := range calm {
			for j, last := range calm[i:] {
				most := float64(perSecond)*(last.when.Sub(first.when).Seconds()+10) + float64(last.rushes-first.rushes) + 1
				if float64(j+1) > most+1e-6 {
					require.Failf(t, "too many", "seed %d: %d admitted while calm in %v", seed, j+1, last.when.Sub(first.when))
				}
			}
		}
	}
}

// Requests under way: busy from AtOnce, and until fewer than half are, ten seconds at least.
func TestMeterOfRequestsUnderWay(t *testing.T) {
	for _, at := range []load.Threshold{{AtOnce: 6}, {AtOnce: 6, PerSecond: 1_000_000}, {AtOnce: 5}} {
		m := newStrangers()
		live := int64(0)
		to := func(n int64) {
			for ; live < n; live++ {
				m.Begin(at)
			}
			for ; live > n; live-- {
				m.End()
			}
		}
		to(at.AtOnce - 1)
		require.False(t, m.Busy(opening, at))
		to(at.AtOnce)
		require.True(t, m.Busy(opening, at))
		to(0)
		require.True(t, m.Busy(opening.Add(10*time.Second-2), at), "ten seconds at least")
		require.False(t, m.Busy(opening.Add(10*time.Second), at))

		later := opening.Add(time.Minute)
		to(at.AtOnce)
		require.True(t, m.Busy(later, at))
		to((at.AtOnce + 1) / 2)
		require.True(t, m.Busy(later.Add(time.Hour), at), "half of it is too many")
		to((at.AtOnce+1)/2 - 1)
		require.False(t, m.Busy(later.Add(time.Hour), at))
		to(at.AtOnce - 1)
		require.False(t, m.Busy(later.Add(time.Hour), at), "half of it makes nobody busy")
		to(0)
	}
}

// Both must be below half before an instance is calm.
func TestMeterOfBoth(t *testing.T) {
	at := load.Threshold{PerSecond: 10, AtOnce: 4}
	m := busyMeter(t, opening, at)
	m.Begin(at)
	m.Begin(at)
	require.True(t, m.Busy(opening.Add(time.Hour), at))
	m.End()
	require.False(t, m.Busy(opening.Add(time.Hour), at))

	for range 3 {
		m.Begin(at)
	}
	require.True(t, m.Busy(opening.Add(time.Hour), at))
	for range 4 {
		m.End()
	}
	after, changed := steadily(m, opening.Add(time.Hour), at, 6)
	require.False(t, changed, "after %v", after)
}

// A threshold may change at any time: what was admitted counts on.
func TestMeterWhenTheThresholdChanges(t *testing.T) {
	low, high := load.Threshold{PerSecond: 2}, load.Threshold{PerSecond: 2000}
	m := busyMeter(t, opening, low)
	require.True(t, m.Busy(opening, high), "it stays busy")
	require.False(t, m.Busy(opening.Add(10*time.Second), high), "and no longer than that takes")

	calm := newStrangers()
	for range 10_000 {
		calm.Admit(opening, high)
	}
	require.False(t, calm.Busy(opening, low))
	for range 10 {
		calm.Admit(opening, low)
	}
	require.False(t, calm.Busy(opening, low), "it was half full")
	calm.Admit(opening, low)
	require.True(t, calm.Busy(opening, low))
	require.True(t, calm.Busy(opening, load.Threshold{AtOnce: 5}))
}

// A clock that is set back or forward leaves an instance busy, or calm, for ten seconds too long at
// most, also where nothing is admitted and only readers ask.
func TestMeterWhenTheClockIsSet(t *testing.T) {
	at := load.Threshold{PerSecond: 10}
	for _, step := range []time.Duration{-100 * 365 * 24 * time.Hour, -time.Hour, -11 * time.Second, -5 * time.Second, -time.Millisecond, time.Millisecond, time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			now := opening.Add(step)
			busy := busyMeter(t, opening, at)
			require.Equal(t, step < 10*time.Second, busy.Busy(now, at))
			require.False(t, busy.Busy(now.Add(10*time.Second), at))

			calm := newStrangers()
			for range 50 {
				calm.Admit(opening, at)
			}
			require.False(t, calm.Busy(now, at))
			calm.Admit(now, at)
			require.Equal(t, step <= -5*time.Second, calm.Busy(now, at), "a full bucket runs over")
			require.False(t, calm.Busy(now.Add(10*time.Second), at))
			after, changed := steadily(calm, now.Add(10*time.Second), at, 20)
			require.True(t, changed)
			require.InDelta(t, 10, after.Seconds(), 1, "as if nothing had been")
		})
	}
}

// Any number of goroutines count to the request.
func TestMeterIsSafeForConcurrentUse(t *testing.T) {
	const workers, each = 8, 100
	at := load.Threshold{PerSecond: workers * each / 10, AtOnce: workers + 1}
	m := newStrangers()
	kit.Together(workers, func(_ int) {
		for range each {
			m.Begin(at)
			m.Busy(opening, at)
			m.Admit(opening, at)
			m.End()
		}
	})
	require.False(t, m.Busy(opening, at), "ten seconds' worth")
	m.Admit(opening, at)
	require.True(t, m.Busy(opening, at), "and one")
	require.False(t, m.Busy(opening.Add(10*time.Second), load.Threshold{AtOnce: 1}), "nobody is left behind")
}

func TestMeterAllocatesNothing(t *testing.T) {
	at, from := load.Threshold{PerSecond: 10, AtOnce: 10}, load.Source{Tally: 1, Client: 2, Network: 3}
	m := load.New()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		m.BusyFor(opening, at, from.Network)
		m.Admit(opening, at, from)
	}))
}
