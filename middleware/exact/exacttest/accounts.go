// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/storeless"
)

// accounts compares a counter with the arithmetic of an account, step by step, in whatever
// way calls are made.
func accounts(r *run) {
	r.isOfAccounts(func(*run, int, string) {})
}

// isOfAccounts compares them, and has something done between the steps, that changes nothing.
func (r *run) isOfAccounts(between func(r *run, step int, name string)) {
	for n, tiers := range [][2]*exact.Policy{
		{policy(storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 3, Window: time.Second}),
			policy(storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 5, Window: time.Second})},
		{policy(storeless.Limit{Name: "a", Algorithm: storeless.TokenBucket, Quota: 4, Window: time.Second, Burst: 2},
			storeless.Limit{Name: "b", Algorithm: storeless.TokenBucket, Quota: 60, Window: time.Minute, Burst: 20}),
			policy(storeless.Limit{Name: "a", Algorithm: storeless.TokenBucket, Quota: 9, Window: time.Second, Burst: 3},
				storeless.Limit{Name: "b", Algorithm: storeless.TokenBucket, Quota: 60, Window: time.Minute, Burst: 30})},
		{policy(each(40)...), policy(each(50)...)},
	} {
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		var a engine.Account
		var held, ours []exact.Receipt // the same charges
		buckets := n < 2
		for step := range 400 {
			r, p := r.in("policy %d, step %d", n, step), tiers[rng.IntN(8)/7]
			between(r, step, p.AccountName(r.key(n)))
			call := exact.Call{Key: r.key(n), Cost: 1 + rng.Int64N(2), Policy: p}
			if n == 0 {
				call.Cost = 1
			}
			switch ask := rng.IntN(100); {
			case ask < 30:
				r.clock.Advance(time.Duration(rng.Int64N(int64(700*time.Millisecond))) / 1000 * 1000)
				continue
			case ask < 60 && buckets:
				call.Ahead = time.Duration(rng.Int64N(int64(10*time.Second)) + 1)
			case ask < 66:
				call.Past = true
				apart(rng, &call)
			case ask < 67:
				call.Cost, call.Pause = 0, time.Duration(rng.Int64N(int64(2*time.Second))+1000)/1000*1000
			case ask < 85 && len(held) > 0:
				i := rng.IntN(len(held))
				back, is := held[i], ours[i]
				if back.Costs != ([storeless.MaxLimits]int64{}) && rng.IntN(2) == 0 { // of some limits
					for l := range back.Costs {
						back.Costs[l] = rng.Int64N(back.Costs[l] + 1)
					}
					back.Cost = slices.Max(back.Costs[:])
					is.Cost, is.Costs = back.Cost, back.Costs
				}
				if back.Cost == 0 {
					continue
				}
				err := r.Refund(context.Background(), back)
				if err != nil && !errors.Is(err, exact.ErrNoRefund) {
					r.no(err)
				}
				if ours := a.Refund(r.clock.Now(), &is); (ours == nil) != (err == nil) {
					r.fail("a refund: %v, of the account: %v", err, ours)
				}
				continue
			default:
				apart(rng, &call)
			}
			want := a.Take(r.clock.Now(), &call)
			got := r.call(call)
			if got.Receipt.Costs != want.Receipt.Costs || got.Verdict != want.Verdict || !got.Receipt.At.Equal(want.Receipt.At) {
				r.fail("%+v:\n%+v, want\n%+v", call, got, want)
			}
			if got.Admitted && call.Cost > 0 {
				held, ours = append(held, got.Receipt), append(ours, want.Receipt)
			}
		}
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
	p := policy(fixed(3, long), storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 100, Window: long}, fixed3(100))
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
	r.mistaken(map[string]exact.Call{
		"costs below the cost": own(10, 1, 9), "a cost below its costs": own(8, 1, 9), "a negative one of the costs": own(10, -1, 10),
		"costs of no limit": own(10, 1, 1, 1, 10), "costs without a cost": own(0, 1),
	})
}

// fixed3 is a third limit.
func fixed3(quota int64) storeless.Limit {
	return storeless.Limit{Name: "third", Algorithm: storeless.FixedWindow, Quota: quota, Window: long}
}
