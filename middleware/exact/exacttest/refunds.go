// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"context"
	"errors"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/storeless"
)

func refunds(r *run) {
	p := policy(fixed(5, long), storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 5, Window: long})
	v := r.take(p, r.key(0), 3)
	r.want(p, r.key(0), 1, true, 1, 1)
	r.in("refund").back(v.Receipt)
	for range 3 {
		r.in("a second refund").gone(v.Receipt)
	}
	second := r.take(p, r.key(1), 1)
	third := r.take(p, r.key(1), 1)
	r.in("two refunds").back(second.Receipt)
	r.in("two refunds").back(third.Receipt)
	other := v.Receipt
	other.Key = r.key(2)
	for what, receipt := range map[string]exact.Receipt{"given back before another": second.Receipt, "of a key that was never counted": other} {
		r.in("a refund %s", what).gone(receipt)
	}
	r.in("a refund of nothing").gone(exact.Receipt{})
	r.want(p, r.key(0), 4, true, 0, 0)
}

func partRefunds(r *run) {
	p := policy(fixed(5, long))
	v := r.take(p, r.key(0), 5)
	part := v.Receipt
	part.Cost = 2
	r.in("2 of 5").back(part)
	r.in("the rest, after a part").gone(v.Receipt)
	r.want(p, r.key(0), 2, true, 0)
}

// madeUp gives back receipts whose serials were made up: that gives nothing, and breaks nothing.
func madeUp(r *run) {
	p := policy(meter())
	var receipt exact.Receipt
	for range 5 {
		receipt = r.book(p, r.key(0), "").Receipt
	}
	for _, serial := range []string{"", "zz", "_", "5_", "5_1", "5_1_0_0", "5_0_0", "5_1_!", "5_1_0 ", "x_1_0", "6_1_0", "0_1_0", "5_zzzzzzzz_0", "-5_1_0"} {
		made := receipt
		made.Serial = serial
		r.in("the serial %q", serial).gone(made)
	}
	r.back(receipt)
}

// refundsOfLongAgo gives back the oldest charge that may come back, and the one before it.
func refundsOfLongAgo(r *run) {
	const between = engine.Refundable - 2
	p := policy(storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 3 * engine.Refundable, Window: long}) // not leased
	var receipts [3]exact.Receipt
	for i := range receipts {
		receipts[i] = r.take(p, r.key(0), 1).Receipt
	}
	call := exact.Call{Key: r.key(0), Cost: 1, Policy: p}
	r.flood(between, func(int) exact.Call { return call })
	back := func(i int) error { return r.Refund(context.Background(), receipts[i]) }
	r.in("of the last %d charges the first", engine.Refundable).no(back(1))
	if err := back(1); !errors.Is(err, exact.ErrNoRefund) || errors.Is(err, exact.ErrLateRefund) {
		r.fail("once more: %v, want ErrNoRefund", err)
	}
	if err := back(0); !errors.Is(err, exact.ErrLateRefund) {
		r.fail("the one before it: %v, want ErrLateRefund", err)
	}
	r.want(p, r.key(0), 1, true)
	r.in("of the last %d charges the first, after another was given back", engine.Refundable).no(back(2))
	r.want(p, r.key(0), 1, true)
}

func lateRefunds(r *run) {
	p := policy(fixed(5, time.Minute))
	old := r.take(p, r.key(0), 3)
	r.clock.Advance(time.Minute)
	r.want(p, r.key(0), 3, true, 2)
	r.in("in the next window").gone(old.Receipt)
	r.want(p, r.key(0), 2, true, 0)
	p = policy(storeless.Limit{Quota: 5, Window: time.Minute}) // which counts the one before in part
	old = r.take(p, r.key(1), 5)
	r.clock.Advance(time.Minute)
	r.want(p, r.key(1), 1, false, 0)
	r.in("of a sliding window, in the next").back(old.Receipt)
	r.want(p, r.key(1), 5, true, 0)
}

// each has one limit of each algorithm, all with this quota a day.
func each(quota int64) []storeless.Limit {
	var limits []storeless.Limit
	for _, a := range []storeless.Algorithm{storeless.SlidingWindow, storeless.FixedWindow, storeless.TokenBucket, storeless.SlidingLog, storeless.RollingDay} {
		limits = append(limits, storeless.Limit{Name: a.String(), Algorithm: a, Quota: quota, Window: day})
	}
	return append(limits, calendar(quota, "day", "UTC"))
}

// past charges without asking for room, and gives it back.
func past(r *run) {
	for n, l := range each(5) {
		p, key := policy(l), r.key(n)
		some := r.call(exact.Call{Key: key, Cost: 2, Policy: p, Past: true})
		if some.Limits[0].Remaining != 3 {
			r.fail("%s: 2 of a quota of 5: %+v, want 3 remaining", l.Algorithm, some.Verdict)
		}
		r.in("%s: 2 of 5", l.Algorithm).back(some.Receipt)
		call := exact.Call{Key: key, Cost: 12, Policy: p, Past: true, ID: "a"}
		if said := r.look(call); !said.Admitted || said.Impossible || said.Limits[0].Remaining != 5 {
			r.fail("%s: a peek at 12 past a quota of 5: %+v", l.Algorithm, said.Verdict)
		}
		first := r.call(call)
		if !first.Admitted || first.Impossible || first.Wait != 0 || first.Limits[0].Remaining != 0 {
			r.fail("%s: 12 past a quota of 5: %+v, want admitted, none remaining", l.Algorithm, first.Verdict)
		}
		if again := r.call(call); !again.Replayed || again.Receipt.Serial != first.Receipt.Serial {
			r.fail("%s: the same ID again: %+v, want the first verdict, Replayed", l.Algorithm, again)
		}
		v := r.take(p, key, 1)
		if v.Admitted || v.Impossible || v.Wait <= 0 {
			r.fail("%s: one more: %+v, want a refusal with its wait", l.Algorithm, v.Verdict)
		}
		call.Cost, call.ID = 3, ""
		second := r.call(call)
		if !second.Admitted {
			r.fail("%s: past a limit that is passed: refused", l.Algorithm)
		}
		r.in("%s: given back", l.Algorithm).back(first.Receipt)
		r.in("%s: given back", l.Algorithm).back(second.Receipt)
		r.in("%s: given back twice", l.Algorithm).gone(first.Receipt)
		if l.Algorithm == storeless.TokenBucket {
			continue // what leaks meanwhile is not given back: too little to tell how much
		}
		r.in("%s", l.Algorithm).want(p, key, 5, true, 0)
	}
}
