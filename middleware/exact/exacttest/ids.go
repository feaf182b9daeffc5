// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/tallystick/tallystick/middleware/exact"
)

func ids(r *run) error {
	p := policy(fixed(2, long))
	call := func(key, id string) (exact.Verdict, error) {
		return r.Take(context.Background(), exact.Call{Key: key, Cost: 1, Policy: p, ID: id})
	}
	first, err := call(r.key(0), "a")
	if err != nil {
		return err
	}
	for range 5 {
		again, err := call(r.key(0), "a")
		if err != nil {
			return err
		}
		if !again.Admitted || !again.Replayed || again.Receipt != first.Receipt {
			return fmt.Errorf("the same ID again: %+v, want the first verdict, Replayed", again)
		}
	}
	if v, err := call(r.key(1), "a"); err != nil || v.Replayed {
		return errors.Join(err, errors.New("the ID of another key is Replayed"))
	}
	if err := r.want(p, r.key(0), 1, true, 0); err != nil {
		return err
	}
	refused, err := call(r.key(0), "b")
	if err != nil {
		return err
	}
	again, err := call(r.key(0), "b")
	if err != nil {
		return err
	}
	if refused.Admitted || again.Admitted || again.Replayed && again.Wait != refused.Wait {
		return fmt.Errorf("a refusal, asked for again by its ID: %+v, want the same refusal, or another", again)
	}
	if err := r.Refund(context.Background(), first.Receipt); err != nil {
		return err
	}
	// A counter that keeps no refusals decides it anew, and may now admit it: once.
	if again, err = call(r.key(0), "b"); err != nil {
		return err
	}
	if again.Admitted == again.Replayed {
		return fmt.Errorf("a refusal, asked for again by its ID when there is room: admitted is %t, replayed is %t", again.Admitted, again.Replayed)
	}
	if again.Admitted {
		if again, err = call(r.key(0), "b"); err != nil || !again.Replayed {
			return errors.Join(err, errors.New("a refusal, admitted when it was asked for again, is not remembered"))
		}
		return r.want(p, r.key(0), 1, false, 0)
	}
	return r.want(p, r.key(0), 1, true, 0)
}

func idsAtOnce(r *run) error {
	p := policy(fixed(1000, long))
	got, err := r.flood(2000, func(n int) exact.Call {
		return exact.Call{Key: r.key(0), Cost: 1, Policy: p, ID: strconv.Itoa(n % 100)}
	})
	if err == nil && got != 2000 {
		err = fmt.Errorf("100 IDs, 20 times each: %d admitted, want all", got)
	}
	if err != nil {
		return err
	}
	v, err := r.Peek(context.Background(), exact.Call{Key: r.key(0), Cost: 1, Policy: p})
	if err == nil && v.Limits[0].Remaining != 1000-100 {
		err = fmt.Errorf("100 IDs, 20 times each, are counted %d times", 1000-v.Limits[0].Remaining)
	}
	return err
}

// idsElsewhere repeats calls with another counter on the same engine.
func idsElsewhere(r *run) (err error) {
	other, done, err := r.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	call := exact.Call{Key: r.key(0), Cost: 1, Policy: policy(fixed(5, long)), ID: "a"}
	first, err := r.Take(context.Background(), call)
	if err != nil {
		return err
	}
	again, err := other.Take(context.Background(), call)
	if err != nil {
		return err
	}
	if !again.Admitted || !again.Replayed || again.Receipt.Serial != first.Receipt.Serial || !again.Receipt.At.Equal(first.Receipt.At) {
		return fmt.Errorf("the same ID of another process: %+v, want the first verdict, Replayed", again)
	}
	if err := other.Refund(context.Background(), again.Receipt); err != nil {
		return fmt.Errorf("a refund by another process: %w", err)
	}
	return r.want(call.Policy, r.key(0), 1, true, 4)
}

// lostTake repeats calls whose answers were lost, until one has come: each is counted once.
func lostTake(r *run) error {
	p := policy(fixed(5, long))
	call := exact.Call{Key: r.key(0), Cost: 1, Policy: p, ID: "a"}
	r.loseAnswer(r.Counter)
	first, err := r.Take(context.Background(), call)
	switch { // it may have asked again itself
	case err == nil && !first.Admitted:
		return errors.New("a call whose answer was lost is refused")
	case errors.Is(err, exact.ErrNotCounted):
		return fmt.Errorf("a call that was counted: %w", err)
	}
	v, err := r.Take(context.Background(), call)
	if err != nil {
		return fmt.Errorf("asked for again: %w", err)
	}
	if !v.Admitted || v.Limits[0].Remaining != 4 {
		return fmt.Errorf("a call whose answer was lost, asked for again: admitted is %t, %d of 5 remaining, want 4", v.Admitted, v.Limits[0].Remaining)
	}
	if err := r.Refund(context.Background(), v.Receipt); err != nil {
		return fmt.Errorf("the receipt of the repeat: %w", err)
	}
	return r.want(p, r.key(0), 1, true, 4)
}

// lostRefund repeats a refund whose answer was lost: it is given once.
func lostRefund(r *run) error {
	p := policy(fixed(5, long))
	for range 2 {
		if err := r.want(p, r.key(0), 1, true); err != nil {
			return err
		}
	}
	v, err := r.take(p, r.key(0), 1)
	if err != nil {
		return err
	}
	r.loseAnswer(r.Counter)
	if err := r.Refund(context.Background(), v.Receipt); errors.Is(err, exact.ErrNotCounted) {
		return fmt.Errorf("a refund that was given: %w", err)
	}
	if err := r.Refund(context.Background(), v.Receipt); err != nil && !errors.Is(err, exact.ErrNoRefund) {
		return fmt.Errorf("asked for again: %w, want none or ErrNoRefund", err)
	}
	return r.want(p, r.key(0), 1, true, 2)
}
