// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"context"
	"errors"
	"strconv"

	"github.com/tallystick/tallystick/middleware/exact"
)

func ids(r *run) {
	p := policy(fixed(2, long))
	call := func(key, id string) exact.Verdict {
		return r.call(exact.Call{Key: key, Cost: 1, Policy: p, ID: id})
	}
	first := call(r.key(0), "a")
	for range 5 {
		again := call(r.key(0), "a")
		if !again.Admitted || !again.Replayed || again.Receipt != first.Receipt {
			r.fail("the same ID again: %+v, want the first verdict, Replayed", again)
		}
	}
	if call(r.key(1), "a").Replayed {
		r.fail("the ID of another key is Replayed")
	}
	r.want(p, r.key(0), 1, true, 0)
	refused, again := call(r.key(0), "b"), call(r.key(0), "b")
	if refused.Admitted || again.Admitted || again.Replayed && again.Wait != refused.Wait {
		r.fail("a refusal, asked for again by its ID: %+v, want the same refusal, or another", again)
	}
	r.back(first.Receipt)
	// A counter that keeps no refusals decides it anew, and may now admit it: once.
	again = call(r.key(0), "b")
	if again.Admitted == again.Replayed {
		r.fail("a refusal, asked for again by its ID when there is room: admitted is %t, replayed is %t", again.Admitted, again.Replayed)
	}
	if again.Admitted {
		if !call(r.key(0), "b").Replayed {
			r.fail("a refusal, admitted when it was asked for again, is not remembered")
		}
		r.want(p, r.key(0), 1, false, 0)
		return
	}
	r.want(p, r.key(0), 1, true, 0)
}

func idsAtOnce(r *run) {
	p := policy(fixed(1000, long))
	got := r.flood(2000, func(n int) exact.Call { // the calls of one ID within [exact.IDLife], however long all of them take
		return exact.Call{Key: r.key(0), Cost: 1, Policy: p, ID: strconv.Itoa(n / 20)}
	})
	if got != 2000 {
		r.fail("100 IDs, 20 times each: %d admitted, want all", got)
	}
	if left := r.look(exact.Call{Key: r.key(0), Cost: 1, Policy: p}).Limits[0].Remaining; left != 1000-100 {
		r.fail("100 IDs, 20 times each, are counted %d times", 1000-left)
	}
}

// idsElsewhere repeats calls with another counter on the same engine.
func idsElsewhere(r *run) {
	other, done := r.open()
	defer func() { r.no(done()) }()
	call := exact.Call{Key: r.key(0), Cost: 1, Policy: policy(fixed(5, long)), ID: "a"}
	first := r.call(call)
	there := *r
	there.Counter = other
	again := there.call(call)
	if !again.Admitted || !again.Replayed || again.Receipt.Serial != first.Receipt.Serial || !again.Receipt.At.Equal(first.Receipt.At) {
		r.fail("the same ID of another process: %+v, want the first verdict, Replayed", again)
	}
	there.in("a refund by another process").back(again.Receipt)
	r.want(call.Policy, r.key(0), 1, true, 4)
}

// lostTake repeats calls whose answers were lost, until one has come: each is counted once.
func lostTake(r *run) {
	p := policy(fixed(5, long))
	call := exact.Call{Key: r.key(0), Cost: 1, Policy: p, ID: "a"}
	r.loseAnswer(r.Counter)
	first, err := r.Take(context.Background(), call)
	switch { // it may have asked again itself
	case err == nil && !first.Admitted:
		r.fail("a call whose answer was lost is refused")
	case errors.Is(err, exact.ErrNotCounted):
		r.fail("a call that was counted: %w", err)
	}
	v := r.in("asked for again").call(call)
	if !v.Admitted || v.Limits[0].Remaining != 4 {
		r.fail("a call whose answer was lost, asked for again: admitted is %t, %d of 5 remaining, want 4", v.Admitted, v.Limits[0].Remaining)
	}
	r.in("the receipt of the repeat").back(v.Receipt)
	r.want(p, r.key(0), 1, true, 4)
}

// lostRefund repeats a refund whose answer was lost: it is given once.
func lostRefund(r *run) {
	p := policy(fixed(5, long))
	for range 2 {
		r.want(p, r.key(0), 1, true)
	}
	v := r.take(p, r.key(0), 1)
	r.loseAnswer(r.Counter)
	if err := r.Refund(context.Background(), v.Receipt); errors.Is(err, exact.ErrNotCounted) {
		r.fail("a refund that was given: %w", err)
	}
	if err := r.Refund(context.Background(), v.Receipt); err != nil && !errors.Is(err, exact.ErrNoRefund) {
		r.fail("asked for again: %w, want none or ErrNoRefund", err)
	}
	r.want(p, r.key(0), 1, true, 2)
}
