// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/storeless"
)

func hotKey(r *run) {
	p := policy(fixed(1000, long))
	if got := r.flood(5000, func(int) exact.Call { return exact.Call{Key: r.key(0), Cost: 1, Policy: p} }); got != 1000 {
		r.fail("5000 attempts at a limit of 1000: %d admitted", got)
	}
}

func manyKeys(r *run) {
	const keys = 500
	p := policy(fixed(4, long))
	if got := r.flood(10*keys, func(n int) exact.Call { return exact.Call{Key: r.key(n % keys), Cost: 1, Policy: p} }); got != 4*keys {
		r.fail("10 attempts on each of %d keys with a limit of 4: %d admitted, want %d", keys, got, 4*keys)
	}
}

func allOrNone(r *run) {
	p := policy(fixed(10, long), fixed(3, 24*time.Hour))
	for n := range int64(3) {
		r.want(p, r.key(0), 1, true, 9-n, 2-n)
	}
	for range 3 { // the second refuses; the first is not charged for it
		r.want(p, r.key(0), 1, false, 7, 0)
	}
}

func costs(r *run) {
	for n, l := range []storeless.Limit{fixed(10, long), {Algorithm: storeless.SlidingLog, Quota: 10, Window: long}} {
		p, key := policy(l), r.key(n)
		v := r.take(p, key, 11)
		if v.Admitted || !v.Impossible || v.Wait != 0 {
			r.fail("a cost above the quota is not Impossible, or has a Wait")
		}
		r.want(p, key, 4, true, 6)
		r.want(p, key, 7, false, 6)
		r.want(p, key, 6, true, 0)
		r.want(p, key, 1, false, 0)
	}
}

func peek(r *run) {
	p := policy(fixed(5, long))
	r.want(p, r.key(0), 2, true, 3)
	for range 10 {
		for cost, admitted := range map[int64]bool{3: true, 4: false} {
			v := r.look(exact.Call{Key: r.key(0), Cost: cost, Policy: p})
			if v.Admitted != admitted || v.Limits[0].Remaining != 3 {
				r.fail("a peek at cost %d of 3 remaining: admitted is %t, %d remaining", cost, v.Admitted, v.Limits[0].Remaining)
			}
		}
	}
	r.want(p, r.key(0), 3, true, 0)
}

func policiesApart(r *run) {
	limit := fixed(1, long)
	limit.Name = "same"
	p := policy(limit)
	q, err := exact.Compile("exacttest-other", []storeless.Limit{limit})
	r.no(err)
	r.want(p, r.key(0), 1, true)
	r.want(q, r.key(0), 1, true)
	r.want(p, r.key(0), 1, false)
	r.want(p, r.key(1), 1, true)
}

func upgrade(r *run) {
	small, large := policy(fixed(2, long)), policy(fixed(5, long))
	r.want(small, r.key(0), 2, true, 0)
	r.want(small, r.key(0), 1, false, 0)
	r.want(large, r.key(0), 2, true, 1)
	r.want(small, r.key(0), 1, false, 0)
}

// batches is for counters that are a Batcher too.
func batches(r *run) {
	b, ok := r.Counter.(engine.Batcher)
	if !ok {
		return
	}
	p := policy(fixed(5, long))
	calls := make([]exact.Call, 8)
	for i := range calls {
		calls[i] = exact.Call{Key: r.key(0), Cost: 1, Policy: p, ID: strconv.Itoa(i)}
	}
	calls[1].ID, calls[2].ID, calls[3].ID = "0", "", ""
	verdicts, err := b.TakeAll(context.Background(), calls)
	r.no(err)
	if len(verdicts) != len(calls) {
		r.fail("%d verdicts for %d calls", len(verdicts), len(calls))
	}
	// The second is the first again; five of the others fit.
	for i, v := range verdicts {
		if v.Admitted != (i < 6) || v.Replayed != (i == 1) {
			r.fail("call %d of a quota of 5: admitted is %t, replayed is %t", i, v.Admitted, v.Replayed)
		}
	}
	r.back(verdicts[4].Receipt)
	verdicts, err = b.TakeAll(context.Background(), calls[:1])
	if r.no(err); !verdicts[0].Replayed {
		r.fail("an ID of a batch is not remembered")
	}
	r.want(p, r.key(0), 1, true, 0)
}

func mistakes(r *run) {
	p := policy(fixed(5, long))
	huge := string(make([]byte, exact.MaxKey+1))
	r.mistaken(map[string]exact.Call{
		"no policy":       {Key: r.key(0), Cost: 1},
		"no key":          {Cost: 1, Policy: p},
		"a key too long":  {Key: huge, Cost: 1, Policy: p},
		"no cost":         {Key: r.key(0), Policy: p},
		"a negative cost": {Key: r.key(0), Cost: -1, Policy: p},
		"an ID too long":  {Key: r.key(0), Cost: 1, Policy: p, ID: huge},
	})
	r.want(p, r.key(0), 1, true, 4)
}

// mistaken checks that calls are refused by name, whether they are taken or looked at.
func (r *run) mistaken(calls map[string]exact.Call) {
	for what, call := range calls {
		if _, err := r.Take(context.Background(), call); !errors.Is(err, exact.ErrCall) {
			r.fail("%s: %v, want ErrCall", what, err)
		}
		if _, err := r.Peek(context.Background(), call); !errors.Is(err, exact.ErrCall) {
			r.fail("a peek with %s: %v, want ErrCall", what, err)
		}
	}
}

func ended(r *run) {
	p := policy(fixed(5, long))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Take(ctx, exact.Call{Key: r.key(0), Cost: 1, Policy: p}); !errors.Is(err, exact.ErrNotCounted) {
		r.fail("%v, want ErrNotCounted", err)
	}
	r.want(p, r.key(0), 1, true, 4)
}
