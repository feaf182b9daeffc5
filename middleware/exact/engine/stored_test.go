// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
)

// A table is an engine that can keep some bytes for a key, with a transaction at a time.
type table struct {
	mu   sync.Mutex
	rows map[string][]byte
}

// A stored counter is what a user would write for it: one of several processes on a table.
type stored struct {
	*table
	now func() time.Time

	lose   bool  // the answer of the next commit
	failed error // what it is taken for
	twice  bool  // it keeps no IDs
}

var errCut = errors.New("the connection was cut")

// change loads an account, has it changed, and stores it if it was.
func (s *stored) change(name string, change func(*engine.Account) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var a engine.Account
	if b := s.rows[name]; b != nil {
		if err := a.UnmarshalBinary(b); err != nil {
			return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
		}
	}
	if !change(&a) {
		return nil
	}
	b, err := a.AppendBinary(nil)
	if err != nil {
		return err
	}
	s.rows[name] = b
	if s.lose {
		s.lose = false
		return s.failed
	}
	return nil
}

func (s *stored) Take(ctx context.Context, call exact.Call) (v exact.Verdict, err error) {
	if err := call.Check(ctx); err != nil {
		return v, err
	}
	if s.twice {
		call.ID = ""
	}
	err = s.change(call.Policy.AccountName(call.Key), func(a *engine.Account) bool {
		v = a.Take(s.now(), &call)
		if v.Admitted && a.Expires().IsZero() {
			panic("what was charged expires")
		}
		return v.Admitted && !v.Replayed
	})
	if err != nil {
		return exact.Verdict{}, err
	}
	return v, nil
}

func (s *stored) Peek(ctx context.Context, call exact.Call) (v exact.Verdict, err error) {
	if err := call.Check(ctx); err != nil {
		return v, err
	}
	return v, s.change(call.Policy.AccountName(call.Key), func(a *engine.Account) bool {
		v = a.Peek(s.now(), &call)
		return false
	})
}

func (s *stored) Refund(_ context.Context, r exact.Receipt) error {
	if r.Policy == nil {
		return exact.ErrNoRefund
	}
	var refused error
	err := s.change(r.Policy.AccountName(r.Key), func(a *engine.Account) bool {
		refused = a.Refund(s.now(), &r)
		return refused == nil
	})
	return cmp.Or(err, refused)
}

// suiteOf tests stored counters on one table.
func suiteOf(change func(*stored)) error {
	clock, shared := exacttest.NewClock(), &table{rows: map[string][]byte{}}
	return (&exacttest.Suite{
		Open: func() (exact.Counter, error) {
			s := &stored{table: shared, now: clock.Now, failed: fmt.Errorf("%w: %w", exact.ErrMaybeCounted, errCut)}
			if change != nil {
				change(s)
			}
			return s, nil
		},
		Clock:      clock,
		LoseAnswer: func(c exact.Counter) { c.(*stored).lose = true },
	}).Test()
}

// An engine that stores accounts, and no more, counts exactly: over several processes, and
// where the answer of a commit is lost.
func TestStoredAccountsAreACounter(t *testing.T) { require.NoError(t, suiteOf(nil)) }

// The suite names what such an engine does wrong.
func TestSuiteCatchesBrokenEngines(t *testing.T) {
	err := suiteOf(func(s *stored) { s.failed = exact.ErrNotCounted })
	require.ErrorContains(t, err, "an answer that is lost: a call that was counted")
	require.ErrorContains(t, err, "an answer of a refund that is lost: a refund that was given")
	err = suiteOf(func(s *stored) { s.twice = true })
	require.ErrorContains(t, err, "an answer that is lost: a call whose answer was lost, asked for again")
	require.ErrorContains(t, err, "an ID is known to all: ")
	err = suiteOf(func(s *stored) { s.table = &table{rows: map[string][]byte{}} })
	require.ErrorContains(t, err, "an ID is known to all: ")
	require.NotContains(t, err.Error(), "an answer that is lost")
}

// What an author reads first counts exactly.
func TestTheExampleCountsExactly(t *testing.T) {
	clock := exacttest.NewClock()
	require.NoError(t, exacttest.TestCounter(func() (exact.Counter, error) {
		return &drawer{bytes: map[string][]byte{}, now: clock.Now}, nil
	}, clock))
}
