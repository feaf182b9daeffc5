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

// archives moves an account again and again while it is used: out of the counter, into one in
// memory, and back, where it was forgotten meanwhile. It counts on as if it had stayed.
func archives(r *run) error {
	c, ok := r.archive()
	if !ok {
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

// archive returns the counter if it can list its accounts.
func (r *run) archive() (c exact.Archive, ok bool) {
	if c, ok = r.Counter.(exact.Archive); !ok {
		return nil, false
	}
	err := c.Each(context.Background(), func(exact.Record) error { return errFound })
	return c, !errors.Is(err, exact.ErrNoArchive)
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

// emptied moves accounts that count nothing, as all that they were charged came back or has ended,
// with a pause and without: from the counter itself and from one in memory.
func emptied(r *run) error {
	c, ok := r.archive()
	if !ok {
		return nil
	}
	start := r.clock.Now()
	defer func() { r.clock.Advance(start.Sub(r.clock.Now())) }()
	n := 0
	for algorithm := range storeless.RollingDay + 1 {
		l := storeless.Limit{Algorithm: algorithm, Quota: 1, Window: time.Second}
		if algorithm == storeless.RollingDay {
			l.Window = 24 * time.Hour
		}
		p := policy(l)
		for _, from := range []exact.Archive{c, exact.NewMemory(0, r.clock.Now)} {
			for _, is := range []struct{ back, paused bool }{{true, false}, {true, true}, {false, true}} {
				n++
				if err := r.movesEmpty(c, from, p, r.key(n), is.back, is.paused); err != nil {
					return fmt.Errorf("%v, from %T, given back: %t, paused: %t: %w", algorithm, from, is.back, is.paused, err)
				}
			}
		}
	}
	return nil
}

// movesEmpty moves an account that was charged once, and counts nothing.
func (r *run) movesEmpty(c, from exact.Archive, p *exact.Policy, key string, back, paused bool) error {
	ctx, call := context.Background(), exact.Call{Key: key, Cost: 1, Policy: p}
	v, err := from.Take(ctx, call)
	if err != nil {
		return err
	}
	if back {
		err = from.Refund(ctx, v.Receipt)
	} else {
		r.clock.Advance(2*p.Limit(0).Window + time.Second)
	}
	if err != nil {
		return err
	}
	if paused {
		if _, err = from.Take(ctx, exact.Call{Key: key, Policy: p, Pause: time.Minute}); err != nil {
			return err
		}
	}
	name := p.AccountName(key)
	out, err := recordOf(from, name)
	if errors.Is(err, errUnlisted) && !paused {
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.Forget(ctx, name); err != nil {
		return err
	}
	if err := c.Restore(ctx, out); err != nil {
		return err
	}
	if err := r.Refund(ctx, v.Receipt); !errors.Is(err, exact.ErrNoRefund) {
		return fmt.Errorf("given back: %v, want ErrNoRefund", err)
	}
	if paused {
		if _, err := recordOf(c, name); err != nil {
			return err
		}
		if err := r.want(p, key, 1, false); err != nil {
			return err
		}
	}
	v, err = r.Take(ctx, exact.Call{Key: key, Cost: 2, Policy: p, Past: true})
	if err != nil {
		return err
	}
	if err := r.Refund(ctx, v.Receipt); err != nil {
		return err
	}
	if !paused {
		return r.want(p, key, 1, true, 0)
	}
	return nil
}

var errFound, errUnlisted = errors.New("found"), errors.New("an account that counts is not listed")

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
		err = errUnlisted
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
