// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// randomLimits draws limits of every algorithm. Small windows make it cheap to
// look at every second of a wait.
func randomLimits(r *rand.Rand, n int, longest time.Duration) []limiter.Limit {
	limits := make([]limiter.Limit, n)
	for i := range limits {
		l := &limits[i]
		l.Name = fmt.Sprint("l", i)
		l.Algorithm = algorithms[r.IntN(len(algorithms))]
		l.Quota = spread(r, 1, 1000)
		l.Window = randomWindow(r, longest)
		if l.Algorithm == limiter.TokenBucket {
			l.Burst = spread(r, 1, min(2*l.Quota, mostBurst(*l)))
		}
	}
	return limits
}

// randomTally draws what a token may honestly say at now: any of the last
// windows, one ahead within the skew, fuller than the quota where that was
// lowered, a mark of a larger burst.
func randomTally(r *rand.Rand, p *limiter.Policy, now time.Time) (t limiter.Tally) {
	for i := range p.Len() {
		l, us := p.Limit(i), now.UnixMicro()
		w := l.Window.Microseconds()
		if isBucket(l.Algorithm) {
			t[i].At = us + spread(r, -w, 2*max(w, l.Burst*interval(l)))
			continue
		}
		ahead := (us + min(5*second, l.Window/10).Microseconds()) / w
		t[i].At = ahead - r.Int64N(4)
		t[i].Cur = uint32(spread(r, 0, l.Quota*3/2))
		if l.Algorithm == limiter.SlidingWindow {
			t[i].Prev = uint32(spread(r, 0, l.Quota*3/2))
		}
	}
	return t
}

// What a refusal promises: the same request passes after the wait, and not a
// second earlier.
func TestWaitIsTrue(t *testing.T) {
	for _, size := range []struct {
		name    string
		longest time.Duration
		scan    bool
	}{{"short windows", 40 * second, true}, {"long windows", limiter.MaxWindow, false}} {
		t.Run(size.name, func(t *testing.T) {
			each(t, 3, func(t *testing.T, r *rand.Rand) {
				refused := 0
				for n := range 800 {
					p := compile(t, randomLimits(r, 1+r.IntN(4), size.longest)...)
					now := midnight.Add(time.Duration(spread(r, 0, int64(2*size.longest/tick))) * tick)
					shown, cost := randomTally(r, p, now), spread(r, 1, p.Capacity())
					passes := func(t limiter.Tally, at time.Time) bool {
						for i := range p.Len() {
							if !fits(p.Limit(i), t[i], at, cost) {
								return false
							}
						}
						return true
					}
					held, v := p.Step(now, shown, cost)
					if v.Admitted {
						require.Zero(t, v.Wait, "case %d", n)
						continue
					}
					refused++
					require.GreaterOrEqual(t, v.Wait, second, "case %d", n)
					require.Zero(t, v.Wait%second, "case %d: whole seconds", n)
					echoes := []limiter.Tally{held}
					if !wrong(p, now, shown) { // else what is held is news, see Exceeds
						echoes = append(echoes, shown)
					}
					for _, echo := range echoes {
						_, then := p.Step(now.Add(v.Wait), echo, cost)
						require.True(t, then.Admitted, "case %d: %v after %v", n, echo, v.Wait)
						_, early := p.Step(now.Add(v.Wait-second), echo, cost)
						require.False(t, early.Admitted, "case %d: %v before %v", n, echo, v.Wait)
					}
					require.True(t, passes(held, now.Add(v.Wait)), "case %d", n)
					for at := time.Duration(0); size.scan && at < v.Wait; at += second {
						require.False(t, passes(held, now.Add(at)), "case %d: passes at %v of %v", n, at, v.Wait)
					}
				}
				require.Greater(t, refused, 200, "the workload refuses")
			})
		})
	}
}

// The same of a memory and of the networks around a tally.
func TestWaitIsTrueOfMemory(t *testing.T) {
	each(t, 3, func(t *testing.T, r *rand.Rand) {
		refused := 0
		for n := range 400 {
			p := compile(t, randomLimits(r, 1+r.IntN(3), 40*second)...)
			m := limiter.NewMemory(64, 4)
			cousins := make([]limiter.Candidate, 4)
			wide := []limiter.Network{{Key: 100, Policy: p.Scale(1)}, {Key: 200, Policy: p.Scale(2)}}
			for i := range cousins {
				cousins[i] = limiter.Candidate{Key: limiter.Key(i), Networks: wide[:r.IntN(3)]}
			}
			now := midnight
			for range 40 {
				now = now.Add(time.Duration(r.Int64N(int64(2*second/tick))) * tick)
				f, cost := &cousins[r.IntN(len(cousins))], spread(r, 1, p.Capacity())
				_, v := m.Take(now, p, f, cost)
				if v.Admitted {
					continue
				}
				refused++
				slowest := time.Duration(0)
				for i := range p.Len() {
					if v.Limits[i].Blocked {
						slowest = max(slowest, v.Limits[i].Reset)
					}
				}
				require.Equal(t, v.Wait, slowest, "case %d: t of the slowest limit is the wait", n)
				_, early := m.Take(now.Add(v.Wait-second), p, f, cost)
				require.False(t, early.Admitted, "case %d", n)
				now = now.Add(v.Wait)
				_, then := m.Take(now, p, f, cost)
				require.True(t, then.Admitted, "case %d: after %v", n, v.Wait)
			}
		}
		require.Greater(t, refused, 400, "the workload refuses")
	})
}

// What Reset promises of each limit: unblocked, more is left then and not a
// second earlier; blocked, the limit admits the cost then and not earlier.
func TestResetIsTrue(t *testing.T) {
	each(t, 3, func(t *testing.T, r *rand.Rand) {
		blocked, open := 0, 0
		for n := range 2000 {
			l := randomLimits(r, 1, []time.Duration{40 * second, day, limiter.MaxWindow}[r.IntN(3)])[0]
			p := compile(t, l)
			now := midnight.Add(time.Duration(spread(r, 0, int64(2*l.Window/tick))) * tick)
			cost := spread(r, 0, p.Capacity()+1)
			tally, v := p.Step(now, randomTally(r, p, now), cost)
			s := v.Limits[0]
			require.GreaterOrEqual(t, s.Remaining, int64(0), "case %d", n)
			if s.Reset == 0 {
				require.Equal(t, p.Capacity(), s.Remaining, "case %d: nothing to wait for", n)
				continue
			}
			least := s.Remaining + 1
			if s.Blocked && !v.Impossible {
				blocked++
				least = cost
			} else {
				open++
			}
			_, then := p.Step(now.Add(s.Reset), tally, 0)
			require.GreaterOrEqual(t, then.Limits[0].Remaining, least, "case %d: %+v", n, s)
			if s.Reset > second {
				_, early := p.Step(now.Add(s.Reset-second), tally, 0)
				require.Less(t, early.Limits[0].Remaining, least, "case %d: %+v", n, s)
			}
		}
		require.Greater(t, blocked, 100, "the workload blocks")
		require.Greater(t, open, 100, "and does not")
	})
}

// What is known by sight is what was noted: that text, of that client, and to the bit the tally that it says. So it is
// whatever becomes of the cells: charges, refunds, settled costs, a full memory, changed limits, clocks that step.
func TestSightIsMemory(t *testing.T) {
	all := []limiter.Limit{
		{Name: "a", Quota: 5, Window: minute},
		{Name: "b", Algorithm: limiter.FixedWindow, Quota: 9, Window: 5 * minute},
		{Name: "c", Algorithm: limiter.TokenBucket, Quota: 7, Window: minute, Burst: 9},
		{Name: "d", Algorithm: limiter.LeakyBucket, Quota: 30, Window: minute},
	}
	type noted struct {
		says limiter.Tally
		of   limiter.Key
	}
	seeds, known, unknown := 400, 0, 0
	if kit.Brief() {
		seeds = 40
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 31))
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		p := compile(t, all[:1+rng.IntN(len(all))]...)
		m := limiter.NewMemory(1+rng.IntN(8), p.Len())
		s, now, sent := m.TokenCache(), midnight, map[string]noted{}
		clients := make([]limiter.Key, 1+rng.IntN(6))
		for i := range clients {
			clients[i] = m.Key([]byte{byte(i)})
		}
		for step := range 200 {
			k := clients[rng.IntN(len(clients))]
			f := &limiter.Candidate{Key: k}
			switch rng.IntN(12) {
			case 0:
				now = now.Add(time.Duration(rng.Int64N(int64(2 * minute))))
			case 1:
				now = now.Add(-time.Duration(rng.Int64N(int64(10 * second))))
			case 2:
				m.Record(now, p, f, rng.Int64N(40))
			case 3:
				m.Restore(now, now.Add(-time.Duration(rng.Int64N(int64(minute)))), p, f, 1+rng.Int64N(3))
			case 4:
				for n := range rng.IntN(60) {
					take(m, p, now, stranger(m, n), 1)
				}
			case 5:
				if rng.IntN(4) == 0 {
					m.Retain(now, compile(t, all[rng.IntN(len(all))]))
					m.Retain(now, p)
				}
			case 6:
				if rng.IntN(4) == 0 {
					s = m.TokenCache()
				}
			default:
				after, v := m.Take(now, p, f, rng.Int64N(3))
				if !v.Admitted {
					continue
				}
				text := fmt.Sprint("token ", step)
				s.Note(p, k, text, &after)
				for i := range after {
					if after[i].Cur == 0 && after[i].Prev == 0 && i < p.Len() && p.Limit(i).Burst == 0 {
						after[i] = limiter.State{} // a token says no window in which nothing is counted
					}
				}
				sent[text] = noted{after, k}
			}
			for text, n := range sent {
				for _, other := range clients {
					var says limiter.Tally
					if !s.Knows(p, other, text, &says) {
						unknown++
						continue
					}
					known++
					require.Equal(t, n, noted{says, other}, "seed %d, step %d: %s", seed, step, text)
				}
			}
		}
	}
	require.Greater(t, known, 1000)
	require.Greater(t, unknown, known)
}

// The last text of a client is known, again and again, and no other: an older one, another client's, or one that was
// noted by another sight of the same memory.
func TestTheLastIsKnownBySight(t *testing.T) {
	for _, l := range []limiter.Limit{
		{Quota: 5, Window: minute},
		{Algorithm: limiter.FixedWindow, Quota: 5, Window: minute},
		{Algorithm: limiter.TokenBucket, Quota: 5, Window: minute},
	} {
		t.Run(l.Algorithm.String(), func(t *testing.T) {
			p, m := compile(t, l), limiter.NewMemory(1, 1) // all clients have one place
			s, k, other := m.TokenCache(), m.Key([]byte("a")), m.Key([]byte("b"))
			knows := func(k limiter.Key, text string) bool { return s.Knows(p, k, text, new(limiter.Tally)) }
			first, _ := m.Take(midnight, p, &limiter.Candidate{Key: k}, 1)
			s.Note(p, k, "first", &first)
			require.True(t, knows(k, "first"))
			require.True(t, knows(k, "first"))
			require.False(t, knows(k, "First"))
			require.False(t, m.TokenCache().Knows(p, k, "first", new(limiter.Tally)))

			same, _ := m.Take(midnight, p, &limiter.Candidate{Key: other}, 1)
			require.Equal(t, first, same)
			require.False(t, knows(other, "first"), "the same tally of another client")

			second, _ := m.Take(midnight, p, &limiter.Candidate{Key: k}, 1)
			require.False(t, knows(k, "first"), "it says less than the memory")
			s.Note(p, k, "second", &second)
			require.False(t, knows(k, "first"))
			require.True(t, knows(k, "second"))
			m.Restore(midnight, midnight, p, &limiter.Candidate{Key: k}, 1)
			require.False(t, knows(k, "second"), "it says more than the memory")
			s.Note(p, other, "second", &same)
			require.True(t, knows(other, "second"))
			require.False(t, knows(k, "second"))
		})
	}
}
