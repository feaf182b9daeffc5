// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

func refunds(r *run) error {
	p := policy(fixed(5, long), storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 5, Window: long})
	v, err := r.take(p, r.key(0), 3)
	if err != nil {
		return err
	}
	if err := r.want(p, r.key(0), 1, true, 1, 1); err != nil {
		return err
	}
	if err := r.Refund(context.Background(), v.Receipt); err != nil {
		return fmt.Errorf("refund: %w", err)
	}
	for range 3 {
		if err := r.Refund(context.Background(), v.Receipt); !errors.Is(err, exact.ErrNoRefund) {
			return fmt.Errorf("a second refund: %v, want ErrNoRefund", err)
		}
	}
	second, err := r.take(p, r.key(1), 1)
	if err != nil {
		return err
	}
	third, err := r.take(p, r.key(1), 1)
	if err != nil {
		return err
	}
	if err := errors.Join(r.Refund(context.Background(), second.Receipt), r.Refund(context.Background(), third.Receipt)); err != nil {
		return fmt.Errorf("two refunds: %w", err)
	}
	other := v.Receipt
	other.Key = r.key(2)
	for what, receipt := range map[string]exact.Receipt{"given back before another": second.Receipt, "of a key that was never counted": other} {
		if err := r.Refund(context.Background(), receipt); !errors.Is(err, exact.ErrNoRefund) {
			return fmt.Errorf("a refund %s: %v, want ErrNoRefund", what, err)
		}
	}
	if err := r.Refund(context.Background(), exact.Receipt{}); !errors.Is(err, exact.ErrNoRefund) {
		return fmt.Errorf("a refund of nothing: %v, want ErrNoRefund", err)
	}
	return r.want(p, r.key(0), 4, true, 0, 0)
}

func partRefunds(r *run) error {
	p := policy(fixed(5, long))
	v, err := r.take(p, r.key(0), 5)
	if err != nil {
		return err
	}
	part := v.Receipt
	part.Cost = 2
	if err := r.Refund(context.Background(), part); err != nil {
		return fmt.Errorf("2 of 5: %w", err)
	}
	if err := r.Refund(context.Background(), v.Receipt); !errors.Is(err, exact.ErrNoRefund) {
		return fmt.Errorf("the rest, after a part: %v, want ErrNoRefund", err)
	}
	return r.want(p, r.key(0), 2, true, 0)
}

// refundsOfLongAgo gives back the last charge but so many, and the one before it.
func refundsOfLongAgo(r *run) error {
	const between = exact.Refundable - 2
	p := policy(storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 3 * exact.Refundable, Window: long}) // not leased
	var receipts [3]exact.Receipt
	for i := range receipts {
		v, err := r.take(p, r.key(0), 1)
		if err != nil {
			return err
		}
		receipts[i] = v.Receipt
	}
	call := exact.Call{Key: r.key(0), Cost: 1, Policy: p}
	if _, err := r.flood(between, func(int) exact.Call { return call }); err != nil {
		return err
	}
	back := func(i int) error { return r.Refund(context.Background(), receipts[i]) }
	if err := back(1); err != nil {
		return fmt.Errorf("of the last %d charges the first: %w", exact.Refundable, err)
	}
	if err := back(1); !errors.Is(err, exact.ErrNoRefund) || errors.Is(err, exact.ErrLateRefund) {
		return fmt.Errorf("once more: %v, want ErrNoRefund", err)
	}
	if err := back(0); !errors.Is(err, exact.ErrLateRefund) {
		return fmt.Errorf("the one before it: %v, want ErrLateRefund", err)
	}
	if err := r.want(p, r.key(0), 1, true); err != nil {
		return err
	}
	if err := back(2); err != nil {
		return fmt.Errorf("of the last %d charges the first, after another was given back: %w", exact.Refundable, err)
	}
	return r.want(p, r.key(0), 1, true)
}

func lateRefunds(r *run) error {
	start := r.clock.Now()
	defer func() { r.clock.Advance(start.Sub(r.clock.Now())) }()
	p := policy(fixed(5, time.Minute))
	old, err := r.take(p, r.key(0), 3)
	if err != nil {
		return err
	}
	r.clock.Advance(time.Minute)
	if err := r.want(p, r.key(0), 3, true, 2); err != nil {
		return err
	}
	if err := r.Refund(context.Background(), old.Receipt); !errors.Is(err, exact.ErrNoRefund) {
		return fmt.Errorf("in the next window: %v, want ErrNoRefund", err)
	}
	return r.want(p, r.key(0), 2, true, 0)
}
