// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
)

// An instance of a fleet: a memory, a clock that is a little off, and the
// history of what it admitted since it started.
type instance struct {
	memory  *limiter.Memory
	skew    time.Duration
	history history
}

// A fleet is several instances without a store, and a client that does with its
// tallies whatever it likes.
type fleet struct {
	instances []*instance
	lives     []history // of instances that are gone
	history   history   // of all, in the order in which it happened
	wallet    []limiter.Tally
}

func newFleet(r *rand.Rand, n int, skew time.Duration) *fleet {
	f := &fleet{instances: make([]*instance, n)}
	for i := range f.instances {
		f.instances[i] = &instance{memory: limiter.NewMemory(1, limiter.MaxLimits)}
		if skew > 0 {
			f.instances[i].skew = time.Duration(r.Int64N(int64(skew/tick)+1)) * tick
		}
	}
	return f
}

// restart is a cold start: the memory is gone.
func (f *fleet) restart(i int) {
	f.lives = append(f.lives, f.instances[i].history)
	f.instances[i] = &instance{memory: limiter.NewMemory(1, limiter.MaxLimits), skew: f.instances[i].skew}
}

// newest is what an honest client echoes.
func (f *fleet) newest() (t limiter.Tally) {
	if len(f.wallet) > 0 {
		t = f.wallet[len(f.wallet)-1]
	}
	return t
}

// anything is what a dishonest client shows: the newest, an older one, a fork
// merged from two, or nothing.
func (f *fleet) anything(r *rand.Rand, p *limiter.Policy, now time.Time) (t limiter.Tally) {
	if len(f.wallet) == 0 {
		return t
	}
	old := func() limiter.Tally { return f.wallet[r.IntN(len(f.wallet))] }
	switch r.IntN(4) {
	case 0:
		return f.newest()
	case 1:
		return old()
	case 2:
		return p.Merge(now, old(), old())
	}
	return t
}

func (f *fleet) ask(i int, p *limiter.Policy, now time.Time, shown limiter.Tally, cost int64) (time.Time, limiter.Verdict) {
	in := f.instances[i]
	now = now.Add(in.skew)
	t, v := in.memory.Take(now, p, &limiter.Candidate{Key: 1, Shown: shown}, cost)
	if v.Admitted && cost > 0 {
		f.history.add(p, now, cost, t)
		in.history.add(p, now, cost, t)
		f.wallet = append(f.wallet, t)
	}
	return now, v
}

// everyLife is the history of each memory there was: N + C of them.
func (f *fleet) everyLife() []history {
	all := f.lives
	for _, in := range f.instances {
		all = append(all, in.history)
	}
	return all
}

// tracePolicies are the configurations that a trace moves between, tiers of one
// shape, with few seconds to a window so that traces cross many.
func tracePolicies(t *testing.T) map[string][]*limiter.Policy {
	limit := func(a limiter.Algorithm, quota, burst int64, window time.Duration) limiter.Limit {
		return limiter.Limit{Name: a.String(), Algorithm: a, Quota: quota, Window: window, Burst: burst}
	}
	var (
		slide = func(q int64) limiter.Limit { return limit(limiter.SlidingWindow, q, 0, 10*second) }
		fixed = func(q int64) limiter.Limit { return limit(limiter.FixedWindow, q, 0, 20*second) }
		token = func(q, b int64) limiter.Limit { return limit(limiter.TokenBucket, q, b, 10*second) }
		leaky = func(q int64) limiter.Limit { return limit(limiter.LeakyBucket, q, 0, 10*second) }
	)
	return map[string][]*limiter.Policy{
		"sliding-window": tiersOf(compile(t, slide(10)), compile(t, slide(4)), compile(t, slide(17))),
		"fixed-window":   tiersOf(compile(t, fixed(10)), compile(t, fixed(4)), compile(t, fixed(17))),
		"token-bucket":   tiersOf(compile(t, token(10, 5)), compile(t, token(10, 20)), compile(t, token(30, 1))),
		"leaky-bucket":   tiersOf(compile(t, leaky(10)), compile(t, leaky(3)), compile(t, leaky(40))),
		"all of them":    tiersOf(compile(t, slide(12), fixed(30), token(20, 8), leaky(40)), compile(t, slide(5), fixed(60), token(10, 20), leaky(90))),
	}
}

// The heart of the package. Whatever a client does with its tallies, over any
// instances, restarts, clocks within the skew, changed quotas and jumps in time:
//
//   - No tally under its limit is refused. What an instance knows is a part of
//     what was admitted, so a decision on all of it would refuse as well. (Skew
//     aside: the window in which a request counts may be the one that began by
//     the clock of another instance.)
//   - Each memory admits no more than the quota in each window.
func TestTraces(t *testing.T) {
	for name, policies := range tracePolicies(t) {
		t.Run(name, func(t *testing.T) {
			each(t, 12, func(t *testing.T, r *rand.Rand) {
				f := newFleet(r, 1+r.IntN(4), second) // min(5 s, W/10) of 10 s
				now, p, refused := midnight, policies[0], 0
				tiers := r.IntN(2) == 0 // a policy for each request, not for a time
				for range 400 {
					switch op := r.IntN(60); {
					case op == 0:
						f.restart(r.IntN(len(f.instances)))
					case op == 1:
						now = now.Add(time.Duration(r.Int64N(int64(30 * second))))
					case op == 2 || tiers:
						p = policies[r.IntN(len(policies))]
					}
					now = now.Add(time.Duration(r.Int64N(int64(300 * time.Millisecond))))
					cost := int64(1)
					if r.IntN(5) == 0 {
						cost = spread(r, 0, p.Capacity())
					}
					i := r.IntN(len(f.instances))
					shown := f.anything(r, p, now.Add(f.instances[i].skew))
					clock, v := f.ask(i, p, now, shown, cost)
					require.Zero(t, v.Inherited)
					if !v.Admitted {
						refused++
						require.True(t, f.mayRefuse(p, clock, cost, v), "refused under the limit, at %v", now.Sub(midnight))
					}
				}
				require.Greater(t, refused, 20, "the workload refuses")
				require.Greater(t, len(f.history), 20, "and admits")
				for i := range p.Len() {
					f.requireBounds(t, policies, i)
				}
			})
		})
	}
}

// mayRefuse says whether the whole history refuses the request too, by one of
// the limits that refused it.
func (f *fleet) mayRefuse(p *limiter.Policy, clock time.Time, cost int64, v limiter.Verdict) bool {
	for i := range p.Len() {
		if !v.Limits[i].Blocked {
			continue
		}
		us, l := clock.UnixMicro(), p.Limit(i)
		w, skew := l.Window.Microseconds(), min(5*second, l.Window/10).Microseconds()
		for _, counted := range []int64{us / w, (us + skew) / w} {
			if !f.history.admits(p, i, us, counted, cost) {
				return true
			}
		}
	}
	return false
}

// requireBounds checks what each memory admitted under the i-th limit, and so
// what the N+C of them did: in each window no more than the largest quota; of
// buckets, in any span, no more than the largest holds and the fastest leaks.
func (f *fleet) requireBounds(t *testing.T, policies []*limiter.Policy, i int) {
	var quota, holds, slowest int64
	w := policies[0].Limit(i).Window.Microseconds()
	slowest = w
	for _, p := range policies {
		l := p.Limit(i)
		quota = max(quota, l.Quota)
		holds = max(holds, l.Burst*interval(l))
		slowest = min(slowest, interval(l))
	}
	bucket := isBucket(policies[0].Limit(i).Algorithm)
	if bucket {
		quota = (holds + w) / slowest
	}
	total := map[int64]int64{}
	for _, life := range f.everyLife() {
		spent := map[int64]int64{}
		for _, a := range life {
			window := a.windows[i]
			if bucket {
				window = a.clock / w
			}
			spent[window] += a.cost
			total[window] += a.cost
		}
		for window, n := range spent {
			require.LessOrEqual(t, n, quota, "limit %d, window %d", i, window)
		}
	}
	for window, n := range total {
		require.LessOrEqual(t, n, int64(len(f.everyLife()))*quota, "limit %d, window %d", i, window)
	}
}
