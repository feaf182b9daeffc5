// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
)

// A Store is a [cas.Store] in a table. It is safe for concurrent use, and needs no closing.
type Store interface {
	cas.TimedStore
	cas.ListedStore

	// CreateSchema makes the table and its index where there are none, and changes nothing that is
	// there. Many may ask for it at once. It needs the right to create, which counting does not: a program that
	// shall not have it has it called elsewhere, or makes what the package shows.
	CreateSchema(ctx context.Context) error
}

type store struct {
	db         *sql.DB
	statements statements
}

// CreateSchema implements [Store].
func (s *store) CreateSchema(ctx context.Context) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("sql: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	for _, statement := range s.statements.schema {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("sql: %w", err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("sql: %w", err)
	}
	return nil
}

// tries is how often a statement is run that a server cannot serialize with others, where that
// is not for a counter of package cas to do, or on a connection that turns out to be closed.
const tries = 3

// Load implements [cas.Store].
func (s *store) Load(ctx context.Context, name string) (value []byte, revision string, err error) {
	value, revision, _, err = s.LoadAt(ctx, name)
	return value, revision, err
}

// LoadAt implements [cas.TimedStore].
func (s *store) LoadAt(ctx context.Context, name string) (value []byte, revision string, now time.Time, err error) {
	var is sql.NullInt64
	var micros int64
	for range tries {
		err = s.db.QueryRowContext(ctx, s.statements.load, name).Scan(&value, &is, &micros)
		if err = classify(err); !errors.Is(err, cas.ErrChanged) {
			break
		}
	}
	switch {
	case errors.Is(err, cas.ErrChanged): // a serialization failure: nothing was read
		return nil, "", time.Time{}, fmt.Errorf("%w: %w", exact.ErrBusy, err)
	case err != nil:
		return nil, "", time.Time{}, err
	case is.Valid:
		revision = strconv.FormatInt(is.Int64, 10)
	}
	return value, revision, time.UnixMicro(micros), nil
}

// Swap implements [cas.Store].
func (s *store) Swap(ctx context.Context, name, revision string, value []byte, keep time.Duration) error {
	statement, args := s.statements.insert, []any{name, value, newRevision(), keep.Microseconds()}
	if revision != "" {
		was, err := strconv.ParseInt(revision, 10, 64)
		if err != nil {
			return fmt.Errorf("%w: sql: %q is no revision", exact.ErrNotCounted, revision)
		}
		statement, args = s.statements.update, append(args, was)
	}
	changed, err := s.exec(ctx, statement, args)
	switch {
	case err != nil:
		return err
	case changed == 0:
		return cas.ErrChanged
	}
	return nil
}

// Each implements [cas.ListedStore], a thousand accounts at a time.
func (s *store) Each(ctx context.Context, f func(name string, value []byte) error) error {
	type row struct {
		name  string
		value []byte
	}
	var last string
	for {
		var page []row // no connection is held while f takes its time
		rows, err := s.db.QueryContext(ctx, s.statements.list, last)
		if err != nil {
			return classify(err)
		}
		for rows.Next() {
			var r row
			if err = rows.Scan(&r.name, &r.value); err != nil {
				break
			}
			page = append(page, r)
		}
		if err := cmp.Or(err, rows.Err(), rows.Close()); err != nil {
			return classify(err)
		}
		for _, r := range page {
			last = r.name
			if err := f(r.name, r.value); err != nil {
				return err
			}
		}
		if len(page) == 0 {
			return nil
		}
	}
}

// exec runs a statement, and says whether it was run at all: a call that has waited in vain for a
// connection has sent nothing.
func (s *store) exec(ctx context.Context, statement string, args []any) (changed int64, err error) {
	for range tries {
		changed, err = s.execOnce(ctx, statement, args)
		if !errors.Is(err, driver.ErrBadConn) {
			break
		}
	}
	return changed, err
}

func (s *store) execOnce(ctx context.Context, statement string, args []any) (changed int64, err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		if err = classify(err); !errors.Is(err, exact.ErrNotCounted) {
			err = fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
		}
		return 0, err
	}
	defer conn.Close() //nolint:errcheck // it goes back to the pool
	done, err := conn.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, classify(err)
	}
	if changed, err = done.RowsAffected(); err != nil {
		return 0, fmt.Errorf("sql: %w", err)
	}
	return changed, nil
}

// newRevision returns a number that no name has had: drawn by the system, as what a process
// draws for itself is the same again in the copies of a machine that was stopped and cloned.
func newRevision() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return int64(binary.LittleEndian.Uint64(b[:]) >> 1)
}
