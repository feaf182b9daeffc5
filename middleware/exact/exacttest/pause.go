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

// pauses of keys that have counted nothing, and of one that has.
func pauses(r *run) error {
	p := policy(fixed(5, long))
	for n := range 2 {
		key := r.key(n)
		if n == 1 {
			if err := r.want(p, key, 2, true, 3); err != nil {
				return err
			}
		}
		v, err := r.Take(context.Background(), exact.Call{Key: key, Policy: p, Pause: time.Hour, ID: "a"})
		if err != nil {
			return err
		}
		if !v.Admitted {
			return errors.New("a pause is refused")
		}
		if err := r.Refund(context.Background(), v.Receipt); !errors.Is(err, exact.ErrNoRefund) {
			return fmt.Errorf("a pause given back: %v, want ErrNoRefund", err)
		}
		// A shorter one changes nothing.
		if _, err := r.Take(context.Background(), exact.Call{Key: key, Policy: p, Pause: time.Minute}); err != nil {
			return err
		}
		for _, ask := range []func(context.Context, exact.Call) (exact.Verdict, error){r.Take, r.Peek} {
			v, err := ask(context.Background(), exact.Call{Key: key, Cost: 1, Policy: p})
			if err != nil {
				return err
			}
			if v.Admitted || v.Impossible || v.Wait <= 50*time.Minute || v.Wait > time.Hour || v.Limits[0].Remaining != 0 {
				return fmt.Errorf("in a pause of an hour: %+v, want a refusal for it", v.Verdict)
			}
		}
		if v, err := r.Take(context.Background(), exact.Call{Key: key, Cost: 1, Policy: p, Past: true}); err != nil || !v.Admitted {
			return errors.Join(err, errors.New("what was used already is refused in a pause"))
		}
	}
	return r.want(p, r.key(2), 5, true, 0)
}

// pauseEnds checks that nothing is admitted or booked in a pause, that what was booked before
// stays, and that all is as before when it is over.
func pauseEnds(r *run) error {
	start := r.clock.Now()
	defer func() { r.clock.Advance(start.Sub(r.clock.Now())) }()
	p, key := policy(storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 1, Window: time.Second}), r.key(0)
	var waits []int64
	for n := range 5 {
		if n == 3 {
			if _, err := r.Take(context.Background(), exact.Call{Key: key, Policy: p, Pause: 20 * time.Second}); err != nil {
				return err
			}
		}
		v, err := r.book(p, key, "")
		if err != nil {
			return err
		}
		waits = append(waits, int64(v.Wait/time.Second))
	}
	if want := "[0 1 2 20 21]"; fmt.Sprint(waits) != want {
		return fmt.Errorf("three booked, a pause of 20 s, two booked: seconds %v, want %s", waits, want)
	}
	refused, err := r.Take(context.Background(), exact.Call{Key: r.key(1), Policy: p, Pause: 20 * time.Second})
	if err != nil || !refused.Admitted {
		return errors.Join(err, errors.New("a pause is refused"))
	}
	if refused, err = r.Take(context.Background(), exact.Call{Key: r.key(1), Cost: 1, Policy: p, Ahead: 5 * time.Second}); err != nil {
		return err
	}
	if refused.Admitted || refused.Wait != 15*time.Second {
		return fmt.Errorf("5 s ahead in a pause of 20 s: admitted is %t, wait %s, want a refusal for 15 s", refused.Admitted, refused.Wait)
	}
	if refused, err = r.take(p, r.key(1), 1); err != nil {
		return err
	}
	if refused.Admitted || refused.Wait != 20*time.Second {
		return fmt.Errorf("in a pause of 20 s: admitted is %t, wait %s", refused.Admitted, refused.Wait)
	}
	r.clock.Advance(20*time.Second - time.Microsecond)
	if err := r.want(p, r.key(1), 1, false, 0); err != nil {
		return fmt.Errorf("before the pause is over: %w", err)
	}
	r.clock.Advance(time.Microsecond)
	return r.want(p, r.key(1), 1, true, 0)
}
