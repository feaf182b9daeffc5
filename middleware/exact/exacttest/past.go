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

// each has one limit of each algorithm, all of so much in a day.
func each(quota int64) []storeless.Limit {
	var limits []storeless.Limit
	for _, a := range []storeless.Algorithm{storeless.SlidingWindow, storeless.FixedWindow, storeless.TokenBucket, storeless.SlidingLog, storeless.RollingDay} {
		limits = append(limits, storeless.Limit{Name: a.String(), Algorithm: a, Quota: quota, Window: 24 * time.Hour})
	}
	return limits
}

// past charges without asking for room, and gives it back.
func past(r *run) error {
	for n, l := range each(5) {
		p, key := policy(l), r.key(n)
		call := exact.Call{Key: key, Cost: 12, Policy: p, Past: true, ID: "a"}
		if said, err := r.Peek(context.Background(), call); err != nil || !said.Admitted || said.Impossible || said.Limits[0].Remaining != 5 {
			return errors.Join(err, fmt.Errorf("%s: a peek at 12 past a quota of 5: %+v", l.Algorithm, said.Verdict))
		}
		first, err := r.Take(context.Background(), call)
		if err != nil {
			return err
		}
		if !first.Admitted || first.Impossible || first.Wait != 0 || first.Limits[0].Remaining != 0 {
			return fmt.Errorf("%s: 12 past a quota of 5: %+v, want admitted, none remaining", l.Algorithm, first.Verdict)
		}
		if again, err := r.Take(context.Background(), call); err != nil || !again.Replayed || again.Receipt.Serial != first.Receipt.Serial {
			return errors.Join(err, fmt.Errorf("%s: the same ID again: %+v, want the first verdict, Replayed", l.Algorithm, again))
		}
		v, err := r.take(p, key, 1)
		if err != nil {
			return err
		}
		if v.Admitted || v.Impossible || v.Wait <= 0 {
			return fmt.Errorf("%s: one more: %+v, want a refusal with its wait", l.Algorithm, v.Verdict)
		}
		call.Cost, call.ID = 3, ""
		second, err := r.Take(context.Background(), call)
		if err != nil || !second.Admitted {
			return errors.Join(err, fmt.Errorf("%s: past a limit that is passed: admitted is %t", l.Algorithm, second.Admitted))
		}
		if err := errors.Join(r.Refund(context.Background(), first.Receipt), r.Refund(context.Background(), second.Receipt)); err != nil {
			return fmt.Errorf("%s: given back: %w", l.Algorithm, err)
		}
		if err := r.Refund(context.Background(), first.Receipt); !errors.Is(err, exact.ErrNoRefund) {
			return fmt.Errorf("%s: given back twice: %v, want ErrNoRefund", l.Algorithm, err)
		}
		if l.Algorithm == storeless.TokenBucket {
			continue // what leaks meanwhile is not given back: so little that nobody can tell how much
		}
		if err := r.want(p, key, 5, true, 0); err != nil {
			return fmt.Errorf("%s: %w", l.Algorithm, err)
		}
	}
	return nil
}

// pastWaits checks that what was charged past a limit is owed for as long as the refusal says,
// and no longer.
func pastWaits(r *run) error {
	start := r.clock.Now()
	defer func() { r.clock.Advance(start.Sub(r.clock.Now())) }()
	for n, l := range each(5) {
		p, key := policy(l), r.key(n)
		if v, err := r.Take(context.Background(), exact.Call{Key: key, Cost: 12, Policy: p, Past: true}); err != nil || !v.Admitted {
			return errors.Join(err, fmt.Errorf("%s: past: admitted is %t", l.Algorithm, v.Admitted))
		}
		v, err := r.take(p, key, 1)
		if err != nil {
			return err
		}
		if v.Admitted || v.Wait <= 0 || v.Limits[0].Reset != v.Wait {
			return fmt.Errorf("%s: %+v, want a refusal with its wait", l.Algorithm, v.Verdict)
		}
		r.clock.Advance(v.Wait - time.Second)
		if err := r.want(p, key, 1, false, 0); err != nil {
			return fmt.Errorf("%s: a second before its time: %w", l.Algorithm, err)
		}
		r.clock.Advance(time.Second)
		if err := r.want(p, key, 1, true); err != nil {
			return fmt.Errorf("%s: when its time has come: %w", l.Algorithm, err)
		}
	}
	return nil
}

// settled plays a client whose calls are estimated far too low, and settled one after the other:
// in no window, and of a bucket in no time at all, do they cost more than the limit admits and
// what one was estimated too low.
func settled(r *run) error {
	start := r.clock.Now()
	defer func() { r.clock.Advance(start.Sub(r.clock.Now())) }()
	const quota, estimate, cost = 5, 1, 12
	for n, l := range each(quota) {
		p, key := policy(l), r.key(n)
		windows, began := map[int64]int64{}, r.clock.Now()
		var admitted []time.Duration
		for call := range 40 {
			v, err := r.take(p, key, estimate)
			if err != nil {
				return err
			}
			now := r.clock.Now()
			r.clock.Advance(5 * time.Hour)
			switch {
			case !v.Admitted:
				continue
			case call%3 == 0:
				err = r.Refund(context.Background(), v.Receipt)
				if errors.Is(err, exact.ErrNoRefund) {
					err = nil // its window has ended
				}
			default:
				windows[now.Unix()/int64(l.Window/time.Second)] += cost
				admitted = append(admitted, now.Sub(began))
				_, err = r.Take(context.Background(), exact.Call{Key: key, Cost: cost - estimate, Policy: p, Past: true})
			}
			if err != nil {
				return fmt.Errorf("%s: %w", l.Algorithm, err)
			}
		}
		if len(admitted) < 2 {
			return fmt.Errorf("%s: %d calls of 40 admitted, want more", l.Algorithm, len(admitted))
		}
		for window, sum := range windows {
			if sum > quota+cost-estimate && l.Algorithm != storeless.TokenBucket {
				return fmt.Errorf("%s: what was admitted in window %d cost %d, more than %d and %d", l.Algorithm, window, sum, quota, cost-estimate)
			}
		}
		for i, first := range admitted {
			for j, last := range admitted[i:] {
				most := quota + int64((last-first)/(l.Window/quota)) + cost - estimate
				if sum := int64(j+1) * cost; sum > most && l.Algorithm == storeless.TokenBucket {
					return fmt.Errorf("%s: what was admitted in %s cost %d, more than %d", l.Algorithm, last-first, sum, most)
				}
			}
		}
	}
	return nil
}
