// SPDX-License-Identifier: Apache-2.0

package cas

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
)

// Each implements [engine.Archive].
func (c *counter) Each(ctx context.Context, f func(engine.Record) error) error {
	store, ok := c.engine.store.(ListedStore)
	if !ok {
		return exact.ErrNoArchive
	}
	return store.Each(ctx, func(name string, value []byte) error {
		account, err := hex.DecodeString(name)
		if err != nil || len(value) == 0 {
			return err
		}
		r, err := engine.ReadRecord(string(account), value)
		if err != nil {
			return err
		}
		return f(r)
	})
}

// Restore implements [engine.Archive].
func (c *counter) Restore(ctx context.Context, r engine.Record) error {
	if err := r.Check(ctx); err != nil {
		return err
	}
	var kept error
	err := c.engine.update(ctx, r.Name, false, func(a *engine.Account, now time.Time) (changed bool) {
		if kept = nil; a.Counts(now) {
			kept = engine.ErrKept
			return false
		}
		*a = *r.Account
		return a.Counts(now)
	})
	return cmp.Or(err, kept)
}

// Forget implements [engine.Archive].
func (c *counter) Forget(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	return c.engine.update(ctx, name, false, func(a *engine.Account, _ time.Time) (changed bool) {
		changed = !a.Expires().IsZero()
		*a = engine.Account{}
		return changed
	})
}
