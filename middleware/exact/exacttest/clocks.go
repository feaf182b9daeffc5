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

func stepBack(r *run) error {
	start := r.clock.Now()
	defer func() { r.clock.Advance(start.Sub(r.clock.Now())) }()
	p := policy(fixed(5, time.Minute))
	if err := r.want(p, r.key(0), 5, true, 0); err != nil {
		return err
	}
	again := exact.Call{Key: r.key(1), Cost: 1, Policy: p, ID: "again"}
	if _, err := r.Take(context.Background(), again); err != nil {
		return err
	}
	r.clock.Advance(-40 * time.Second)
	if v, err := r.Take(context.Background(), again); err != nil || !v.Replayed || v.Wait != 0 {
		return errors.Join(err, fmt.Errorf("40 s back, admitted before: %+v, want no wait", v))
	}
	v, err := r.take(p, r.key(0), 1)
	switch {
	case err != nil:
		return err
	case v.Admitted:
		return errors.New("40 s back: a fresh quota")
	case v.Wait < 100*time.Second || v.Wait > 101*time.Second || v.Limits[0].Reset != v.Wait:
		return fmt.Errorf("40 s back, at the start of a minute: a wait of %s, want 100 s", v.Wait)
	}
	r.clock.Advance(v.Wait - 2*time.Second)
	if err := r.want(p, r.key(0), 1, false, 0); err != nil {
		return fmt.Errorf("40 s back, before the wait is over: %w", err)
	}
	r.clock.Advance(2 * time.Second)
	if err := r.want(p, r.key(0), 5, true, 0); err != nil {
		return err
	}
	// A refusal, or a peek, in the next window, and back: nobody has a quota twice.
	for n, l := range []storeless.Limit{fixed(5, time.Minute), {Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Minute},
		{Quota: 5, Window: time.Minute}, {Algorithm: storeless.TokenBucket, Quota: 5, Window: time.Minute}} {
		p, key := policy(l), r.key(1+n)
		if err := r.want(p, key, 5, true, 0); err != nil {
			return err
		}
		r.clock.Advance(70 * time.Second)
		if err := r.want(p, key, 6, false); err != nil {
			return err
		}
		if _, err := r.Peek(context.Background(), exact.Call{Key: key, Cost: 1, Policy: p}); err != nil {
			return err
		}
		r.clock.Advance(-40 * time.Second)
		admitted := 0
		for range 10 {
			v, err := r.take(p, key, 1)
			if err != nil {
				return err
			}
			if v.Admitted {
				admitted++
			}
		}
		// Whether time stands still at the refusal or not, no more than fits then.
		if most := map[storeless.Algorithm]int{storeless.TokenBucket: 5, storeless.SlidingLog: 5}[l.Algorithm]; admitted > most {
			return fmt.Errorf("%s: %d admitted after a clock that stepped forth and back, want at most %d", l.Algorithm, admitted, most)
		}
		r.clock.Advance(10 * time.Minute)
	}
	return nil
}

// momentAhead has a clock be days ahead while others are counted: nobody has a fresh quota then.
func momentAhead(r *run) error {
	const keys = 64
	start := r.clock.Now()
	defer func() { r.clock.Advance(start.Sub(r.clock.Now())) }()
	p := policy(fixed(1, 24*time.Hour))
	for n := range keys {
		if err := r.want(p, r.key(n), 1, true, 0); err != nil {
			return err
		}
	}
	r.clock.Advance(3 * 24 * time.Hour)
	for n := range 3 * keys {
		if err := r.want(p, r.key(keys+n), 1, true, 0); err != nil {
			return err
		}
		r.clock.Advance(time.Second)
	}
	r.clock.Advance(start.Sub(r.clock.Now()))
	for n := range keys {
		if err := r.want(p, r.key(n), 1, false, 0); err != nil {
			return fmt.Errorf("after a clock that was 3 days ahead, while other keys were counted: %w", err)
		}
	}
	return nil
}

// wrongClock has a clock jump ahead, a quota be spent there, and the clock come back: the
// account begins anew, once, and what it was charged there is nothing to refund.
func wrongClock(r *run) error {
	start := r.clock.Now()
	defer func() { r.clock.Advance(start.Sub(r.clock.Now())) }()
	for n, l := range []storeless.Limit{
		fixed(5, time.Minute), {Quota: 5, Window: time.Minute},
		{Algorithm: storeless.TokenBucket, Quota: 5, Window: time.Minute}, {Algorithm: storeless.LeakyBucket, Quota: 5, Window: time.Minute},
		{Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Minute}, {Algorithm: storeless.RollingDay, Quota: 5, Window: 24 * time.Hour},
	} {
		p, key := policy(l), r.key(n)
		spend := func() (receipts []exact.Receipt, err error) {
			for range 10 {
				v, err := r.take(p, key, 1)
				if err != nil {
					return nil, err
				}
				if v.Admitted {
					receipts = append(receipts, v.Receipt)
				}
			}
			return receipts, nil
		}
		first, err := spend()
		if err != nil {
			return err
		}
		r.clock.Advance(365 * 24 * time.Hour)
		there, err := spend()
		if err != nil {
			return err
		}
		r.clock.Advance(time.Minute - 365*24*time.Hour)
		if err := r.Refund(context.Background(), there[0]); !errors.Is(err, exact.ErrNoRefund) {
			return fmt.Errorf("%s: a refund of what a wrong clock charged: %v, want ErrNoRefund", l.Algorithm, err)
		}
		if v, err := r.Peek(context.Background(), exact.Call{Key: key, Cost: 1, Policy: p}); err != nil || !v.Admitted {
			return errors.Join(err, fmt.Errorf("%s: a clock that was a year ahead for a moment locks out for %s", l.Algorithm, v.Wait))
		}
		again, err := spend()
		if err != nil {
			return err
		}
		if len(again) != len(first) {
			return fmt.Errorf("%s: %d admitted after a clock that was a year ahead, want %d", l.Algorithm, len(again), len(first))
		}
		if err := r.Refund(context.Background(), there[0]); !errors.Is(err, exact.ErrNoRefund) {
			return fmt.Errorf("%s: a late refund of what a wrong clock charged: %v, want ErrNoRefund", l.Algorithm, err)
		}
		if err := r.Refund(context.Background(), again[0]); err != nil {
			return fmt.Errorf("%s: a refund after a wrong clock: %w", l.Algorithm, err)
		}
		if more, err := spend(); err != nil || len(more) != 1 {
			return errors.Join(err, fmt.Errorf("%s: %d admitted after a refund, want 1", l.Algorithm, len(more)))
		}
	}
	return nil
}
