// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"fmt"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
)

// Each implements [engine.Archive]. It sees what is on disk, and blocks no call.
func (c *counter) Each(ctx context.Context, f func(engine.Record) error) error {
	c.mu.Lock()
	err := c.stopped()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.accounts.each(func(some []account) error {
		for _, a := range some {
			if err := ctx.Err(); err != nil {
				return err
			}
			r, err := engine.ReadRecord(a.name, []byte(a.bytes))
			if err == nil {
				err = f(r)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Restore implements [engine.Archive].
func (c *counter) Restore(ctx context.Context, r engine.Record) error {
	if err := r.Check(ctx); err != nil {
		return err
	}
	b, err := r.Account.AppendBinary(nil)
	if err == nil {
		r, err = engine.ReadRecord(r.Name, b) // it is charged from now on, and the other is the caller's
	}
	if err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	return c.do(&job{ctx: ctx, name: r.Name, account: r.Account}).err
}

// Forget implements [engine.Archive].
func (c *counter) Forget(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	return c.do(&job{ctx: ctx, name: name, account: new(engine.Account)}).err
}
