// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/storeless"
)

// accounts compares a counter with an account, call by call, in whatever way calls are made.
func accounts(r *run) {
	r.isOfAccounts(func(*run, int, string) bool { return false })
}

// seeds is how many traces [run.isOfAccounts] has.
const seeds = 12

// A trace is a history of calls on one key, by a counter and by an account.
type trace struct {
	*run
	rng      *rand.Rand
	policies []*exact.Policy
	steps    bool // the clock steps back
	window   time.Duration
	most     int64 // of a cost

	account    engine.Account
	held, ours []exact.Receipt // the same charges
	known      exact.Call      // a call that was admitted under its ID not long ago; without one: none
	first      exact.Receipt   // of it, by the account
	asked      time.Time
}

// isOfAccounts compares a counter with accounts: under policies that share a key, with numbers up to their bounds, by a clock that
// steps back, unless a window is of the calendar. Something is done between the steps, that changes nothing, and reports whether
// IDs are forgotten by it. No policy has windows alone, which package lease would count in blocks.
func (r *run) isOfAccounts(between func(r *run, step int, name string) (forgets bool)) {
	for seed := range seeds {
		t := newTrace(r, seed)
		for step := range 400 {
			t.run = r.in("trace %d, step %d", seed, step)
			if between(t.run, step, t.policies[0].AccountName(r.key(seed))) {
				t.known.ID = ""
			}
			t.step(exact.Call{Key: r.key(seed), Policy: t.policies[max(0, t.rng.IntN(3*len(t.policies))-2*len(t.policies))]}, step)
		}
	}
}

func newTrace(r *run, seed int) *trace {
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	t := &trace{run: r, rng: rng, steps: seed%3 > 0}
	if seed%3 > 0 { // calls can be booked
		t.window, t.most = []time.Duration{time.Second, time.Minute, 11 * time.Second, time.Hour}[seed/3], 1+rng.Int64N(4)
		bucket := func(name string, quota, burst int64) storeless.Limit {
			return storeless.Limit{Name: name, Algorithm: storeless.TokenBucket, Quota: quota, Window: t.window, Burst: burst}
		}
		slow, fast := bucket("slow", 10, t.most), bucket("fast", 100, 30)
		leaky := storeless.Limit{Name: "leaky", Algorithm: storeless.LeakyBucket, Quota: 40, Window: t.window}
		t.policies = []*exact.Policy{policy(slow), policy(slow, leaky, fast), policy(bucket("slow", 15, 2*t.most))}
		if seed%3 == 2 {
			t.policies = append(t.policies, policy(fixed(1000, t.window), slow, storeless.Limit{Name: "log", Algorithm: storeless.SlidingLog, Quota: 1000, Window: t.window}))
		}
		return t
	}
	quota := []int64{3, 50, 9999, storeless.MaxQuota}[seed/3]
	t.window, t.most = []time.Duration{time.Minute, time.Second, 17 * time.Hour, storeless.MaxWindow - 7*time.Second}[seed/3], 1+quota/5
	all := []storeless.Limit{
		{Name: "log", Algorithm: storeless.SlidingLog, Quota: min(quota, exact.MaxLog), Window: t.window},
		{Name: "sliding", Quota: quota, Window: t.window},
		{Name: "fixed", Algorithm: storeless.FixedWindow, Quota: quota, Window: t.window},
		{Name: "day", Algorithm: storeless.RollingDay, Quota: quota, Window: day},
		{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: quota, Window: t.window, Burst: 1 + quota/2},
		calendar(quota, []string{"day", "week", "month", "day"}[seed/3], []string{"Europe/Berlin", "UTC", "America/Santiago", "Pacific/Auckland"}[seed/3]),
	}
	t.policies = []*exact.Policy{policy(all...), policy(all[1+seed/3%2], all[4]), policy(all[0], all[5])}
	return t
}

// step makes a call, or gives one back, or lets time pass.
func (t *trace) step(call exact.Call, step int) {
	rng := t.rng
	pass := float64(min(t.window, day)) / 10
	t.clock.Advance(time.Duration(rng.Float64() * rng.Float64() * pass).Truncate(time.Microsecond))
	if rng.IntN(60) == 0 {
		t.clock.Advance(min(t.window, day)) // all that is booked may be over
	}
	if !t.account.Counts(t.clock.Now()) {
		t.held, t.ours = nil, nil // a counter may have forgotten them
	}
	call.Cost = 1 + rng.Int64N(t.most)
	if call.Cost > 10_000 && rng.IntN(2) == 0 {
		call.Cost = 1 + rng.Int64N(20)
	}
	switch turn := rng.IntN(12); {
	case turn < 3 && len(t.held) > 0:
		t.givesBack(max(0, len(t.held)-1-rng.IntN(12)))
		return
	case turn == 3 && t.known.ID != "" && t.clock.Now().Sub(t.asked) < exact.IDLife:
		call = t.known
	case turn == 4:
		call.Past = true
		if step > 375 { // as much as a bucket can be owed, and more
			call.Cost = storeless.MaxQuota
		}
	case turn == 5 && rng.IntN(3) == 0:
		call.Cost, call.Pause = 0, 1000+time.Duration(rng.Int64N(int64(min(t.window, time.Hour)))).Truncate(time.Microsecond)
	case turn > 5 && t.steps && len(t.policies) < 4 || turn > 5 && t.steps && call.Policy != t.policies[3]:
		call.Ahead = min(exact.MaxAhead, 1+time.Duration(rng.Int64N(3*int64(t.window))))
	default:
		apart(rng, &call)
	}
	if rng.IntN(4) == 0 && call.Pause == 0 && call.ID == "" {
		call.ID = strconv.Itoa(step)
	}
	want := t.decides(call)
	got := t.call(call)
	if got.Receipt.Costs != want.Receipt.Costs || got.Verdict != want.Verdict || !got.Receipt.At.Equal(want.Receipt.At) || got.Replayed != want.Replayed {
		t.fail("%+v:\n%+v, want\n%+v", call, got, want)
	}
	if got.Admitted && call.Cost > 0 && !got.Replayed {
		t.held, t.ours = append(t.held, got.Receipt), append(t.ours, want.Receipt)
	}
	if got.Admitted && call.ID != "" && !got.Replayed {
		t.known, t.first, t.asked = call, want.Receipt, t.clock.Now()
	}
	if got.Admitted && t.steps && rng.IntN(20) == 0 {
		t.known.ID = "" // which is known for longer then, or shorter
		t.clock.Advance(-time.Duration(rng.Int64N(int64(t.window / 4))).Truncate(time.Microsecond))
	}
}

// decides returns what the account says, which knows no IDs: it counts for no longer than its limits do.
func (t *trace) decides(call exact.Call) exact.Verdict {
	if call.ID != "" && call.ID == t.known.ID {
		v := exact.Verdict{Verdict: storeless.Verdict{Admitted: true}, Receipt: t.first}
		return t.account.Replay(t.clock.Now(), v, &call)
	}
	call.ID = ""
	return t.account.Take(t.clock.Now(), &call)
}

// givesBack gives a charge back, or a part of it, or of some limits.
func (t *trace) givesBack(i int) {
	back, is, rng := t.held[i], t.ours[i], t.rng
	switch {
	case back.Costs != ([storeless.MaxLimits]int64{}) && rng.IntN(2) == 0:
		for l := range back.Costs {
			back.Costs[l] = rng.Int64N(back.Costs[l] + 1)
		}
		back.Cost = slices.Max(back.Costs[:])
	case back.Costs == ([storeless.MaxLimits]int64{}) && rng.IntN(3) == 0:
		back.Cost = 1 + rng.Int64N(back.Cost)
	}
	if back.Cost == 0 {
		return
	}
	is.Cost, is.Costs = back.Cost, back.Costs
	err := t.Refund(context.Background(), back)
	if err != nil && !errors.Is(err, exact.ErrNoRefund) {
		t.no(err)
	}
	if ours := t.account.Refund(t.clock.Now(), &is); (ours == nil) != (err == nil) {
		t.fail("a refund of %+v: %v, of the account: %v", back, err, ours)
	}
}

// apart has a call cost something else on each limit, now and then.
func apart(rng *rand.Rand, call *exact.Call) {
	if rng.IntN(2) == 0 {
		return
	}
	for i := range call.Policy.Len() {
		call.Costs[i] = rng.Int64N(3)
	}
	call.Cost = max(1, slices.Max(call.Costs[:])) // of all at 0 each costs 1
}

// ownCosts charges each limit its own cost, in one step, and gives back each by itself, once.
func ownCosts(r *run) {
	p := policy(storeless.Limit{Name: "log", Algorithm: storeless.SlidingLog, Quota: 3, Window: long},
		storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 100, Window: long}, fixed(100, long))
	take := func(id string, admitted bool, left [3]int64, costs ...int64) exact.Verdict {
		call := exact.Call{Key: r.key(0), Policy: p, ID: id, Cost: slices.Max(costs)}
		copy(call.Costs[:], costs)
		v := r.call(call)
		for i, n := range left {
			if v.Admitted != admitted || v.Limits[i].Remaining != n {
				r.fail("costs %v: admitted is %t, and limit %d has %d remaining; want %t, %d", costs, v.Admitted, i, v.Limits[i].Remaining, admitted, n)
			}
		}
		return v
	}
	first := take("a", true, [3]int64{2, 40, 95}, 1, 60, 5)
	take("", false, [3]int64{2, 40, 95}, 1, 41, 5)
	take("", false, [3]int64{2, 40, 95}, 1, 1, 96)
	take("", true, [3]int64{2, 0, 0}, 0, 40, 95)
	take("", false, [3]int64{2, 0, 0}, 1, 0, 1)
	take("", true, [3]int64{1, 0, 0}, 1, 0, 0)
	if again := take("a", true, [3]int64{1, 0, 0}, 1, 60, 5); !again.Replayed || again.Receipt.Costs != first.Receipt.Costs {
		r.fail("the same call: %+v", again)
	}
	part := first.Receipt
	part.Costs = [storeless.MaxLimits]int64{0, 50}
	part.Cost = 50
	r.in("50 of 60 of one limit").back(part)
	r.in("the same limit again").gone(part)
	r.in("the others").back(first.Receipt)
	r.in("all again").gone(first.Receipt)
	take("", true, [3]int64{0, 0, 0}, 2, 50, 5)
	own := func(cost int64, costs ...int64) (call exact.Call) {
		call = exact.Call{Key: r.key(0), Policy: p, Cost: cost}
		copy(call.Costs[:], costs)
		return call
	}
	debt, one := own(500, 1, 500, 500), own(1, 1)
	debt.Key, one.Key, debt.Past = r.key(1), r.key(1), true
	r.call(debt)
	if !r.call(one).Admitted {
		r.fail("limits that are in debt refuse what costs nothing of them")
	}
	r.mistaken(map[string]exact.Call{
		"costs below the cost": own(10, 1, 9), "a cost below its costs": own(8, 1, 9), "a negative one of the costs": own(10, -1, 10),
		"costs of no limit": own(10, 1, 1, 1, 10), "costs without a cost": own(0, 1),
	})
}
