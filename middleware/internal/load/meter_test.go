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
		require.False(t, m.Busy(later.Add(time.Hour), at), "half of it makes no network busy")
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

func TestMeterAllocatesNothing(t *testing.T) {
	at, from := load.Threshold{PerSecond: 10, AtOnce: 10}, load.Source{Tally: 1, Client: 2, Network: 3}
	m := load.New()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		m.BusyFor(opening, at, from.Network)
		m.Admit(opening, at, from)
	}))
}

// counted is how many requests the meter has counted in one moment: each brings it one nearer to busy.
func counted(m *strangers, at load.Threshold) int64 {
	missing := int64(0)
	for ; !m.Busy(opening, at); missing++ {
		m.Admit(opening, at)
	}
	return 10*at.PerSecond + 1 - missing
}

// A client, and a tally wherever it is shown, counts for at most a sixteenth, and a network for a
// quarter.
func TestMeterCountsAPartOfEach(t *testing.T) {
	at := load.Threshold{PerSecond: 64}
	for name, row := range map[string]struct {
		from func(n uint64) load.Source
		want int64
	}{
		"one client":              {func(uint64) load.Source { return load.Source{Client: 1000, Network: 1000} }, 40},
		"one client, its tallies": {func(n uint64) load.Source { return load.Source{Tally: 1 + n%300, Client: 1000, Network: 1000} }, 40},
		"one tally":               {func(n uint64) load.Source { return load.Source{Tally: 1000, Client: n % 900, Network: n % 900} }, 40},
		"one network":             {func(n uint64) load.Source { return load.Source{Client: n % 900, Network: 1000} }, 160},
		"four clients of one":     {func(n uint64) load.Source { return load.Source{Client: 900 + n%4, Network: 1000} }, 160},
		"two networks":            {func(n uint64) load.Source { return load.Source{Client: n % 900, Network: 1000 + n%2} }, 320},
	} {
		t.Run(name, func(t *testing.T) {
			m := newStrangers()
			for n := range uint64(5000) {
				m.Meter.Admit(opening, at, row.from(n))
			}
			require.False(t, m.Busy(opening, at))
			require.Equal(t, row.want, counted(m, at))
		})
	}
}

// Whatever 16 clients send, whatever all clients of four networks do, and however they time it, they make no
// instance busy; nor do three clients their own network. 17 clients of five networks make the instance busy.
func TestMeterByHowMany(t *testing.T) {
	for name, row := range map[string]struct {
		clients, networks uint64
		busy, own         bool
	}{
		"one client":           {1, 1, false, false},
		"three of one network": {3, 1, false, false},
		"five of one network":  {5, 1, false, true},
		"a whole network":      {500, 1, false, true},
		"16 clients":           {16, 16, false, false},
		"four whole networks":  {500, 4, false, true},
		"17 in five networks":  {17, 5, true, false},
		"17 in one network":    {17, 1, false, true},
		"500 in five networks": {500, 5, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			busy, own := false, false
			for seed := range uint64(8) {
				rng := rand.New(rand.NewPCG(seed, 3))
				at := load.Threshold{PerSecond: []int64{16, 50, 64, 1000}[rng.IntN(4)]}
				m, now := load.New(), opening
				for range 200 {
					for n := range 2 * row.clients {
						for range at.PerSecond*2/int64(row.clients+3) + 1 {
							m.Admit(now, at, load.Source{Client: n % row.clients, Network: n % row.clients % row.networks})
						}
						own = own || !m.Busy(now, at) && m.BusyFor(now, at, 0)
					}
					busy = busy || m.Busy(now, at)
					now = now.Add(time.Duration(rng.Int64N(int64(time.Second))))
				}
			}
			require.Equal(t, row.busy, busy)
			require.Equal(t, row.own, own)
		})
	}
}

// What holds an instance busy: half the threshold, of 16 clients at least, in two networks at least.
func TestMeterIsHeldByHowMany(t *testing.T) {
	at := load.Threshold{PerSecond: 64}
	for name, row := range map[string]struct {
		clients, networks uint64
		holds             bool
	}{
		"one client": {1, 1, false}, "15 clients": {15, 15, false}, "18 of three networks": {18, 3, true},
		"two whole networks": {500, 2, false}, "strangers": {500, 500, true},
	} {
		t.Run(name, func(t *testing.T) {
			m, now := busyMeter(t, opening, at), opening
			for range 6000 {
				for n := range uint64(100) {
					m.Meter.Admit(now, at, load.Source{Client: n % row.clients, Network: n % row.clients % row.networks})
				}
				now = now.Add(100 * time.Millisecond)
			}
			require.Equal(t, row.holds, m.Busy(now, at))
		})
	}
}

// A network alone is busy from a quarter, for ten seconds at least, and does not flicker.
func TestMeterOfANetwork(t *testing.T) {
	at, m := load.Threshold{PerSecond: 40}, load.New()
	client := uint64(0)
	admit := func(now time.Time, n int) {
		for range n {
			client++
			m.Admit(now, at, load.Source{Client: client, Network: 7})
		}
	}
	admit(opening, 99)
	require.False(t, m.BusyFor(opening, at, 7))
	admit(opening, 1)
	require.True(t, m.BusyFor(opening, at, 7), "ten seconds' worth")
	require.False(t, m.BusyFor(opening, at, 8))
	require.True(t, m.BusyFor(opening.Add(10*time.Second-2), at, 7))
	require.False(t, m.BusyFor(opening.Add(10*time.Second), at, 7))

	now := opening.Add(time.Minute)
	admit(now, 100)
	for range 3000 { // three quarters of its part
		now = now.Add(133 * time.Millisecond)
		admit(now, 1)
		require.True(t, m.BusyFor(now, at, 7))
	}
	require.False(t, m.Busy(now, at))
}

// All that is admitted where instance and network are calm is bounded, in every span: of all together, but for what
// clients have beyond their part, and of each network.
func TestMeterBoundsWhatCalmNetworksAdmit(t *testing.T) {
	seeds := uint64(30)
	if kit.Brief() {
		seeds = 6
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 4))
		perSecond := []int64{1, 3, 16, 40}[rng.IntN(4)]
		networks := []uint64{1, 3, 6, 40, 900}[rng.IntN(5)]
		at, m, now := load.Threshold{PerSecond: perSecond}, load.New(), opening
		type admission struct {
			when    time.Time
			network uint64
			rushes  int64
		}
		var calm []admission
		rushes, was, client := int64(0), false, uint64(0)
		for range 1500 {
			if rng.IntN(3) == 0 {
				now = now.Add(time.Duration(rng.ExpFloat64() * float64(2*time.Second)))
			}
			for range rng.IntN(int(3*perSecond) + 2) {
				client++
				from := load.Source{Client: client, Network: rng.Uint64N(networks)}
				if busy := m.Busy(now, at); busy != was {
					if was = busy; busy {
						rushes++
					}
				}
				if m.BusyFor(now, at, from.Network) && rng.IntN(4) > 0 { // else it has a tally
					continue
				} else if !m.BusyFor(now, at, from.Network) {
					calm = append(calm, admission{now, from.Network, rushes})
				}
				m.Admit(now, at, from)
			}
		}
		require.NotEmpty(t, calm)
		for i := 0; i < len(calm); i += 1 + len(calm)/300 {
			first, all, by := calm[i], 0.0, map[uint64]float64{}
			for _, last := range calm[i:] {
				all++
				by[last.network]++
				most := float64(perSecond) * (last.when.Sub(first.when).Seconds() + 10)
				if all > most+float64(last.rushes-first.rushes)+1+1e-6 {
					require.Failf(t, "too many", "seed %d: %v admitted while calm, %v", seed, all, most)
				}
				if by[last.network] > most/4+1+1e-6 {
					require.Failf(t, "too many", "seed %d: %v admitted of a network, %v", seed, by[last.network], most/4)
				}
			}
		}
	}
}

// Requests under way: a client has a sixteenth, a network a quarter, and no count is left behind.
func TestMeterOfPartsUnderWay(t *testing.T) {
	at := load.Threshold{AtOnce: 200}
	m := newStrangers()
	var ends []func()
	begin := func(n int, from func(i uint64) load.Source) {
		for i := range n {
			if end := m.Meter.Begin(at, from(uint64(i))); end != nil {
				ends = append(ends, end)
			}
		}
	}
	missing := func() (n int64) { // until it is busy
		for ; !m.Busy(opening, at); n++ {
			m.Begin(at)
		}
		for range n {
			m.End()
		}
		require.False(t, m.Busy(opening.Add(time.Hour), load.Threshold{AtOnce: 1000}))
		return n
	}
	require.EqualValues(t, 200, missing())
	for name, row := range map[string]struct {
		from func(i uint64) load.Source
		want int64
	}{
		"one client":  {func(uint64) load.Source { return load.Source{Client: 900, Network: 900} }, 12},
		"one tally":   {func(i uint64) load.Source { return load.Source{Tally: 901, Client: 400 + i%300, Network: 400 + i%300} }, 12},
		"one network": {func(i uint64) load.Source { return load.Source{Client: 400 + i%300, Network: 902} }, 49},
	} {
		m, ends = newStrangers(), nil
		begin(1000, row.from)
		require.Equal(t, 200-row.want, missing(), name)
		require.Equal(t, name == "one network", m.BusyFor(opening.Add(time.Hour), at, 902), name)
		at = load.Threshold{AtOnce: 7} // it may change meanwhile
		for _, end := range ends {
			end()
		}
		at = load.Threshold{AtOnce: 200}
		require.EqualValues(t, 200, missing(), name)
		require.False(t, m.BusyFor(opening.Add(2*time.Hour), at, 902), name)
	}
}

// Any number of goroutines, sources and thresholds: whatever has begun has ended.
func TestMeterPartsAreSafeForConcurrentUse(t *testing.T) {
	m := load.New()
	kit.Together(8, func(worker int) {
		rng := rand.New(rand.NewPCG(uint64(worker), 5))
		for i := range 300 {
			at := load.Threshold{PerSecond: 1 + rng.Int64N(50), AtOnce: 1 + rng.Int64N(300)}
			from := load.Source{Tally: rng.Uint64N(3), Client: rng.Uint64N(20), Network: rng.Uint64N(5)}
			now := opening.Add(time.Duration(i) * 10 * time.Millisecond)
			end := m.Begin(at, from)
			m.BusyFor(now, at, from.Network)
			m.Admit(now, at, from)
			if end != nil {
				end()
			}
		}
	})
	later := opening.Add(time.Hour)
	require.False(t, m.Busy(later, load.Threshold{AtOnce: 1}), "no request is left behind")
	for network := range uint64(5) {
		require.False(t, m.BusyFor(later, load.Threshold{AtOnce: 1}, network), fmt.Sprint(network))
	}
}
