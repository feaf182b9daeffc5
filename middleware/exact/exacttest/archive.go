// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"context"
	"errors"
	"fmt"

	"github.com/tallystick/tallystick/middleware/exact"
)

// archives moves an account again and again while it is used: out of the counter, into one in
// memory, and back, where it was forgotten meanwhile. It counts on as if it had stayed.
func archives(r *run) error {
	c, ok := r.Counter.(exact.Archive)
	if !ok {
		return nil
	}
	if err := c.Each(context.Background(), func(exact.Record) error { return errFound }); errors.Is(err, exact.ErrNoArchive) {
		return nil
	}
	moved := 0
	err := r.isOfAccounts(func(step int, name string) error {
		if step%67 != 66 {
			return nil
		}
		moved++
		return r.moves(c, name)
	})
	if err == nil && moved == 0 {
		err = errors.New("nothing was moved")
	}
	return err
}

// moves moves an account, by way of a counter in memory.
func (r *run) moves(c exact.Archive, name string) error {
	ctx, m := context.Background(), exact.NewMemory(0, r.clock.Now)
	out, err := recordOf(c, name)
	if err != nil {
		return err
	}
	if err := c.Restore(ctx, out); !errors.Is(err, exact.ErrKept) {
		return fmt.Errorf("restored where there is an account: %v, want ErrKept", err)
	}
	if err := c.Forget(ctx, name); err != nil {
		return fmt.Errorf("forgotten: %w", err)
	}
	if err := c.Forget(ctx, name); err != nil {
		return fmt.Errorf("forgotten twice: %w", err)
	}
	if err := m.Restore(ctx, out); err != nil {
		return fmt.Errorf("restored in memory: %w", err)
	}
	back, err := recordOf(m, name)
	if err != nil {
		return fmt.Errorf("in memory: %w", err)
	}
	if err := c.Restore(ctx, back); err != nil {
		return fmt.Errorf("restored: %w", err)
	}
	return nil
}

var errFound = errors.New("found")

// recordOf returns the record of a name.
func recordOf(c exact.Archive, name string) (found exact.Record, err error) {
	err = c.Each(context.Background(), func(r exact.Record) error {
		if r.Name != name {
			return nil
		}
		found = r
		return errFound
	})
	if err == nil {
		err = errors.New("an account that counts is not listed")
	} else if errors.Is(err, errFound) {
		err = nil
	}
	return found, err
}

// forgotten checks that Forget forgets one account, whole, and no other.
func forgotten(r *run) error {
	c, ok := r.Counter.(exact.Archive)
	if !ok {
		return nil
	}
	ctx, p := context.Background(), policy(each(5)...)
	for n := range 3 {
		if err := r.want(p, r.key(n), 5, true); err != nil {
			return err
		}
	}
	old, err := r.Take(ctx, exact.Call{Key: r.key(1), Cost: 1, Policy: p, Past: true})
	if err != nil {
		return err
	}
	if _, err := r.Take(ctx, exact.Call{Key: r.key(1), Policy: p, Pause: exact.MaxPause}); err != nil {
		return err
	}
	if err := c.Forget(ctx, p.AccountName(r.key(3))); err != nil {
		return fmt.Errorf("one that was never counted: %w", err)
	}
	if err := c.Forget(ctx, p.AccountName(r.key(1))); err != nil {
		return err
	}
	if err := r.Refund(ctx, old.Receipt); !errors.Is(err, exact.ErrNoRefund) {
		return fmt.Errorf("a receipt of what was forgotten: %v, want ErrNoRefund", err)
	}
	for n, admitted := range []bool{false, true, false} {
		if err := r.want(p, r.key(n), 5, admitted); err != nil {
			return fmt.Errorf("key %d: %w", n, err)
		}
	}
	if err := r.Refund(ctx, old.Receipt); !errors.Is(err, exact.ErrNoRefund) {
		return fmt.Errorf("a receipt of the account before: %v, want ErrNoRefund", err)
	}
	return nil
}
