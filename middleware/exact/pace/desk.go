// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
)

// A desk calls the counter, each time with the same deadline. Its calls do not use a
// waiting call's context: when that ends, the call leaves, and the late answer tells what
// to refund.
type desk struct {
	counter  exact.Counter
	key      string
	units    []unit
	gate     *exact.Policy // of an account that counts nothing, and knows of pauses
	deadline time.Duration
}

// book books n of a unit, at most ahead in advance. A lost answer is retried once.
func (d *desk) book(u int, n int64, ahead time.Duration) (v exact.Verdict, err error) {
	call := exact.Call{Key: d.key, Cost: n, Policy: d.units[u].policy, ID: rand.Text(), Ahead: ahead}
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), d.deadline)
		v, err = d.counter.Take(ctx, call)
		cancel()
		if err == nil || errors.Is(err, exact.ErrNotCounted) {
			break
		}
	}
	return v, err
}

// giveBack refunds bookings. It retries once after a lost answer; beyond that the booking
// leaks out.
func (d *desk) giveBack(given []held) {
	for _, h := range given {
		for range 2 {
			ctx, cancel := context.WithTimeout(context.Background(), d.deadline)
			err := d.counter.Refund(ctx, h.receipt)
			cancel()
			if err == nil || errors.Is(err, exact.ErrNoRefund) {
				break
			}
		}
	}
}

// pause blocks bookings before a moment, on all units. The gate comes last: a process that
// sees the pause there books behind it everywhere.
func (d *desk) pause(ctx context.Context, until time.Time) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.deadline)
	defer cancel()
	policies := make([]*exact.Policy, 0, maxUnits+1)
	for _, u := range d.units {
		policies = append(policies, u.policy)
	}
	for _, p := range append(policies, d.gate) {
		// What is left of it, so that it ends everywhere at once.
		call := exact.Call{Key: d.key, Policy: p, Pause: max(1, min(exact.MaxPause, time.Until(until)))}
		_, e := d.counter.Take(ctx, call)
		err = errors.Join(err, e)
	}
	return err
}

// paused returns the rest of a pause. The gate's account is never charged, so its wait is
// the pause alone.
func (d *desk) paused(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, d.deadline)
	defer cancel()
	v, err := d.counter.Peek(ctx, exact.Call{Key: d.key, Cost: 1, Policy: d.gate, Ahead: exact.MaxAhead})
	if err == nil && !v.Admitted {
		v.Wait += exact.MaxAhead // it says when to ask again
	}
	return v.Wait, err
}
