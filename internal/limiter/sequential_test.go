// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
)

// Two clients get exactly what the limits say, no more and no less, request by
// request: the honest one, who echoes the newest tally to whatever instance, even
// one that has just started; and any other, on one instance that keeps running.
func TestExactlyTheQuota(t *testing.T) {
	clients := []struct {
		name      string
		instances int
		restarts  bool
		shows     func(f *fleet, r *rand.Rand, p *limiter.Policy, now time.Time) limiter.Tally
	}{
		{"echoes to one of five", 5, true, func(f *fleet, _ *rand.Rand, _ *limiter.Policy, _ time.Time) limiter.Tally { return f.newest() }},
		{"replays, drops and forks on one", 1, false, (*fleet).anything},
	}
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			for name, policies := range tracePolicies(t) {
				t.Run(name, func(t *testing.T) {
					each(t, 6, func(t *testing.T, r *rand.Rand) {
						f := newFleet(r, c.instances, 0)
						now, p := midnight, policies[0]
						admitted, refused := 0, 0
						for n := range 400 {
							now = now.Add(time.Duration(r.Int64N(int64(200*time.Millisecond))) + spreadJump(r))
							if c.restarts && r.IntN(10) == 0 {
								f.restart(r.IntN(len(f.instances)))
							}
							if r.IntN(50) == 0 {
								p = policies[r.IntN(len(policies))]
							}
							cost := spread(r, 1, min(3, p.Capacity()))
							want := true
							for i := range p.Len() {
								us := now.UnixMicro()
								want = want && f.history.admits(p, i, us, us/p.Limit(i).Window.Microseconds(), cost)
							}
							_, v := f.ask(r.IntN(len(f.instances)), p, now, c.shows(f, r, p, now), cost)
							require.Equal(t, want, v.Admitted, "request %d at %v", n, now.Sub(midnight))
							if v.Admitted {
								admitted++
							} else {
								refused++
							}
						}
						require.Greater(t, admitted, 9, "the workload admits")
						require.Greater(t, refused, 9, "and refuses")
					})
				})
			}
		})
	}
}

// spreadJump is, now and then, some windows.
func spreadJump(r *rand.Rand) time.Duration {
	if r.IntN(40) > 0 {
		return 0
	}
	return time.Duration(r.Int64N(int64(25 * second)))
}

// The table of bounds, row by row, in one window from nothing.
func TestBoundsInOneWindow(t *testing.T) {
	const quota, instances, restarts = 7, 4, 3
	for _, a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			p := compile(t, limiter.Limit{Algorithm: a, Quota: quota, Window: minute})
			capacity := p.Capacity()
			each(t, 3, func(t *testing.T, r *rand.Rand) {
				spend := func(f *fleet, instances int, show func() limiter.Tally) int {
					for range 20 * quota {
						f.ask(r.IntN(instances), p, midnight.Add(30*second), show(), 1)
					}
					return len(f.history)
				}
				nothing := func() limiter.Tally { return limiter.Tally{} }

				f := newFleet(r, instances, 0)
				require.EqualValues(t, capacity, spend(f, instances, f.newest), "echoed to any number of instances: L")

				f = newFleet(r, instances, 0)
				require.EqualValues(t, capacity, spend(f, 1, nothing), "dropped, on one instance: L")

				f = newFleet(r, instances, 0)
				spend(f, instances, nothing)
				for i := range restarts {
					f.restart(i)
					spend(f, instances, nothing)
				}
				require.EqualValues(t, (instances+restarts)*capacity, len(f.history), "dropped, on N instances with C restarts: (N+C)·L")
			})
		})
	}
}

// The bounds over spans that are not aligned, of a client that takes whatever it
// gets whenever it asks.
func TestBoundsInAnySpan(t *testing.T) {
	const window = 10 * second
	for _, l := range []limiter.Limit{
		{Algorithm: limiter.SlidingWindow, Quota: 7},
		{Algorithm: limiter.SlidingWindow, Quota: 1},
		{Algorithm: limiter.FixedWindow, Quota: 7},
		{Algorithm: limiter.TokenBucket, Quota: 7, Burst: 4},
		{Algorithm: limiter.TokenBucket, Quota: 3, Burst: 9},
		{Algorithm: limiter.LeakyBucket, Quota: 7},
	} {
		l.Window = window
		bound := map[limiter.Algorithm]int64{
			limiter.SlidingWindow: 2*l.Quota - 1,
			limiter.FixedWindow:   2 * l.Quota,
			limiter.TokenBucket:   l.Burst + window.Microseconds()/interval(l),
			limiter.LeakyBucket:   1 + window.Microseconds()/interval(l),
		}[l.Algorithm]
		p := compile(t, l)
		worst := int64(0)
		each(t, 8, func(t *testing.T, r *rand.Rand) {
			m := limiter.NewMemory(1, 1)
			times := []time.Time{}
			for now := midnight; now.Before(midnight.Add(40 * window)); now = now.Add(tick + time.Duration(r.Int64N(int64(2*window/tick)>>r.IntN(20)))*tick) {
				if r.IntN(2) == 0 { // as late as can be, before a boundary
					now = now.Truncate(window).Add(window - tick)
				}
				for range drain(m, p, now, limiter.Candidate{Key: 1}) {
					times = append(times, now)
				}
				n := int64(0)
				for _, earlier := range times {
					if now.Sub(earlier) <= window {
						n++
					}
				}
				require.LessOrEqual(t, n, bound, "%s, at %v", l.Algorithm, now.Sub(midnight))
				worst = max(worst, n)
			}
		})
		if l.Algorithm == limiter.SlidingWindow || l.Algorithm == limiter.FixedWindow {
			require.Equal(t, bound, worst, "the bound of %s is reached", l.Algorithm)
		}
	}
}
