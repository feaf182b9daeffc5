// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
)

// A clock that steps back, NTP's correction or a resumed machine, hands out no
// fresh quota, and locks no client out until the clock is there again.
func TestClockStepsBack(t *testing.T) {
	for _, a := range algorithms {
		for _, window := range []time.Duration{second, 10 * second, minute, hour, day} {
			for _, back := range []time.Duration{second, 30 * second, hour, 25 * hour, 400 * day} {
				t.Run(a.String()+"/"+window.String()+"/"+back.String(), func(t *testing.T) {
					const quota = 6
					p := compile(t, limiter.Limit{Algorithm: a, Quota: quota, Window: window})
					m := limiter.NewMemory(1, 1)
					before := midnight.Add(window / 3)
					require.Equal(t, p.Capacity(), drain(m, p, before, limiter.Candidate{Key: 1}))
					spent, _ := p.Step(before, limiter.Tally{}, p.Capacity())

					now := before.Add(-back)
					require.Zero(t, drain(m, p, now, limiter.Candidate{Key: 1}), "no fresh quota")
					require.Zero(t, drain(m, p, now, limiter.Candidate{Key: 1, Shown: spent}), "nor with the old token")

					v := take(m, p, now, 1, 1)
					require.LessOrEqual(t, v.Wait, 2*window+second, "and the wait is one of the new clock")
					require.True(t, take(m, p, now.Add(v.Wait), 1, 1).Admitted, "which is true")
					require.Equal(t, p.Capacity(), take(m, p, now.Add(v.Wait+2*window+second), 1, 0).Limits[0].Remaining,
						"two windows later all is as it was")
				})
			}
		}
	}
}

// Of two windows that the memory holds, the fuller one counts after a step back:
// it may be the one that the clock comes to again.
func TestClockStepsBackIntoTheFullerWindow(t *testing.T) {
	p := compile(t, limiter.Limit{Quota: 5, Window: minute})
	for _, row := range []struct{ first, second int64 }{{5, 1}, {1, 4}, {3, 3}} {
		m := limiter.NewMemory(1, 1)
		require.True(t, take(m, p, midnight, 1, row.first).Admitted)
		require.True(t, take(m, p, midnight.Add(2*minute-tick), 1, row.second).Admitted)
		left := take(m, p, midnight.Add(30*second), 1, 0).Limits[0].Remaining
		require.Equal(t, 5-max(row.first, row.second), left, "%+v", row)
	}
}

// Looking again and again at a memory whose clock stepped back must not carry
// the count along with the clock.
func TestClockStepsBackUnderLoad(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			p := compile(t, limiter.Limit{Algorithm: a, Quota: 10, Window: minute})
			m := limiter.NewMemory(1, 1)
			drain(m, p, midnight, limiter.Candidate{Key: 1})
			now := midnight.Add(-hour)
			admitted := int64(0)
			for end := now.Add(2 * minute); now.Before(end); now = now.Add(second) {
				admitted += drain(m, p, now, limiter.Candidate{Key: 1})
			}
			require.Greater(t, admitted, int64(5), "clients that ask every second recover")
			require.LessOrEqual(t, admitted, int64(2*10), "and get no more than two windows' worth")
		})
	}
}

// However the clock wanders within a memory's life, the tally gets a quota for
// each window that the clock enters going forward, and none for going back.
func TestClockWanders(t *testing.T) {
	for _, a := range []limiter.Algorithm{limiter.SlidingWindow, limiter.FixedWindow} {
		t.Run(a.String(), func(t *testing.T) {
			each(t, 8, func(t *testing.T, r *rand.Rand) {
				const quota, window = 5, 10
				p := compile(t, limiter.Limit{Algorithm: a, Quota: quota, Window: window * second})
				m := limiter.NewMemory(1, 1)
				now, entered, admitted := midnight, int64(1), int64(0)
				for range 200 {
					next := now.Add(time.Duration(r.Int64N(int64(2 * second))))
					if r.IntN(10) == 0 {
						next = now.Add(-time.Duration(r.Int64N(int64(window * 3 * second))))
					}
					entered += max(0, next.Unix()/window-now.Unix()/window)
					now = next
					admitted += drain(m, p, now, limiter.Candidate{Key: 1})
					require.LessOrEqual(t, admitted, quota*entered)
				}
				require.Greater(t, admitted, int64(10), "the workload admits")
			})
		})
	}
}

// A tier of a smaller bucket that looks at the same tally is no clock that
// stepped back: what the larger one is owed stays owed.
func TestSmallerTierForgivesNothing(t *testing.T) {
	bucket := func(burst int64) *limiter.Policy {
		return compile(t, limiter.Limit{Name: "b", Algorithm: limiter.TokenBucket, Quota: 60, Window: minute, Burst: burst})
	}
	tiers := tiersOf(bucket(1000), bucket(1))
	large, small := tiers[0], tiers[1]
	m := limiter.NewMemory(1, 1)
	admitted := int64(0)
	for range 20 {
		admitted += drain(m, large, midnight, limiter.Candidate{Key: 1})
		require.False(t, take(m, small, midnight, 1, 1).Admitted)
		take(m, small, midnight, 1, 0)
	}
	require.Equal(t, int64(1000), admitted)

	// And a real step back is told apart, by whichever tier looks first: the debt
	// is then the debt of the spent bucket that it was, and no less.
	v := take(m, small, midnight.Add(-hour), 1, 1)
	require.Equal(t, 1000*second, v.Wait)
	require.Zero(t, drain(m, large, midnight.Add(-hour), limiter.Candidate{Key: 1}), "the small tier has forgiven nothing")

	// A client of the small tier owes what that can be owed, whatever the large one.
	take(m, small, midnight, 2, 1)
	require.LessOrEqual(t, take(m, small, midnight.Add(-hour), 2, 1).Wait, 2*second)
}

// An instance whose clock is three seconds behind is shown a token of the next
// window: the window before weighs in full there, and no more than that.
func TestAWindowAheadIsAtItsBeginning(t *testing.T) {
	p := compile(t, limiter.Limit{Quota: 100, Window: time.Minute})
	before, _ := p.Step(opening.Add(59*time.Second), limiter.Tally{}, 60)
	ahead, _ := p.Step(opening.Add(time.Minute), before, 10)
	_, v := p.Step(opening.Add(57*time.Second), ahead, 0)
	require.EqualValues(t, 100-60-10, v.Limits[0].Remaining)
}

// What a clock has counted that is ahead by more than is allowed tells so, by as much as lies before its
// window, and nothing that a clock within the skew has counted does.
func TestAhead(t *testing.T) {
	p := compile(t,
		limiter.Limit{Name: "minute", Quota: 100, Window: minute},
		limiter.Limit{Name: "day", Algorithm: limiter.FixedWindow, Quota: 100, Window: day},
		limiter.Limit{Name: "bucket", Algorithm: limiter.TokenBucket, Quota: 100, Window: day, Burst: 100})
	rnd := rand.New(rand.NewPCG(20, 26))
	for range 3000 {
		now := midnight.Add(time.Duration(rnd.Int64N(int64(2 * day))))
		fast := time.Duration(rnd.Int64N(int64(3*minute))) - minute
		if rnd.IntN(4) == 0 {
			fast *= 1000
		}
		counted, v := p.Step(now.Add(fast), limiter.Tally{}, 90) // a bucket that owes nearly a day
		require.True(t, v.Admitted)
		start := now.Add(fast).Truncate(minute)
		want := start.Sub(now.Truncate(tick))
		if want <= 5*second {
			want = 0
		}
		require.Equal(t, want, p.Ahead(now, &counted), "%v by a clock that is %v ahead", now, fast)
	}
	pass := p.Pass(hour)
	counted, _ := pass.Step(midnight.Add(2*minute), limiter.Tally{}, 1)
	require.Equal(t, 2*minute, pass.Ahead(midnight, &counted))
	require.Positive(t, p.Ahead(midnight, &limiter.Tally{{At: math.MaxInt64}}), "and no time that has overflowed")
	for _, at := range []int64{math.MaxInt64, math.MinInt64, -1} {
		require.NotPanics(t, func() { p.Ahead(midnight, &limiter.Tally{{At: at}, {At: at}, {At: at}}) })
		require.GreaterOrEqual(t, p.Ahead(midnight, &limiter.Tally{{At: at}}), time.Duration(0))
	}
}

// A client that spends a large tier's burst and shows that to a fresh instance in a small
// tier does not get a fresh bucket there.
func TestDebtOfALargerTierIsOwed(t *testing.T) {
	bucket := func(quota, burst int64) *limiter.Policy {
		p := compile(t, limiter.Limit{Algorithm: limiter.TokenBucket, Quota: quota, Burst: burst, Window: 10 * time.Second})
		return p
	}
	now := time.Unix(1_800_000_000, 0)
	tiers := tiersOf(bucket(2, 8), bucket(10, 1))
	spent, v := tiers[0].Step(now, limiter.Tally{}, 8)
	require.True(t, v.Admitted)
	_, v = tiers[1].Step(now, spent, 1)
	require.False(t, v.Admitted)
	require.Equal(t, 40*time.Second, v.Wait)
}

// An echoer is an honest client: it shows the newest tally it was given, by an
// admission, or by a refusal that had news for it.
type echoer struct {
	p     *limiter.Policy
	holds limiter.Tally
	deaf  bool // takes no tally from refusals
}

func (c *echoer) ask(m *limiter.Memory, now time.Time) limiter.Verdict {
	t, v := m.Take(now, c.p, &limiter.Candidate{Key: 1, Shown: c.holds}, 1)
	if v.Admitted || !c.deaf && c.p.Exceeds(now, t, c.holds) {
		c.holds = t
	}
	return v
}

// refusedFor asks once a second until something is admitted.
func (c *echoer) refusedFor(t *testing.T, m *limiter.Memory, now time.Time) time.Duration {
	for from := now; ; now = now.Add(second) {
		if c.ask(m, now).Admitted {
			return now.Sub(from)
		}
		require.Less(t, now.Sub(from), 2*hour, "locked out")
	}
}

// After a step back no client waits longer than a spent bucket needs: not a client
// that echoes the mark of the clock that was wrong, even one that takes nothing
// from refusals, and to whatever instance it goes.
func TestStepBackForEchoers(t *testing.T) {
	for _, row := range []struct {
		limit limiter.Limit
		wait  time.Duration // of one unit, in whole seconds
	}{
		{limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 5, Window: second}, second},
		{limiter.Limit{Algorithm: limiter.LeakyBucket, Quota: 5, Window: second}, second},
		{limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 60, Window: minute}, second},
		{limiter.Limit{Algorithm: limiter.LeakyBucket, Quota: 12, Window: minute}, 5 * second},
		{limiter.Limit{Quota: 5, Window: minute}, 0},
		{limiter.Limit{Algorithm: limiter.FixedWindow, Quota: 5, Window: minute}, 0},
	} {
		for _, back := range []time.Duration{10 * minute, 50 * minute, 2 * hour} {
			for name, place := range map[string]struct{ same, memory, deaf bool }{
				"one instance": {same: true, memory: true},
				"one instance, a client deaf to refusals":       {same: true, memory: true, deaf: true},
				"one without a memory":                          {},
				"another whose clock is right":                  {memory: true},
				"another, to a client that is deaf to refusals": {memory: true, deaf: true},
			} {
				t.Run(row.limit.Algorithm.String()+"/"+row.limit.Window.String()+"/"+back.String()+"/"+name, func(t *testing.T) {
					c := &echoer{p: compile(t, row.limit), deaf: place.deaf}
					var m *limiter.Memory
					if place.memory {
						m = limiter.NewMemory(1, 1)
					}
					require.True(t, c.ask(m, midnight).Admitted)
					if place.memory && !place.same {
						m = limiter.NewMemory(1, 1)
					}
					require.LessOrEqual(t, c.refusedFor(t, m, midnight.Add(-back)), row.wait)
				})
			}
		}
	}
}

// A client at a fifth of its limit that goes to and fro between an instance whose
// clock is right and one that is far ahead waits once, for as long as a spent bucket
// makes it wait; and one that drops what it is given fares no better.
func TestOneFastInstance(t *testing.T) {
	for _, ahead := range []time.Duration{10 * minute, 55 * minute, 2 * hour} {
		for _, l := range []limiter.Limit{
			{Algorithm: limiter.TokenBucket, Quota: 60, Window: minute},
			{Algorithm: limiter.TokenBucket, Quota: 5, Window: second},
			{Algorithm: limiter.LeakyBucket, Quota: 12, Window: minute},
			{Quota: 60, Window: minute},
		} {
			t.Run(l.Algorithm.String()+"/"+l.Window.String()+"/"+ahead.String(), func(t *testing.T) {
				c := &echoer{p: compile(t, l)}
				right, fast := limiter.NewMemory(1, 1), limiter.NewMemory(1, 1)
				refused := 0
				for n := range 200 {
					now := midnight.Add(time.Duration(n) * 5 * l.Window / time.Duration(l.Quota))
					m := right
					if n%2 == 0 {
						m, now = fast, now.Add(ahead)
					}
					if v := c.ask(m, now); !v.Admitted {
						refused++
						require.LessOrEqual(t, v.Wait, 5*second)
					}
				}
				require.LessOrEqual(t, refused, 1)
			})
		}
	}
}

// Whatever the clocks say and whatever is shown, each memory admits no more than the
// limit, by its own clock.
func TestBoundsWhateverTheClocks(t *testing.T) {
	for name, policies := range tracePolicies(t) {
		t.Run(name, func(t *testing.T) {
			each(t, 8, func(t *testing.T, r *rand.Rand) {
				f := newFleet(r, 1+r.IntN(4), 0)
				for _, in := range f.instances { // a little, and by far
					in.skew = time.Duration(spread(r, 0, int64(2*hour/tick))) * tick
				}
				now := midnight
				for range 600 {
					if r.IntN(60) == 0 {
						f.restart(r.IntN(len(f.instances)))
					}
					now = now.Add(time.Duration(r.Int64N(int64(300 * time.Millisecond))))
					p, i := policies[r.IntN(len(policies))], r.IntN(len(f.instances))
					f.ask(i, p, now, f.anything(r, p, now.Add(f.instances[i].skew)), spread(r, 0, p.Capacity()))
				}
				require.Greater(t, len(f.history), 20, "the workload admits")
				for i := range policies[0].Len() {
					f.requireBounds(t, policies, i)
				}
			})
		})
	}
}

// Where nothing is remembered the token is all there is: a clock that steps back
// hands out no burst to a client that echoes; neither does a burst that was lowered
// while the memory was lost.
func TestStepBackWithoutAMemory(t *testing.T) {
	p := compile(t, limiter.Limit{Name: "b", Algorithm: limiter.TokenBucket, Quota: 60, Window: minute})
	lower := compile(t, limiter.Limit{Name: "b", Algorithm: limiter.TokenBucket, Quota: 60, Window: minute, Burst: 10})
	for _, then := range []*limiter.Policy{p, lower} {
		for _, back := range []time.Duration{0, second, 10 * second, hour, 100 * day} {
			c := &echoer{p: p}
			for range 60 {
				require.True(t, c.ask(nil, midnight).Admitted)
			}
			c.p = then
			admitted, now := 0, midnight.Add(-back)
			for range 300 {
				if c.ask(nil, now).Admitted {
					admitted++
				}
				now = now.Add(second / 10)
			}
			require.LessOrEqual(t, admitted, 30, "%s back: what has leaked out in half a minute", back)
		}
	}
}

// Where the tally is known, a mark from a wrong clock is worth as much as none: to
// echo is no worse than to drop, and no better.
func TestEchoingIsAsGoodAsDropping(t *testing.T) {
	p := compile(t, limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 60, Window: minute, Burst: 10})
	each(t, 4, func(t *testing.T, r *rand.Rand) {
		for range 200 {
			echoes, drops := limiter.NewMemory(1, 1), limiter.NewMemory(1, 1)
			now := midnight
			require.True(t, take(echoes, p, now, 1, 1).Admitted && take(drops, p, now, 1, 1).Admitted)
			for range 20 {
				now = now.Add(time.Duration(r.Int64N(int64(2 * second))))
				wrong := func() limiter.Tally { return limiter.Tally{{At: now.UnixMicro() + spread(r, 15_000_001, 1<<45)}} }
				shown := p.Merge(now, wrong(), wrong()) // by header and cookie, perhaps
				cost := spread(r, 0, 10)
				t1, v1 := echoes.Take(now, p, &limiter.Candidate{Key: 1, Shown: shown}, cost)
				t2, v2 := drops.Take(now, p, &limiter.Candidate{Key: 1}, cost)
				require.Equal(t, t2, t1)
				require.Equal(t, v2, v1)
				require.Equal(t, drops.Peek(now, p, &limiter.Candidate{Key: 1}, 1), echoes.Peek(now, p, &limiter.Candidate{Key: 1, Shown: shown}, 1))
			}
		}
	})
}

// A tally that the memory does not know is not let off: showing such a mark, it owes
// what can be owed, and has it remembered, whatever it shows next.
func TestAWrongMarkIsRemembered(t *testing.T) {
	p := compile(t, limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 60, Window: minute, Burst: 10})
	wrong := limiter.Candidate{Key: 1, Shown: limiter.Tally{{At: midnight.Add(hour).UnixMicro()}}}
	for name, look := range map[string]func(m *limiter.Memory) limiter.Verdict{
		"take": func(m *limiter.Memory) limiter.Verdict {
			_, v := m.Take(midnight, p, &wrong, 1)
			return v
		},
		"peek": func(m *limiter.Memory) limiter.Verdict { return m.Peek(midnight, p, &wrong, 1) },
	} {
		m := limiter.NewMemory(1, 1)
		v := look(m)
		require.False(t, v.Admitted, name)
		require.Equal(t, second, v.Wait, name)
		require.Zero(t, drain(m, p, midnight, limiter.Candidate{Key: 1}), "%s: to drop the token does not help now", name)
		require.Equal(t, int64(4), drain(m, p, midnight.Add(4*second), wrong), "%s: time passes", name)
		require.Equal(t, int64(10), drain(m, p, midnight.Add(20*second), wrong), "%s: until all is as it was", name)
	}
	m := limiter.NewMemory(1, 1)
	m.Key(nil)
	tally := m.Record(midnight, p, &wrong, 1)
	require.Equal(t, limiter.State{At: midnight.Add(11 * second).UnixMicro(), Cur: 1}, tally[0])
}

// A large tier's debt outlives a visit in a small one, also where a clock went wrong.
func TestDebtOutlivesAVisitAndAClock(t *testing.T) {
	bucket := func(burst int64) *limiter.Policy {
		return compile(t, limiter.Limit{Name: "b", Algorithm: limiter.TokenBucket, Quota: 60, Window: minute, Burst: burst})
	}
	tiers := tiersOf(bucket(1), bucket(1000), bucket(20))
	small, large := tiers[0], tiers[1]
	for _, ahead := range []time.Duration{0, 5 * second, 5*second + tick, minute, hour, 100 * day} {
		spent, v := large.Step(midnight.Add(ahead), limiter.Tally{}, 1000)
		require.True(t, v.Admitted)
		for _, m := range []*limiter.Memory{nil, limiter.NewMemory(1, 1)} {
			f := limiter.Candidate{Key: 1, Shown: spent}
			visit, v := m.Take(midnight, small, &f, 1)
			require.False(t, v.Admitted)
			require.GreaterOrEqual(t, visit[0].At, midnight.Add(1000*second).UnixMicro(), "%s ahead", ahead)
			f.Shown = visit
			_, v = m.Take(midnight, large, &f, 1)
			require.False(t, v.Admitted, "%s ahead", ahead)
		}
	}
	// Without the large bucket no client can owe this much.
	alone := bucket(20)
	spent, _ := large.Step(midnight, limiter.Tally{}, 1000)
	held, v := alone.Step(midnight, spent, 1)
	require.Equal(t, midnight.Add(20*second).UnixMicro(), held[0].At)
	require.Equal(t, second, v.Wait)

	require.Panics(t, func() { alone.WithTiers(compile(t, limiter.Limit{Quota: 1, Window: minute})) })
	require.Equal(t, alone.Limit(0), alone.WithTiers(large).Limit(0), "quota and burst stay its own")
	held, _ = bucket(1).WithTiers(bucket(20).WithTiers(bucket(1000))).Step(midnight, spent, 0)
	require.Equal(t, spent, held, "what a tier has been told it passes on")
	alone.WithTiers(large)
	held, _ = alone.Step(midnight, spent, 1)
	require.Equal(t, midnight.Add(20*second).UnixMicro(), held[0].At, "and a policy is immutable")
}

// The sentence of the documentation, word by word: after a step back every client,
// whether it echoes or not, is back to normal within two windows and the skew of its
// next request; of a bucket, within the time in which it empties, and the skew.
func TestBackToNormal(t *testing.T) {
	for _, a := range algorithms {
		for _, window := range []time.Duration{second, 10 * second, minute, hour} {
			for _, back := range []time.Duration{0, second, 5 * second, 30 * second, 2 * minute, hour, 25 * hour, 400 * day} {
				for _, echo := range []bool{true, false} {
					p := compile(t, limiter.Limit{Algorithm: a, Quota: 6, Window: window})
					normal := 2*window + min(5*second, window/10)
					if isBucket(a) {
						most, _ := lapse(p, 0)
						normal = time.Duration(most) * tick
					}
					m, c := limiter.NewMemory(1, 1), &echoer{p: p}
					now := midnight.Add(window / 3)
					for c.ask(m, now).Admitted {
					}
					now = now.Add(-back)
					if !echo {
						c = &echoer{p: p, deaf: true}
					}
					require.False(t, c.ask(m, now).Admitted)
					left := m.Peek(now.Add(normal), p, &limiter.Candidate{Key: 1, Shown: c.holds}, 0).Limits[0].Remaining
					require.Equal(t, p.Capacity(), left, "%s, %s, %s back, echo %v", a, window, back, echo)
				}
			}
		}
	}
}

// Cells that were written while the clock was far ahead would be taken until
// that day. They are not, once the clock is right again.
func TestWrongClockIsReclaimed(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			p := compile(t, limiter.Limit{Algorithm: a, Quota: 6, Window: minute})
			for _, off := range []time.Duration{2 * day, 20 * 365 * day} {
				m := limiter.NewMemory(1, 1)
				for n := range 100 {
					take(m, p, midnight.Add(off), stranger(m, n), 1)
				}
				newcomers, _ := m.Inherited()
				require.Positive(t, newcomers, "the workload fills the memory")
				candidate := limiter.Candidate{Key: stranger(m, 1000)}
				require.Equal(t, p.Capacity(), drain(m, p, midnight, candidate))
				require.Zero(t, drain(m, p, midnight, candidate), "off by %v: remembered at once", off)
			}
		})
	}
}

// Neither a clock before 1970 nor one after 2106, where the cells' 32 bits end,
// makes a decision panic or leaves a lock behind.
func TestAbsurdClocks(t *testing.T) {
	for _, a := range algorithms {
		p := compile(t, limiter.Limit{Algorithm: a, Quota: 6, Window: minute})
		m := limiter.NewMemory(1, 1)
		for _, now := range []time.Time{{}, time.Unix(-1, 0), time.Unix(0, 0), time.Unix(1<<32, 0), time.Unix(1<<33, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
			for range 10 {
				require.NotPanics(t, func() { take(m, p, now, 1, 1) }, "%s %v", a, now)
			}
			if now.Before(midnight) {
				require.False(t, take(m, p, now, 1, 1).Admitted, "%s %v: a clock that was never set still counts", a, now)
			}
		}
		last := time.Unix(1<<32, 0).Add(-time.Hour)
		require.Equal(t, p.Capacity(), drain(m, p, last, limiter.Candidate{Key: 2}), "%s: until 2106", a)
	}
}
