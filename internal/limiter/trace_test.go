// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/truth"
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

// The oracles say what a tally's states and histories mean. What a limit admits is package truth's, which shares no
// arithmetic with this one.

func windowOf(l limiter.Limit) truth.Window {
	return truth.Window{Quota: l.Quota, Length: l.Window.Microseconds()}
}

func bucketOf(l limiter.Limit) truth.Bucket {
	return truth.Bucket{Quota: l.Quota, Window: l.Window.Microseconds(), Burst: l.Burst}
}

func interval(l limiter.Limit) int64 { return bucketOf(l).Interval() }

// fits says whether cost would pass one limit whose state is s.
func fits(l limiter.Limit, s limiter.State, now time.Time, cost int64) bool {
	us, w := now.UnixMicro(), l.Window.Microseconds()
	if isBucket(l.Algorithm) {
		return bucketOf(l).Fits(s.At-us, cost)
	}
	window := us / w
	switch prev, cur := int64(s.Prev), int64(s.Cur); {
	case s.At >= window:
		return windowOf(l).Fits(max(0, us-s.At*w), prev, cur, cost)
	case s.At == window-1 && l.Algorithm == limiter.SlidingWindow:
		return windowOf(l).Fits(us-window*w, cur, 0, cost)
	}
	return cost <= l.Quota
}

// An admission is one line of a log.
type admission struct {
	clock   int64                    // of the instance that admitted, µs
	windows [limiter.MaxLimits]int64 // in which it counted it
	cost    int64
	policy  *limiter.Policy // in force
}

// A history is every admission of a tally, in the order in which they happened.
type history []admission

// admits says whether the whole history leaves room for cost under the i-th
// limit of p at the given clock. counted is the window that the request counts
// in; buckets have none.
func (h history) admits(p *limiter.Policy, i int, clock, counted, cost int64) bool {
	l := p.Limit(i)
	w := l.Window.Microseconds()
	if !isBucket(l.Algorithm) {
		prev := int64(0)
		if l.Algorithm == limiter.SlidingWindow {
			prev = h.spent(i, counted-1)
		}
		return windowOf(l).Fits(max(0, clock-counted*w), prev, h.spent(i, counted), cost)
	}
	drops := make([]truth.Drop, len(h))
	for j, a := range h {
		drops[j] = truth.Drop{At: a.clock, Cost: a.cost, Interval: interval(a.policy.Limit(i))}
	}
	return bucketOf(l).Admits(drops, clock, cost)
}

// spent is what was counted in one window of the i-th limit.
func (h history) spent(i int, window int64) (sum int64) {
	for _, a := range h {
		if a.windows[i] == window {
			sum += a.cost
		}
	}
	return sum
}

// add records an admission that left t.
func (h *history) add(p *limiter.Policy, now time.Time, cost int64, t limiter.Tally) {
	a := admission{clock: now.UnixMicro(), cost: cost, policy: p}
	for i := range p.Len() {
		a.windows[i] = t[i].At
	}
	*h = append(*h, a)
}

// spread draws from [low, high], as often small as large, and every so often an
// end: faults of arithmetic live there.
func spread(r *rand.Rand, low, high int64) int64 {
	switch span := high - low; {
	case span == 0 || r.IntN(8) == 0:
		return low
	case r.IntN(8) == 0:
		return high
	case r.IntN(2) == 0:
		return low + r.Int64N(span+1)
	default:
		bits := r.IntN(64)
		return low + min(span, int64(r.Uint64()>>1>>bits))
	}
}

func randomWindow(r *rand.Rand, longest time.Duration) time.Duration {
	return time.Duration(spread(r, 1, int64(longest/second))) * second
}

// mostBurst is the largest for which Burst·Window/Quota is at most MaxWindow.
func mostBurst(l limiter.Limit) int64 {
	return min(limiter.MaxQuota, int64(limiter.MaxWindow/second)*l.Quota/int64(l.Window/second))
}

// The sliding counter against the inequality itself: whatever passes is what
// the inequality allows, to the unit, up to the largest quota and window.
func TestSlidingIsExact(t *testing.T) {
	each(t, 4, func(t *testing.T, r *rand.Rand) {
		for n := range 2000 {
			quota := spread(r, 1, limiter.MaxQuota)
			window := randomWindow(r, limiter.MaxWindow)
			p := compile(t, limiter.Limit{Quota: quota, Window: window})
			w := window.Microseconds()
			number := spread(r, 0, 4e9*1e6/w) // until 2096
			elapsed := spread(r, 0, w-1)
			now := time.UnixMicro(number*w + elapsed)
			// More than the quota is what a lowered quota leaves behind.
			prev, cur := spread(r, 0, limiter.MaxQuota), spread(r, 0, limiter.MaxQuota)
			if r.IntN(4) > 0 {
				prev, cur = spread(r, 0, quota), spread(r, 0, quota)
			}
			s := limiter.State{At: number, Cur: uint32(cur), Prev: uint32(prev)}

			is := truth.Window{Quota: quota, Length: w}
			most := is.Room(elapsed, prev, cur)
			_, peek := p.Step(now, limiter.Tally{s}, 0)
			require.Equal(t, max(0, most), peek.Limits[0].Remaining, "case %d: L=%d W=%d e=%d %+v", n, quota, w, elapsed, s)
			for _, cost := range []int64{1, most, most + 1, spread(r, 1, quota)} {
				if cost < 1 {
					continue
				}
				next, v := p.Step(now, limiter.Tally{s}, cost)
				require.Equal(t, is.Fits(elapsed, prev, cur, cost), v.Admitted, "case %d: cost %d", n, cost)
				want := s
				if v.Admitted {
					want.Cur += uint32(cost)
				}
				require.Equal(t, want, next[0], "case %d: cost %d", n, cost)
				require.Equal(t, cost > quota, v.Impossible, "case %d: cost %d", n, cost)
			}
		}
	})
}

// Buckets against their definition, up to the largest that empty in a year.
func TestBucketsAreExact(t *testing.T) {
	each(t, 4, func(t *testing.T, r *rand.Rand) {
		for n := range 2000 {
			l := limiter.Limit{Algorithm: limiter.TokenBucket, Quota: spread(r, 1, limiter.MaxQuota), Window: randomWindow(r, limiter.MaxWindow)}
			l.Burst = spread(r, 1, mostBurst(l))
			if r.IntN(4) == 0 {
				l.Algorithm, l.Burst = limiter.LeakyBucket, 1
			}
			p := compile(t, l)
			now := time.UnixMicro(spread(r, 1, 4e15))
			s := limiter.State{At: now.UnixMicro() + spread(r, -l.Window.Microseconds(), l.Burst*interval(l))}

			_, peek := p.Step(now, limiter.Tally{s}, 0)
			most := peek.Limits[0].Remaining
			for _, cost := range []int64{1, most, most + 1, spread(r, 1, l.Burst)} {
				if cost < 1 {
					continue
				}
				next, v := p.Step(now, limiter.Tally{s}, cost)
				require.Equal(t, fits(l, s, now, cost), v.Admitted, "case %d: %+v %+v cost %d", n, l, s, cost)
				if v.Admitted {
					require.Equal(t, limiter.State{At: max(s.At, now.UnixMicro()) + cost*interval(l)}, next[0], "case %d", n)
				}
			}
		}
	})
}

// within folds any v into [low, high].
func within(v, low, high int64) int64 {
	if low <= v && v <= high {
		return v
	}
	return low + int64(uint64(v)%uint64(high-low+1))
}

// FuzzStep shows a limit every state that a signed token may carry, also one
// signed by a program with the key and without sense: exp and age have the
// bounds of the token's payload.
func FuzzStep(f *testing.F) {
	const most = 1 << 53
	f.Add(uint8(0), int64(5), int64(60), int64(0), midnight.UnixMicro(), midnight.Unix()+120, int64(2), uint32(3), uint32(4), int64(1))
	f.Fuzz(func(t *testing.T, algorithm uint8, quota, seconds, burst, now, exp, age int64, cur, prev uint32, cost int64) {
		l := limiter.Limit{
			Name:      "l",
			Algorithm: algorithms[algorithm%4],
			Quota:     within(quota, 1, limiter.MaxQuota),
			Window:    time.Duration(within(seconds, 1, int64(limiter.MaxWindow/second))) * second,
		}
		if l.Algorithm == limiter.TokenBucket {
			l.Burst = within(burst, 1, mostBurst(l))
		}
		p := compile(t, l)
		l = p.Limit(0)
		clock := time.UnixMicro(within(now, -1<<52, 1<<53))
		us := max(0, clock.UnixMicro()) // before 1970 the clock stands still
		cost = within(cost, 0, 1<<62)
		exp, age = within(exp, 0, 1<<33), within(age, -most, most)
		s := limiter.State{At: exp/int64(l.Window/second) - age, Cur: cur, Prev: prev}
		if isBucket(l.Algorithm) {
			s.At = exp*1e6 - age
		}
		shown := limiter.Tally{s}
		rolled := p.Merge(clock, shown, shown)
		if most, owed := lapse(p, 0); isBucket(l.Algorithm) {
			over := min(int64(rolled[0].Cur)*1e6, owed+l.Window.Microseconds())
			if rolled[0].At-us > most+over {
				rolled[0] = limiter.State{At: us + owed + over, Cur: uint32((over + 999_999) / 1e6)}
			}
			require.Zero(t, rolled[0].Prev)
		}
		next, v := p.Step(clock, shown, cost)

		require.GreaterOrEqual(t, v.Limits[0].Remaining, int64(0))
		require.LessOrEqual(t, v.Limits[0].Remaining, p.Capacity())
		require.GreaterOrEqual(t, v.Limits[0].Reset, time.Duration(0))
		require.Equal(t, !v.Admitted && !v.Impossible, v.Wait > 0)
		require.Equal(t, cost > p.Capacity(), v.Impossible)
		require.Equal(t, !v.Admitted, v.Limits[0].Blocked)

		want := rolled
		switch {
		case v.Admitted && cost > 0 && isBucket(l.Algorithm):
			want[0].At = max(rolled[0].At, us) + cost*interval(l)
		case v.Admitted:
			want[0].Cur += uint32(cost)
		}
		require.Equal(t, want, next, "admitted, the count rises by the cost; refused, it stays")

		again, _ := p.Step(clock, next, 0)
		require.Equal(t, next, again, "what Step returns is rolled")
		require.Equal(t, cost == 0 || fits(l, rolled[0], time.UnixMicro(us), cost), v.Admitted)
		_, remembered := limiter.NewMemory(1, 1).Take(clock, p, &limiter.Candidate{Shown: shown}, cost)
		require.Equal(t, v, remembered, "an empty memory changes nothing")
		if v.Wait > 0 && us == clock.UnixMicro() {
			_, then := p.Step(clock.Add(v.Wait), next, cost)
			require.True(t, then.Admitted, "the wait is true")
			_, early := p.Step(clock.Add(v.Wait-second), next, cost)
			require.False(t, early.Admitted, "and no longer than it must be")
		}
	})
}

// FuzzCompile gives any numbers to Compile: it refuses them by name, or makes a
// policy that works.
func FuzzCompile(f *testing.F) {
	f.Add("contact", "", uint8(0), int64(5), int64(time.Minute), int64(0), "daily", uint8(1), int64(50), int64(24*time.Hour), int64(0), int64(8))
	f.Fuzz(func(t *testing.T, name, name1 string, a1 uint8, quota1, window1, burst1 int64, name2 string, a2 uint8, quota2, window2, burst2, factor int64) {
		limits := []limiter.Limit{
			{Name: name1, Algorithm: limiter.Algorithm(a1), Quota: quota1, Window: time.Duration(window1), Burst: burst1},
			{Name: name2, Algorithm: limiter.Algorithm(a2), Quota: quota2, Window: time.Duration(window2), Burst: burst2},
		}
		p, err := limiter.Compile(name, limits)
		if err != nil {
			require.Nil(t, p)
			for _, field := range problems(t, err) {
				require.Regexp(t, `^(Policy|Limits\[[01]\]\.(Name|Algorithm|Quota|Window|Burst))$`, field)
			}
			return
		}
		full := []limiter.Limit{p.Limit(0), p.Limit(1)}
		again, err := limiter.Compile(name, full)
		require.NoError(t, err, "what it filled in, it accepts")
		require.True(t, p.SameShape(again))

		capacity := p.Capacity()
		require.Positive(t, capacity)
		require.LessOrEqual(t, capacity, int64(limiter.MaxQuota))
		tally, v := p.Step(midnight, limiter.Tally{}, capacity)
		require.True(t, v.Admitted, "a fresh tally has room for the capacity")
		_, v = p.Step(midnight, tally, capacity)
		require.False(t, v.Admitted)

		scaled := p.Scale(within(factor, 1, 1<<62))
		require.True(t, p.SameShape(scaled))
		_, v = scaled.Step(midnight, limiter.Tally{}, capacity)
		require.True(t, v.Admitted, "no network is narrower than one of its clients")
	})
}

func TestFuzzSeedsExist(t *testing.T) {
	kit.Seeds(t, 4, "FuzzStep", "FuzzCompile")
}
