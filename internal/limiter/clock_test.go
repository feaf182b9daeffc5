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

// A clock that steps back, NTP's correction or a resumed machine, hands out no fresh quota,
// and locks no client out until the clock is there again. The sentence of the documentation,
// word by word: after a step back every client, whether it echoes or not, is back to normal
// within two windows and the skew of its next request; of a bucket, within the time in which
// it empties, and the skew.
func TestBackToNormal(t *testing.T) {
	for _, a := range algorithms {
		for _, window := range []time.Duration{second, 10 * second, minute, hour, day} {
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
					require.False(t, c.ask(m, now).Admitted, "no fresh quota")
					v := take(m, p, now, 1, 1)
					require.LessOrEqual(t, v.Wait, 2*window+second, "the wait is one of the new clock")
					require.True(t, m.Peek(now.Add(v.Wait), p, &limiter.Candidate{Key: 1}, 1).Admitted, "which is true")
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
