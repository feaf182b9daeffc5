// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"context"
	"errors"
	"math/rand/v2"
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
			case ask < 67:
				call.Cost, call.Pause = 0, time.Duration(rng.Int64N(int64(2*time.Second))+1000)/1000*1000
			case ask < 85 && len(held) > 0:
				i := rng.IntN(len(held))
				err := r.Refund(context.Background(), held[i])
				if err != nil && !errors.Is(err, exact.ErrNoRefund) {
					r.no(err)
				}
				if ours := a.Refund(r.clock.Now(), &ours[i]); (ours == nil) != (err == nil) {
					r.fail("a refund: %v, of the account: %v", err, ours)
				}
				continue
			}
			want := a.Take(r.clock.Now(), &call)
			got := r.call(call)
			if got.Verdict != want.Verdict || !got.Receipt.At.Equal(want.Receipt.At) {
				r.fail("%+v:\n%+v, want\n%+v", call, got, want)
			}
			if got.Admitted && call.Cost > 0 {
				held, ours = append(held, got.Receipt), append(ours, want.Receipt)
			}
		}
	}
}
