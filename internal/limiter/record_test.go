// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

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

// A debtor is the oracle of a bucket whose costs are settled: one number, of one clock. It
// shares no arithmetic with the package.
type debtor struct{ interval, burst, window, owes, at int64 }

func (d *debtor) wait(now int64) { d.owes, d.at = max(0, d.owes-(now-d.at)), now }

func (d *debtor) take(cost int64) bool {
	if d.owes+cost*d.interval > d.burst*d.interval {
		return false
	}
	d.owes += cost * d.interval
	return true
}

func (d *debtor) settle(more int64) {
	d.owes = max(d.owes, min(d.owes+more*d.interval, 2*d.burst*d.interval+d.window))
}

func (d *debtor) refund(cost, age int64) { d.owes -= min(d.owes, max(0, cost*d.interval-age)) }

// TestSettledByOneArithmetic: a tally that is shown again, a memory that is shown nothing, and a
// network owe what the definition says after each decision, settlement and refund; under a
// policy and under all that is made of one.
func TestSettledByOneArithmetic(t *testing.T) {
	for name, l := range map[string]limiter.Limit{
		"a burst":    {Algorithm: limiter.TokenBucket, Quota: 60, Window: minute, Burst: 10},
		"a day":      {Algorithm: limiter.TokenBucket, Quota: 1000, Window: day, Burst: 100},
		"burst of 1": {Algorithm: limiter.TokenBucket, Quota: 7, Window: 10 * second, Burst: 1},
		"long burst": {Algorithm: limiter.TokenBucket, Quota: 6, Window: second, Burst: 300},
		"a meter":    {Algorithm: limiter.LeakyBucket, Quota: 7, Window: 10 * second},
	} {
		whole := compile(t, l)
		policies := map[string]*limiter.Policy{
			"whole": whole, "network": whole.Scale(8), "part": whole.Share(3), "pass": whole.Pass(hour),
		}
		for of, p := range policies {
			var known time.Duration // a pass of another length may owe as much
			if of == "pass" && l.Window > hour {
				known = l.Window
			}
			t.Run(name+"/"+of, func(t *testing.T) {
				each(t, 2, func(t *testing.T, r *rand.Rand) { settleAtRandom(t, r, p, l.Window, known) })
			})
		}
	}
}

func settleAtRandom(t *testing.T, r *rand.Rand, p *limiter.Policy, window, known time.Duration) {
	one, _ := p.Step(midnight, limiter.Tally{}, 1) // of a pass the quota does not say the interval
	d := debtor{one[0].At - midnight.UnixMicro(), p.Capacity(), window.Microseconds(), 0, midnight.UnixMicro()}
	full := d.burst * d.interval
	silent, wide := limiter.NewMemory(1, 1), limiter.NewMemory(1, 1)
	var tally limiter.Tally
	now, overdrawn := midnight, 0
	for range 300 {
		if r.IntN(2) == 0 {
			now = now.Add(time.Duration(r.Int64N(full/2+d.interval)) * tick)
		}
		us := now.UnixMicro()
		d.wait(us)
		cost, more := 1+r.Int64N(d.burst), [...]int64{r.Int64N(3), r.Int64N(2 * d.burst), 1 << 22}[r.IntN(3)]
		age := r.Int64N(2 * d.interval)
		admitted := true
		var do func(*limiter.Memory, *limiter.Candidate) (limiter.Tally, bool)
		switch r.IntN(4) {
		case 0, 1:
			admitted = d.take(cost)
			do = func(m *limiter.Memory, f *limiter.Candidate) (limiter.Tally, bool) {
				tally, v := m.Take(now, p, f, cost)
				return tally, v.Admitted
			}
		case 2:
			d.settle(more)
			do = func(m *limiter.Memory, f *limiter.Candidate) (limiter.Tally, bool) {
				return m.Record(now, p, f, more), true
			}
		default:
			d.refund(cost, age)
			do = func(m *limiter.Memory, f *limiter.Candidate) (limiter.Tally, bool) {
				return m.Restore(now, now.Add(-time.Duration(age)*tick), p, f, cost), true
			}
		}
		for who, f := range map[*limiter.Memory]*limiter.Candidate{
			nil: {Shown: tally}, silent: {Key: 1}, wide: {Key: 1, Networks: []limiter.Network{{Key: 9, Policy: p}}},
		} {
			after, passed := do(who, f)
			require.Equal(t, admitted, passed)
			require.Equal(t, d.owes, max(0, after[0].At-us))
			require.Equal(t, max(0, d.owes-max(full, known.Microseconds())+999_999)/1_000_000, int64(after[0].Cur), "what it says of that")
			if who == nil {
				tally = after
				continue
			}
			key := limiter.Key(1)
			if who == wide {
				key = 9
			}
			v := who.Peek(now, p, &limiter.Candidate{Key: key}, 1)
			if wait := d.owes + d.interval - full; wait > 0 {
				require.Equal(t, time.Duration((wait+999_999)/1_000_000)*second, v.Wait, "the debt is waited for")
			}
			require.Equal(t, max(0, full-d.owes)/d.interval, v.Limits[0].Remaining)
		}
		if d.owes > full {
			overdrawn++
		}
	}
	require.Greater(t, overdrawn, 20, "the workload owes more than its burst")
}

// TestOverdraftAndWrongClocks: beyond the skew a difference of clocks is no debt. A client that
// owes something waits for that: once, if the instance is told by its token alone, and not at
// all if the instance knows it and not the debt. Where the one clock there is has stepped back,
// it waits for no more than twice what it owes. What owes nothing waits as it does without.
func TestOverdraftAndWrongClocks(t *testing.T) {
	for _, l := range []limiter.Limit{
		{Algorithm: limiter.TokenBucket, Quota: 60, Window: minute, Burst: 10},
		{Algorithm: limiter.LeakyBucket, Quota: 60, Window: minute},
	} {
		p := compile(t, l)
		full := p.Capacity()
		for _, over := range []int64{0, 1, 30, 1000} {
			owes := time.Duration(min(over, full+60)) * second
			for _, ahead := range []time.Duration{0, second, 5 * second, 5*second + tick, minute, hour, 100 * day} {
				clock := time.Duration(0) // that is debt
				if ahead <= 5*second {
					clock = ahead
				}
				spend := func(m *limiter.Memory) *echoer {
					c := &echoer{p: p}
					now := midnight.Add(ahead)
					spent, v := m.Take(now, p, &limiter.Candidate{Key: 1}, full)
					require.True(t, v.Admitted)
					c.holds = m.Record(now, p, &limiter.Candidate{Key: 1, Shown: spent}, over)
					return c
				}
				for _, echo := range []bool{true, false} {
					fast, stranger, friend := limiter.NewMemory(1, 1), limiter.NewMemory(1, 1), limiter.NewMemory(1, 1)
					c := spend(fast)
					require.True(t, take(friend, p, midnight.Add(-minute), 1, 1).Admitted) // and paid since
					take(friend, p, midnight, 1, 0)
					if !echo {
						c.holds, c.deaf = limiter.Tally{}, true
					}
					twin, stepped := *c, *c
					told := time.Duration(0)
					if echo {
						told = second + clock + owes
					}
					require.Equal(t, told, c.refusedFor(t, stranger, midnight), "%s %d, %s ahead, echo %v", l.Algorithm, over, ahead, echo)
					if ahead > 5*second { // what it has from there is its own
						told = 0
					}
					require.Equal(t, told, twin.refusedFor(t, friend, midnight), "%s %d, %s ahead, echo %v", l.Algorithm, over, ahead, echo)
					back := stepped.refusedFor(t, fast, midnight)
					require.GreaterOrEqual(t, back, second+owes)
					require.LessOrEqual(t, back, 6*second+2*owes+time.Duration(full)*second)
					if over == 0 {
						require.Equal(t, second+clock, back)
					}
				}
			}
		}
	}
}

// TestOverdraftUnderAnotherBurst: a burst that is lowered while something is owed forgives the
// burst, and not what was settled above it; a larger one pays for it at once.
func TestOverdraftUnderAnotherBurst(t *testing.T) {
	bucket := func(burst int64) *limiter.Policy {
		return compile(t, limiter.Limit{Name: "b", Algorithm: limiter.TokenBucket, Quota: 60, Window: minute, Burst: burst})
	}
	small, p, large := bucket(10), bucket(100), bucket(1000)
	m := limiter.NewMemory(1, 1)
	f := limiter.Candidate{Key: 1}
	m.Record(midnight, p, &f, 130)
	f.Shown = m.Record(midnight, p, &f, 0)
	require.Equal(t, limiter.State{At: midnight.Add(130 * second).UnixMicro(), Cur: 30}, f.Shown[0])

	_, v := large.Step(midnight, f.Shown, 870)
	require.True(t, v.Admitted, "of 1000")
	v = m.Peek(midnight, large, &limiter.Candidate{Key: 1}, 871)
	require.Equal(t, second, v.Wait)

	held, v := small.Step(midnight, f.Shown, 1)
	require.Equal(t, limiter.State{At: midnight.Add(40 * second).UnixMicro(), Cur: 30}, held[0])
	require.Equal(t, 31*second, v.Wait, "the token tells them apart")
	require.True(t, small.Exceeds(midnight, held, f.Shown), "which is news")
	v = take(m, small, midnight, 1, 1)
	require.Equal(t, 71*second, v.Wait, "a memory holds it to what it can owe in all")
	v = take(m, p, midnight, 1, 1)
	require.Zero(t, v.Wait, "and has written that down")

	// Of two tiers the larger one's debt is no overdraft, and the smaller one's limit is its own.
	tiers := tiersOf(bucket(10), bucket(1000))
	tally := (*limiter.Memory)(nil).Record(midnight, tiers[0], &limiter.Candidate{}, 1<<40)
	require.Equal(t, limiter.State{At: midnight.Add(80 * second).UnixMicro()}, tally[0])
	tally = (*limiter.Memory)(nil).Record(midnight, tiers[1], &limiter.Candidate{Shown: tally}, 1<<40)
	require.Equal(t, limiter.State{At: midnight.Add(2060 * second).UnixMicro(), Cur: 1060}, tally[0])
	again := (*limiter.Memory)(nil).Record(midnight, tiers[0], &limiter.Candidate{Shown: tally}, 5)
	require.Equal(t, tally, again, "the smaller one neither adds to it nor takes of it")
}

// TestOverdraftIsNoClaim: more than a bucket can be owed in all is not believed, whatever a
// token says of it; and nothing but a settlement makes one.
func TestOverdraftIsNoClaim(t *testing.T) {
	p := compile(t, limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 60, Window: minute, Burst: 10})
	for _, cur := range []uint32{71, 1 << 20, 1<<32 - 1} {
		shown := limiter.Tally{{At: midnight.Add(hour).UnixMicro(), Cur: cur, Prev: cur}}
		held, v := p.Step(midnight, shown, 1)
		require.Equal(t, limiter.State{At: midnight.Add(80 * second).UnixMicro(), Cur: 70}, held[0])
		require.Equal(t, 71*second, v.Wait)
	}
	// An instance that is behind by the skew takes no debt for an overdraft.
	spent, _ := p.Step(midnight.Add(5*second), limiter.Tally{}, 10)
	held, _ := p.Step(midnight, spent, 0)
	require.Equal(t, limiter.State{At: midnight.Add(15 * second).UnixMicro()}, held[0])
	// Of two tokens, the mark and the overdraft both come from the one that owes.
	owing := (*limiter.Memory)(nil).Record(midnight, p, &limiter.Candidate{}, 40)
	wrong := limiter.Tally{{At: midnight.Add(hour).UnixMicro()}}
	for _, shown := range []limiter.Tally{p.Merge(midnight, owing, wrong), p.Merge(midnight, wrong, owing)} {
		held, _ = p.Step(midnight, shown, 0)
		require.Equal(t, owing, held)
	}
}

// TestOverdraftInAFullMemory: a client that lost a cell with an overdraft begins with no less.
func TestOverdraftInAFullMemory(t *testing.T) {
	p := compile(t, limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 60, Window: minute, Burst: 10})
	m := limiter.NewMemory(1, 1)
	for n := range 40 {
		m.Record(midnight, p, &limiter.Candidate{Key: stranger(m, n)}, int64(30+n))
	}
	for n := range 40 {
		require.GreaterOrEqual(t, take(m, p, midnight, stranger(m, n), 1).Wait, time.Duration(21+n)*second, n)
	}
	newcomer := take(m, p, midnight, stranger(m, 1000), 1)
	require.LessOrEqual(t, newcomer.Wait, 71*second, "nor more than can be owed")
	require.Positive(t, newcomer.Inherited)

	// It is kept for as long as it takes: no such cell is a wrong clock's.
	slow := compile(t, limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 1, Window: hour, Burst: 100})
	m = limiter.NewMemory(1, 1)
	for n := range 40 {
		m.Record(midnight, slow, &limiter.Candidate{Key: stranger(m, n)}, 1<<40)
	}
	require.Equal(t, 102*hour, take(m, slow, midnight, stranger(m, 0), 1).Wait)

	// Where that was of a larger bucket, a smaller one may have been owed all it can.
	large := compile(t, limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 60, Window: minute, Burst: 1000})
	m = limiter.NewMemory(1, 1)
	for n := range 40 {
		m.Record(midnight, large, &limiter.Candidate{Key: stranger(m, n)}, 1<<40)
	}
	require.Equal(t, 71*second, take(m, p, midnight, stranger(m, 1000), 1).Wait)
}

// TestOverdraftIsTakenBack: of what is recorded a part may be lost, so that no more than a burst
// comes back; else what others owe would. And no tally lives longer than its policy says.
func TestOverdraftIsTakenBack(t *testing.T) {
	p := compile(t, limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 60, Window: minute, Burst: 10})
	m, f := limiter.NewMemory(1, 1), limiter.Candidate{Key: 1}
	for _, now := range []time.Time{midnight, midnight.Add(minute - second)} {
		tally := m.Record(now, p, &f, 1<<40)
		require.LessOrEqual(t, time.Unix(p.Expires(&tally), 0).Sub(now), p.Life())
		tally = m.Restore(now, now, p, &f, 1<<40)
		require.Equal(t, now.Add(70*second).UnixMicro(), tally[0].At)
		tally = m.Restore(now, now, p, &f, 3)
		require.Equal(t, now.Add(67*second).UnixMicro(), tally[0].At)
	}
}
