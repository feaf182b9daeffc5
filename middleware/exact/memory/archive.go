// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
)

// Each implements [engine.Archive].
func (m *counter) Each(ctx context.Context, f func(engine.Record) error) error {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		names := slices.Collect(maps.Keys(s.accounts))
		s.mu.Unlock()
		for _, name := range names {
			r, known, err := s.record(name)
			if err == nil && known {
				err = f(r)
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// record returns a copy of an account.
func (s *shard) record(name string) (r engine.Record, known bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, known := s.accounts[name]
	if known {
		r, err = recordOf(name, a)
	}
	return r, known, err
}

// recordOf returns a copy of an account, which goes on counting.
func recordOf(name string, a *engine.Account) (engine.Record, error) {
	bytes, err := a.AppendBinary(nil)
	if err != nil {
		return engine.Record{}, err
	}
	return engine.ReadRecord(name, bytes)
}

// Restore implements [engine.Archive].
func (m *counter) Restore(ctx context.Context, r engine.Record) error {
	if err := r.Check(ctx); err != nil {
		return err
	}
	r, err := recordOf(r.Name, r.Account) // which stays the caller's
	if err != nil {
		return err
	}
	s := m.shardOf(r.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := m.now()
	s.seen.See(now)
	a, known := s.accounts[r.Name]
	switch {
	case known && a.Counts(now):
		return engine.ErrKept
	case !r.Account.Counts(now):
		return nil
	case !known && !s.room(now):
		return exact.ErrFull
	}
	s.accounts[r.Name] = r.Account
	return nil
}

// Forget implements [engine.Archive].
func (m *counter) Forget(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	s := m.shardOf(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.accounts, name)
	return nil
}
