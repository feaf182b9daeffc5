// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

func hotKey(r *run) error {
	p := policy(fixed(1000, long))
	got, err := r.flood(5000, func(int) exact.Call { return exact.Call{Key: r.key(0), Cost: 1, Policy: p} })
	if err == nil && got != 1000 {
		err = fmt.Errorf("5000 attempts at a limit of 1000: %d admitted", got)
	}
	return err
}

func manyKeys(r *run) error {
	const keys = 500
	p := policy(fixed(4, long))
	got, err := r.flood(10*keys, func(n int) exact.Call { return exact.Call{Key: r.key(n % keys), Cost: 1, Policy: p} })
	if err == nil && got != 4*keys {
		err = fmt.Errorf("10 attempts on each of %d keys with a limit of 4: %d admitted, want %d", keys, got, 4*keys)
	}
	return err
}

func allOrNone(r *run) error {
	p := policy(fixed(10, long), fixed(3, 24*time.Hour))
	for n := range int64(3) {
		if err := r.want(p, r.key(0), 1, true, 9-n, 2-n); err != nil {
			return err
		}
	}
	for range 3 { // the second refuses; the first is not charged for it
		if err := r.want(p, r.key(0), 1, false, 7, 0); err != nil {
			return err
		}
	}
	return nil
}

func costs(r *run) error {
	p := policy(fixed(10, long))
	v, err := r.take(p, r.key(0), 11)
	if err != nil {
		return err
	}
	if v.Admitted || !v.Impossible || v.Wait != 0 {
		return errors.New("a cost above the quota is not Impossible, or has a Wait")
	}
	return errors.Join(
		r.want(p, r.key(0), 4, true, 6),
		r.want(p, r.key(0), 7, false, 6),
		r.want(p, r.key(0), 6, true, 0),
		r.want(p, r.key(0), 1, false, 0))
}

func peek(r *run) error {
	p := policy(fixed(5, long))
	if err := r.want(p, r.key(0), 2, true, 3); err != nil {
		return err
	}
	for range 10 {
		for cost, admitted := range map[int64]bool{3: true, 4: false} {
			v, err := r.Peek(context.Background(), exact.Call{Key: r.key(0), Cost: cost, Policy: p})
			if err != nil {
				return err
			}
			if v.Admitted != admitted || v.Limits[0].Remaining != 3 {
				return fmt.Errorf("a peek at cost %d of 3 remaining: admitted is %t, %d remaining", cost, v.Admitted, v.Limits[0].Remaining)
			}
		}
	}
	return r.want(p, r.key(0), 3, true, 0)
}

func policiesApart(r *run) error {
	limit := fixed(1, long)
	limit.Name = "same"
	p := policy(limit)
	q, err := exact.Compile("exacttest-other", []storeless.Limit{limit})
	if err != nil {
		return err
	}
	return errors.Join(r.want(p, r.key(0), 1, true), r.want(q, r.key(0), 1, true),
		r.want(p, r.key(0), 1, false), r.want(p, r.key(1), 1, true))
}

// batches is for counters that are a Batcher too.
func batches(r *run) error {
	b, ok := r.Counter.(exact.Batcher)
	if !ok {
		return nil
	}
	p := policy(fixed(5, long))
	calls := make([]exact.Call, 8)
	for i := range calls {
		calls[i] = exact.Call{Key: r.key(0), Cost: 1, Policy: p, ID: strconv.Itoa(i)}
	}
	calls[1].ID, calls[2].ID, calls[3].ID = "0", "", ""
	verdicts, err := b.TakeAll(context.Background(), calls)
	if err != nil {
		return err
	}
	if len(verdicts) != len(calls) {
		return fmt.Errorf("%d verdicts for %d calls", len(verdicts), len(calls))
	}
	// The second is the first again; five of the others fit.
	for i, v := range verdicts {
		if v.Admitted != (i < 6) || v.Replayed != (i == 1) {
			return fmt.Errorf("call %d of a quota of 5: admitted is %t, replayed is %t", i, v.Admitted, v.Replayed)
		}
	}
	if err := r.Refund(context.Background(), verdicts[4].Receipt); err != nil {
		return err
	}
	verdicts, err = b.TakeAll(context.Background(), calls[:1])
	if err != nil || !verdicts[0].Replayed {
		return errors.Join(err, errors.New("an ID of a batch is not remembered"))
	}
	return r.want(p, r.key(0), 1, true, 0)
}
